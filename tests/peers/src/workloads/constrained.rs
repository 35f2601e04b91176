//! Workloads whose cost depends on constraints: spread, affinity, ports, NodePools of teams, GPUs, and typical Helm charts.

use super::drawn::{many_daemons, usual};
use super::{Deployment, Key, Pool, Rule, Workload};

/// Returns the workloads, in the order of reports.
pub(super) fn all() -> Vec<Workload> {
    vec![
        equal("hosts-20", "20 pods of 1 CPU and 2 GiB, spread over hosts", SIZES[0], &[Rule::Spread(Key::Host, 1)]),
        equal(
            "hosts-20-small",
            "20 pods of 250m and 512Mi, spread over hosts",
            SIZES[1],
            &[Rule::Spread(Key::Host, 1)],
        ),
        equal("hosts-50", "50 pods of 500m and 1 GiB, spread over hosts", SIZES[2], &[Rule::Spread(Key::Host, 1)]),
        equal("apart-20", "20 pods of 1 CPU and 2 GiB that prefer separate hosts", SIZES[0], &APART_IF_POSSIBLE),
        equal("apart-20-small", "20 pods of 250m and 512Mi that prefer separate hosts", SIZES[1], &APART_IF_POSSIBLE),
        equal("apart-50", "50 pods of 500m and 1 GiB that prefer separate hosts", SIZES[2], &APART_IF_POSSIBLE),
        equal(
            "hosts-and-zones",
            "50 pods of 1 CPU and 1 GiB, spread over hosts with maxSkew 2 and zones with maxSkew 5",
            (50, 1000, 1024),
            &[Rule::Spread(Key::Host, 2), Rule::Spread(Key::Zone, 5)],
        ),
        charts(),
        web(),
        quorums(),
        teams(),
        gpus(),
        daemons(),
        caches(),
        ports(),
    ]
}

/// Replicas, millicores and MiB of the workloads with one Deployment.
const SIZES: [(usize, u64, u64); 3] = [(20, 1000, 2048), (20, 250, 512), (50, 500, 1024)];
const APART_IF_POSSIBLE: [Rule; 1] = [Rule::PrefersApart(Key::Host)];

fn equal(name: &'static str, about: &'static str, size: (usize, u64, u64), rules: &[Rule]) -> Workload {
    workload(name, about, vec![deployment("app", size, rules)])
}

/// Returns charts with two to five replicas each, as operators, gateways and databases have them.
fn charts() -> Workload {
    let sizes = [
        (2, 100, 128),
        (3, 250, 512),
        (2, 500, 1024),
        (3, 1000, 4096),
        (5, 200, 256),
        (2, 2000, 4096),
        (3, 500, 2048),
        (2, 50, 64),
        (3, 750, 1024),
        (2, 1500, 8192),
        (4, 300, 768),
        (2, 100, 1024),
    ];
    let chart = |(index, size): (usize, &_)| deployment(&format!("chart-{index:02}"), *size, &APART_IF_POSSIBLE);
    let about = "12 charts of 2 to 5 pods that prefer separate hosts";
    workload("charts", about, sizes.iter().enumerate().map(chart).collect())
}

/// Returns Deployments that are spread over zones, and over hosts if possible.
fn web() -> Workload {
    let rules = [Rule::Spread(Key::Zone, 1), Rule::PrefersSpread(Key::Host)];
    let size = |index: usize| (3 + index % 4 * 3, 200 + 150 * (index % 5) as u64, 256 << (index % 4));
    let about = "12 Deployments of 3 to 12 pods, spread over zones, and over hosts if possible";
    workload(
        "zones-and-hosts",
        about,
        (0..12).map(|it| deployment(&format!("web-{it:02}"), size(it), &rules)).collect(),
    )
}

/// Returns quorums whose pods never share a host, beside plain pods.
fn quorums() -> Workload {
    let rules = [Rule::Apart(Key::Host), Rule::Spread(Key::Zone, 1)];
    let quorum = |index: usize| {
        deployment(&format!("quorum-{index}"), (3 + index % 2 * 2, 500 << (index % 3), 2048 << (index % 3)), &rules)
    };
    let plain = |index: usize| deployment(&format!("plain-{index}"), (10, 100 + 200 * index as u64, 512), &[]);
    let about = "6 quorums of 3 or 5 pods on hosts of their own, spread over zones, beside 60 plain pods";
    workload("quorums", about, (0..6).map(quorum).chain((0..6).map(plain)).collect())
}

/// Returns Deployments of three teams with a NodePool each, spread over the hosts of the team.
fn teams() -> Workload {
    let pool = |team| Pool { name: team, requirements: usual(), team: Some(team) };
    let of_team = |(number, team): (usize, &'static str)| {
        let rules = [Rule::Team(team), Rule::Spread(Key::Host, 1)];
        (0..4).map(move |index| {
            let size = (4 + 2 * index, 250 * (1 + number as u64), 512 << index);
            deployment(&format!("{team}-{index}"), size, &rules)
        })
    };
    let names = ["blue", "green", "red"];
    Workload {
        pools: names.map(pool).into(),
        ..workload(
            "teams",
            "3 teams with a NodePool each: 4 Deployments of 4 to 10 pods, spread over the hosts of the team",
            names.into_iter().enumerate().flat_map(of_team).collect(),
        )
    }
}

/// Returns pods with one GPU each, spread over hosts, beside pods without GPU that prefer separate hosts.
fn gpus() -> Workload {
    let mut requirements = usual();
    requirements[0].2.push("g");
    let trained = Deployment { gpus: 1, ..deployment("inference", (6, 3000, 12_288), &[Rule::Spread(Key::Zone, 1)]) };
    let mut deployments = vec![trained];
    deployments
        .extend((0..5).map(|it| deployment(&format!("app-{it}"), (6, 500, 1024 << (it % 3)), &APART_IF_POSSIBLE)));
    Workload {
        pools: Pool::only(requirements),
        ..workload("gpus", "6 pods with a GPU, spread over zones, beside 30 that prefer separate hosts", deployments)
    }
}

/// Returns the DaemonSets of [`many_daemons`] beside Deployments that are spread over hosts.
fn daemons() -> Workload {
    let size = |index: usize| (10, 400 + 300 * index as u64, 1024 + 1024 * index as u64);
    let app = |index: usize| deployment(&format!("app-{index}"), size(index), &[Rule::Spread(Key::Host, 1)]);
    let about = "20 DaemonSets of about 1.5 CPUs and 3 GiB a node, 5 Deployments of 10 pods, spread over hosts";
    Workload { daemons: many_daemons().daemons, ..workload("hosts-and-daemons", about, (0..5).map(app).collect()) }
}

/// Returns web servers that need a cache on their host; the caches never share a host.
fn caches() -> Workload {
    let about = "4 caches on hosts of their own, and 24 web servers, each on a host with a cache";
    let cache = deployment("cache", (4, 1000, 8192), &[Rule::Apart(Key::Host)]);
    let web = deployment("web", (24, 500, 1024), &[Rule::Near(Key::Host, "cache")]);
    workload("near-a-cache", about, vec![cache, web])
}

/// Returns gateways with a host port beside plain pods.
fn ports() -> Workload {
    let mut deployments = vec![
        deployment("gateway", (6, 500, 512), &[Rule::Port(8443)]),
        deployment("probe", (4, 100, 128), &[Rule::Port(9100)]),
    ];
    deployments.extend((0..5).map(|it| deployment(&format!("app-{it}"), (10, 250 + 250 * it, 1024), &[])));
    workload("host-ports", "10 pods with one of two host ports beside 50 plain pods", deployments)
}

fn workload(name: &'static str, about: &'static str, deployments: Vec<Deployment>) -> Workload {
    Workload { name, about, pools: Pool::only(usual()), deployments, daemons: Vec::new(), constrained: true }
}

fn deployment(name: &str, (replicas, cpu, memory): (usize, u64, u64), rules: &[Rule]) -> Deployment {
    Deployment { name: name.to_owned(), replicas, cpu, memory, rules: rules.to_vec(), ..Deployment::default() }
}
