//! Instance types, NodePools and nodes of a scenario.

use std::collections::BTreeMap;

use planner::{
    Budgets, ConsolidationPolicy, Disruption, Drifted, InstanceType, Leaving, MicroDollars, Millis, MinimumSavings,
    Node, Packing, Pool, Pressure, Resources, Size, Stage, Unhealthy, Usage, Utilization, label,
};

use super::NOW;
use super::statement::Statement;
use crate::words;

/// Returns the instance types of one statement: one, or several identical ones with increasing prices.
pub fn instance_types(statement: &Statement) -> Result<Vec<InstanceType>, String> {
    let dearer = statement.word("dearer").map(words::dollars).transpose()?.unwrap_or_default();
    let types = statement.names().into_iter().zip(0_i64..);
    types.map(|(name, place)| instance_type(statement, name, MicroDollars(dearer.0 * place))).collect()
}

fn instance_type(statement: &Statement, name: String, dearer: MicroDollars) -> Result<InstanceType, String> {
    let capacity = statement.resources("has")?;
    let mut allocatable = capacity.clone();
    allocatable.subtract(&statement.resources("keeps")?);
    let labels = statement.labels("labels")?.into_iter();
    let mut offerings = Vec::new();
    for word in statement.get("offers").unwrap_or_default() {
        let mut offering = words::offering(word)?;
        offering.price.0 += dearer.0;
        offerings.push(offering);
    }
    Ok(InstanceType {
        name,
        labels: labels.map(|(key, values)| (key, values.split(',').map(str::to_owned).collect())).collect(),
        capacity,
        allocatable,
        offerings,
        performance: statement.number("performs")?,
        attach_limits: statement.counts("attaches")?,
        ..InstanceType::default()
    })
}

/// Returns a NodePool with the catalogue at that position.
pub fn pool(statement: &Statement, catalogue: usize) -> Result<Pool, String> {
    let mut labels = statement.labels("labels")?;
    labels.insert(words::key("nodepool"), statement.name.clone());
    Ok(Pool {
        name: statement.name.clone(),
        weight: statement.number("weight")?.unwrap_or(0),
        catalogue,
        requirements: statement.get("requires").map(words::conjunction).transpose()?.unwrap_or_default(),
        labels,
        taints: statement.taints()?,
        limits: statement.get("limits").map(words::resources).transpose()?,
        usage: Resources::default(),
        disruption: disruption(statement)?,
        replicas: statement.number("replicas")?,
        running: 0,
        node_fee: statement.word("fee").map(words::dollars).transpose()?.unwrap_or_default(),
    })
}

/// Parses the disruption settings; by default only empty nodes are removed.
fn disruption(statement: &Statement) -> Result<Disruption, String> {
    let consolidate_after = match statement.word("waits") {
        Some("never") => None,
        Some(word) => Some(words::duration(word)?),
        None => Some(0),
    };
    let policy = match statement.get("consolidates") {
        None => ConsolidationPolicy::WhenEmpty,
        Some([]) => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        Some([word]) if word == "balanced" => ConsolidationPolicy::Balanced,
        Some(words) => return Err(format!("a pool consolidates, or consolidates balanced, not {words:?}")),
    };
    let utilization = match statement.word("utilization") {
        None | Some("observed") => Utilization::Observe,
        Some("ignored") => Utilization::Ignore,
        Some("packed") => Utilization::Pack,
        Some(word) => return Err(format!("utilization is observed, ignored or packed, not {word}")),
    };
    let (worth, packing) = (worth(statement)?, packing(statement)?);
    Ok(Disruption { consolidate_after, policy, budgets: budgets(statement)?, worth, utilization, packing })
}

/// Parses `worth THOUSANDTHS DOLLARS` (share of the price, and dollars per pod) and `warms DURATION`.
fn worth(statement: &Statement) -> Result<MinimumSavings, String> {
    let usual = MinimumSavings::default();
    let warm_up = statement.word("warms").map(words::duration).transpose()?.unwrap_or(usual.warm_up);
    match statement.get("worth") {
        None => Ok(MinimumSavings { warm_up, ..usual }),
        Some([share, per_pod]) => Ok(MinimumSavings {
            share: share.parse().map_err(|_| "worth wants thousandths and dollars a pod")?,
            per_pod: words::dollars(per_pod)?,
            warm_up,
        }),
        Some(_) => Err("worth wants thousandths and dollars a pod".to_owned()),
    }
}

/// Parses `packs MARGIN FLOOR HOURS`, with the first two in thousandths.
fn packing(statement: &Statement) -> Result<Packing, String> {
    let Some(said) = statement.get("packs") else { return Ok(Packing::default()) };
    let numbers: Vec<u32> = said.iter().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [margin, floor, history] => Ok(Packing { margin, floor, history }),
        _ => Err("packs wants a margin and a floor in thousandths, and hours".to_owned()),
    }
}

fn budgets(statement: &Statement) -> Result<Budgets, String> {
    let all = statement.number("may-lose")?.unwrap_or(u32::MAX);
    let of = |clause| Ok::<u32, String>(statement.number(clause)?.unwrap_or(all).min(all));
    Ok(Budgets {
        empty: of("may-lose-empty")?,
        underutilized: of("may-lose-underutilized")?,
        drifted: of("may-lose-drifted")?,
        expired: of("may-lose-expired")?,
    })
}

/// Parses the usage of a node: `uses cpu=1 memory=2Gi` and `pressed` (`memory`, `disk` or `killed`). `apart cpu=2 memory=3Gi`
/// is the sum of its pods' single limits, and `lately` the usage of pods that are too new to show.
fn usage(statement: &Statement) -> Result<Option<Usage>, String> {
    let Some(said) = statement.get("uses") else { return Ok(None) };
    let (amounts, pressed): (Vec<String>, Vec<String>) = said.iter().cloned().partition(|word| word.contains('='));
    let pressed = match pressed.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["pressed"] => Some(Pressure::Cpu),
        ["pressed", "memory"] => Some(Pressure::Memory),
        ["pressed", "disk"] => Some(Pressure::Disk),
        ["pressed", "killed"] => Some(Pressure::Killed),
        _ => return Err(format!("a node is pressed, for memory, disk or killed, not {pressed:?}")),
    };
    let amounts = Size::from_resources(&words::resources(&amounts)?);
    let of_pods = Size::from_resources(&statement.resources("apart")?);
    let newcomers = Size::from_resources(&statement.resources("lately")?);
    Ok(Some(Usage { cpu: amounts.cpu, memory: amounts.memory, pressed, of_pods, newcomers }))
}

/// Returns the start and the name of a state.
fn since(statement: &Statement, clause: &str) -> Result<Option<(Millis, String)>, String> {
    let Some(said) = statement.get(clause) else { return Ok(None) };
    let name = said.first().cloned().unwrap_or_default();
    let ago = said.get(1).map(|word| words::duration(word)).transpose()?.unwrap_or(0);
    Ok(Some((Millis(NOW - ago), name)))
}

/// Returns a node without pods and without the labels of its NodePool.
pub fn node(statement: &Statement, name: &str, kind: &InstanceType) -> Result<Node, String> {
    let has = |word: &str| statement.has(word);
    let pool = statement.word("of").map(str::to_owned);
    let stage = match (has("in-flight"), has("registered")) {
        (true, _) => Stage::InFlight,
        (_, true) => Stage::Registered,
        _ => Stage::Initialized,
    };
    let (mut labels, price) = bought(statement, kind)?;
    if stage != Stage::InFlight {
        labels.entry(label::HOSTNAME.to_owned()).or_insert_with(|| name.to_owned());
    }
    labels.extend(statement.labels("labels")?);
    let interrupted = has("interrupted").then_some(Leaving::Interrupted { deadline: Some(Millis(NOW + 120_000)) });
    let attach_limits = if has("attaches") { statement.counts("attaches")? } else { kind.attach_limits.clone() };
    Ok(Node {
        name: name.to_owned(),
        claim: pool.is_some().then(|| format!("{name}-claim")),
        pool,
        stage,
        leaving: interrupted.or(has("deleting").then_some(Leaving::Deleting)),
        unschedulable: has("cordoned"),
        labels,
        requirements: statement.get("requires").map(words::conjunction).transpose()?.unwrap_or_default(),
        instance_type: Some(kind.name.clone()),
        taints: statement.taints()?,
        allocatable: kind.allocatable.clone(),
        attach_limits,
        created: Millis(statement.word("stands").map(words::duration).transpose()?.map_or(0, |age| NOW - age)),
        quiet_since: quiet_since(statement)?.filter(|_| stage == Stage::Initialized),
        do_not_disrupt: has("held"),
        nominated_until: has("expected").then_some(Millis(NOW + 20_000)),
        price,
        expires: expired(statement)?,
        termination_grace: statement.word("grace").map(words::duration).transpose()?,
        drifted: since(statement, "drifted")?.map(|(since, reason)| Drifted { since, reason }),
        unhealthy: since(statement, "unhealthy")?.map(|(due, condition)| Unhealthy { due, condition }),
        usage: usage(statement)?,
        ..Node::default()
    })
}

/// Parses `expired`, with an optional time since the expiration.
fn expired(statement: &Statement) -> Result<Option<Millis>, String> {
    let Some(said) = statement.get("expired") else { return Ok(None) };
    let ago = said.first().map(|word| words::duration(word)).transpose()?.unwrap_or(0);
    Ok(Some(Millis(NOW - ago)))
}

/// Parses `quiet`, by default one hour. With `unknown`, the NodeClaim of the node is not reported as initialized yet.
fn quiet_since(statement: &Statement) -> Result<Option<Millis>, String> {
    let quiet = match statement.word("quiet") {
        None => 3_600_000,
        Some("unknown") => return Ok(None),
        Some(word) => words::duration(word)?,
    };
    Ok(Some(Millis(NOW - quiet)))
}

/// Returns the labels of a node with the type and the offering after `at`, and the price if the offering exists.
fn bought(
    statement: &Statement,
    kind: &InstanceType,
) -> Result<(BTreeMap<String, String>, Option<MicroDollars>), String> {
    let mut labels = type_labels(kind);
    let Some((tier, zone)) = statement.word("at").and_then(|word| word.split_once('@')) else {
        return Ok((labels, None));
    };
    labels.insert(label::CAPACITY_TYPE.to_owned(), tier.to_owned());
    labels.insert(label::ZONE.to_owned(), zone.to_owned());
    let tier = words::capacity_type(tier)?;
    let sold = kind.offerings.iter().find(|it| it.zone == zone && it.capacity_type == tier);
    if let Some(sold) = sold {
        labels.extend(sold.labels.clone());
    }
    Ok((labels, sold.map(|it| it.price)))
}

/// Returns the labels of every node of the type.
fn type_labels(kind: &InstanceType) -> BTreeMap<String, String> {
    let single = kind.labels.iter().filter(|(_, values)| values.len() == 1);
    let mut labels: BTreeMap<String, String> = single.map(|(key, it)| (key.clone(), it[0].clone())).collect();
    labels.insert(label::INSTANCE_TYPE.to_owned(), kind.name.clone());
    labels
}
