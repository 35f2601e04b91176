//! Pages of `docs/how-to` and their examples. The output of `kerf` equals the text on the page, and each pod gets the node that
//! the page states. Every name on a page exists. `BLESS=1` writes the current output into the pages.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "how_to/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::page::{Block, blocks, copy, here};
use api::label;
use cli::plan::{Conditions, PlanAnswer, view};

/// Examples that pages outside `docs/how-to` describe.
const ELSEWHERE: [(&str, &str); 4] = [
    ("consolidation", "docs/disruption.md"),
    ("getting-started", "docs/getting-started.md"),
    ("shop", "README.md"),
    ("team-costs", "docs/team-costs.md"),
];

fn read(path: &str) -> String {
    std::fs::read_to_string(here(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the pages whose commands are run, as paths in the repository.
fn pages() -> Vec<String> {
    let mut found: Vec<String> = names("docs/how-to").into_iter().map(|name| format!("docs/how-to/{name}")).collect();
    found.extend(["docs/getting-started.md", "docs/team-costs.md"].map(str::to_owned));
    found
}

/// Returns the sorted names of a folder's entries.
fn names(folder: &str) -> Vec<String> {
    let entries = here(folder).read_dir().unwrap();
    let mut found: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}

/// Reports whether a command reads a cluster, or what another command read there. The demo runs these.
fn asks_a_cluster(line: &str) -> bool {
    let verbs = ["log", "report", "compare", "record", "replay"];
    let reads_files = line.contains(" --from ");
    !reads_files
        && (line.contains(" --live") || line.split_whitespace().nth(1).is_some_and(|verb| verbs.contains(&verb)))
}

/// A user who follows a page, in a temporary folder with the examples.
struct Reader {
    folder: tempfile::TempDir,
    /// Variables that the page has exported so far.
    environment: Vec<(String, String)>,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&here("examples"), &folder.path().join("examples"));
        Self { folder, environment: Vec::new() }
    }

    /// Runs a line and returns its output. Lines of unavailable programs are validated without being run.
    fn follow(&mut self, line: &str, expected: i32) -> String {
        let known: Vec<(&str, &str)> = self.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        programs::variables(line, &known);
        match line.split_whitespace().next().unwrap_or("#") {
            "#" => String::new(),
            "export" => {
                self.environment.extend(programs::exported(line));
                String::new()
            }
            "kerf" if asks_a_cluster(line) => String::new(),
            "kerf" | "perl" => {
                let (code, out, err) = crate::shell::run(self.folder.path(), line, &known);
                assert_eq!(code, expected, "{line}\n{out}{err}");
                out
            }
            _ => {
                programs::validate(line);
                String::new()
            }
        }
    }
}

/// Returns the page with the output of its commands, in order.
fn carried_out(path: &str) -> String {
    let text = read(path);
    let (all, mut reader) = (blocks(&text), Reader::new());
    let mut pieces: Vec<String> = text.split("```").map(str::to_owned).collect();
    for (number, block) in all.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let shown = all.get(number + 1).filter(|next| next.language == "text");
        let expected = if shown.is_some_and(|it| it.text.contains("\nUNSCHEDULABLE\n")) { 3 } else { 0 };
        let printed: String = block.commands().iter().map(|line| reader.follow(line, expected)).collect();
        if shown.is_some() {
            pieces[2 * number + 3] = format!("text\n{printed}");
        }
    }
    pieces.join("```")
}

#[test]
fn pages_contain_the_output_of_their_commands() {
    for path in pages() {
        let found = carried_out(&path);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(here(&path), &found).unwrap();
        }
        let expected = read(&path);
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{path}, line {}; review with BLESS=1", number + 1);
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{path}; review with BLESS=1");
    }
}

#[test]
fn pages_show_output_of_at_most_80_columns() {
    for path in pages() {
        let shown: Vec<Block> = blocks(&read(&path)).into_iter().filter(|block| block.language == "text").collect();
        assert!(!shown.is_empty(), "{path} shows nothing");
        for line in shown.iter().flat_map(|block| block.text.lines()) {
            assert!(line.chars().count() <= 80, "{path}: {line}");
        }
    }
}

#[test]
fn pages_and_examples_refer_to_each_other() {
    let jobs = names("docs/how-to");
    assert!(jobs.len() >= 8, "{jobs:?}");
    let mut documented: Vec<String> = jobs.iter().map(|name| name.strip_suffix(".md").unwrap().to_owned()).collect();
    documented.extend(ELSEWHERE.map(|(name, _)| name.to_owned()));
    documented.sort();
    assert_eq!(documented, names("examples"));
    for job in jobs {
        let (page, example) = (format!("docs/how-to/{job}"), format!("examples/{}", job.trim_end_matches(".md")));
        assert!(read(&page).contains(&format!("kerf plan {example}")), "{page} does not plan {example}");
        let introduced = read(&format!("{example}/README.md"));
        assert!(introduced.contains(&page), "{example}/README.md does not name {page}");
        assert!(read("README.md").contains(&page), "README.md does not name {page}");
    }
    for (name, page) in ELSEWHERE {
        assert!(read(page).contains(&format!("examples/{name}")), "{page} does not name examples/{name}");
    }
}

#[test]
fn pages_and_examples_respect_their_maximum_length() {
    for (folder, limit) in [("docs/how-to", 80), ("examples", 40)] {
        for name in names(folder) {
            let file = if name.ends_with(".md") { name } else { name + "/README.md" };
            let lines = read(&format!("{folder}/{file}")).lines().count();
            assert!(lines <= limit, "{folder}/{file} has {lines} lines, at most {limit} are read");
        }
    }
}

/// Every quotation of a manifest occurs literally in its example, except for indentation.
#[test]
fn pages_quote_only_yaml_of_their_example() {
    for name in names("docs/how-to") {
        let folder = here("examples").join(name.trim_end_matches(".md"));
        let files: Vec<String> = manifests(&folder).iter().map(|path| trimmed(&read_file(path))).collect();
        for block in blocks(&read(&format!("docs/how-to/{name}"))) {
            let quoted = trimmed(&block.text);
            let known = block.language != "yaml" || files.iter().any(|file| file.contains(&quoted));
            assert!(known, "docs/how-to/{name} quotes what is not in its example:\n{}", block.text);
        }
    }
}

fn read_file(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect()
}

/// Returns the lines of a text without their indentation, each with a line end.
fn trimmed(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// Returns the repository's files and folders that a page names in backticks or links to.
fn named(path: &str) -> Vec<String> {
    let text = read(path);
    let prose: String = text.split("```").step_by(2).collect();
    let ticked = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    let folders = ["docs/", "examples/", "controller/", "cli/", "packer/", "systemd/", "images/"];
    let mut all: Vec<String> = ticked.filter(|word| folders.iter().any(|folder| word.starts_with(folder))).collect();
    let folder = Path::new(path).parent().unwrap();
    for link in prose.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        all.push(folder.join(link.split('#').next().unwrap()).display().to_string());
    }
    all
}

#[test]
fn pages_name_only_existing_files() {
    let introductions = names("examples").into_iter().map(|name| format!("examples/{name}/README.md"));
    for path in pages().into_iter().chain(introductions) {
        for file in named(&path) {
            assert!(!file.contains(' ') && here(&file).exists(), "{path} names {file}, which is missing");
        }
    }
}

/// Metrics, events and conditions on pages have the names that the programs use.
#[test]
fn pages_name_only_metrics_events_and_conditions_that_exist() {
    let lists = [
        ("metric", read("docs/metrics.md"), '`'),
        ("event", read("crates/api/src/names/reason.rs"), '"'),
        ("condition", read("crates/api/src/names/condition.rs"), '"'),
        ("alert", read("docs/runbook.md"), '\n'),
    ];
    for path in pages() {
        let text = read(&path);
        let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
        let mut watched = 0;
        for (kind, rest) in rows {
            let Some((_, list, end)) = lists.iter().find(|(known, ..)| *known == kind) else { continue };
            let name = rest.split(['`', '{']).next().unwrap();
            assert!(list.contains(&format!("{name}{end}")), "{path} watches {kind} {name}, which does not exist");
            watched += 1;
        }
        assert!(watched > 1, "{path} watches {watched} things");
    }
}

/// Returns the placement of an example's pods: `COUNT x OWNER on POOL, CAPACITY TYPE, ARCHITECTURES`.
fn places(example: &str) -> Vec<String> {
    let manifests = cli::input::read(&[here("examples").join(example)], &mut std::io::empty()).unwrap();
    let answer = cli::plan::answer(manifests, &Conditions::at("2026-11-23T12:00:00Z".parse().unwrap())).unwrap();
    let waiting = cli::plan::report::PlanReport::new(&answer).unschedulable;
    assert!(waiting.is_empty(), "{example}: {waiting:?}");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (machine, launch) in view::launched(&answer).iter().zip(&answer.plan.launches) {
        let arch = launch.requirements.iter().find(|it| it.key == label::ARCH).unwrap();
        let place = format!("{}, {}, {}", launch.pool, machine.capacity_type, arch.values.join(" or "));
        count(&answer, &machine.pods, &place, &mut counts);
    }
    for machine in view::existing(&answer) {
        count(&answer, &machine.pods, &machine.name, &mut counts);
    }
    counts.into_iter().map(|(who, count)| format!("{count} x {who}")).collect()
}

fn count(answer: &PlanAnswer, pods: &[usize], place: &str, counts: &mut BTreeMap<String, usize>) {
    for (owner, count) in view::owners(answer, pods) {
        *counts.entry(format!("{owner} on {place}")).or_default() += count;
    }
}

/// Placements that the pages state, by example.
const PLACES: &str = "\
ami: 6 x Deployment default/accounts on ami-stable, on-demand, amd64
ami: 1 x Deployment default/accounts-canary on ami-canary, on-demand, amd64
batch: 2 x Job default/closing on batch-jobs, on-demand, amd64
batch: 2 x Job default/render on batch-jobs, on-demand, amd64
batch: 18 x Job default/render on batch-jobs, spot, amd64
bottlerocket: 6 x Deployment default/gateway on bottlerocket, spot, arm64
commitments: 22 x Deployment default/catalog on catalog, on-demand, amd64
commitments: 2 x Deployment default/catalog on catalog, spot, amd64
cost-limit: 4 x Deployment default/basket on limited, on-demand, amd64
cost-limit: 12 x Deployment default/newsletter on limited, on-demand, amd64
gpu: 3 x Deployment default/inference on gpu, on-demand, amd64
gpu: 1 x Job default/tuning on gpu, on-demand, amd64
graviton: 3 x Deployment default/invoices on x86, on-demand, amd64
graviton: 6 x Deployment default/orders on graviton, on-demand, arm64
hybrid: 1 x Deployment default/ingress on ip-10-0-1-11.ec2.internal
hybrid: 1 x Deployment default/ingress on ip-10-0-2-12.ec2.internal
hybrid: 6 x Deployment default/storefront on burst, spot, amd64
hybrid: 3 x Deployment default/storefront on ip-10-0-1-11.ec2.internal
hybrid: 3 x Deployment default/storefront on ip-10-0-2-12.ec2.internal
kueue: 8 x capacity for ProvisioningRequest default/forecast on forecast, on-demand, amd64
kwok: 6 x Deployment default/shop on trial, spot, amd64
night: 6 x Deployment default/staging on staging, on-demand, amd64
pod-group: 8 x Job default/training on training, on-demand, amd64
spend-policy: 4 x Deployment default/portal on team-web, on-demand, amd64
spend-policy: 10 x Deployment default/simulation on team-research, on-demand, amd64
spot-with-fallback: 4 x Deployment default/frontend on general, on-demand, amd64
spot-with-fallback: 6 x Deployment default/frontend on general, spot, amd64
spot-with-fallback: 1 x Deployment default/thumbnails on general, on-demand, amd64
spot-with-fallback: 3 x Deployment default/thumbnails on general, spot, amd64
stateful: 3 x StatefulSet default/ledger on stateful, on-demand, amd64 or arm64
";

#[test]
fn plan_places_each_pod_as_its_page_states() {
    let jobs = names("docs/how-to").into_iter().map(|name| name.trim_end_matches(".md").to_owned());
    let lines = jobs.flat_map(|job| places(&job).into_iter().map(move |place| format!("{job}: {place}\n")));
    assert_eq!(lines.collect::<String>(), PLACES);
}

/// A user may read several examples as one cluster, so their objects need unique names.
#[test]
fn examples_have_unique_object_names() {
    let together = cli::input::read(&[here("examples")], &mut std::io::empty()).unwrap();
    assert!(together.objects.pools.len() > names("docs/how-to").len());
}
