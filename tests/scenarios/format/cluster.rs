//! Instance types, NodePools and nodes of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    Budgets, Commitment, ConsolidationPolicy, Disruption, DriftCanary, Drifted, InstanceType, Leaving, MicroDollars,
    Millis, MinimumSavings, Node, Packing, Pool, Pressure, ReplacementState, Resources, Size, SpendLimit, Stage,
    Unhealthy, Usage, Utilization, label,
};

use super::NOW;
use super::statement::Statement;
use crate::values;

/// Returns the instance types of one statement: one, or several identical ones with increasing prices.
pub fn instance_types(statement: &Statement) -> Result<Vec<InstanceType>, String> {
    let dearer = statement.word("price-step").map(values::dollars).transpose()?.unwrap_or_default();
    let types = statement.names().into_iter().zip(0_i64..);
    types.map(|(name, place)| instance_type(statement, name, MicroDollars(dearer.0 * place))).collect()
}

fn instance_type(statement: &Statement, name: String, dearer: MicroDollars) -> Result<InstanceType, String> {
    let capacity = statement.resources("capacity")?;
    let mut allocatable = capacity.clone();
    allocatable.subtract(&statement.resources("reserved")?);
    let labels = statement.labels("labels")?.into_iter();
    let mut offerings = Vec::new();
    for word in statement.get("offerings").unwrap_or_default() {
        let mut offering = values::offering(word)?;
        offering.price.0 += dearer.0;
        offerings.push(offering);
    }
    Ok(InstanceType {
        name,
        labels: labels.map(|(key, values)| (key, values.split(',').map(str::to_owned).collect())).collect(),
        capacity,
        allocatable,
        offerings,
        performance: statement.number("performance")?,
        attach_limits: statement.counts("attach-limits")?,
        ..InstanceType::default()
    })
}

/// Returns a NodePool with the catalogue at that position.
pub fn pool(statement: &Statement, catalogue: usize) -> Result<Pool, String> {
    let mut labels = statement.labels("labels")?;
    labels.insert(values::key("nodepool"), statement.name.clone());
    Ok(Pool {
        name: statement.name.clone(),
        weight: statement.number("weight")?.unwrap_or(0),
        catalogue,
        requirements: statement.get("requires").map(values::conjunction).transpose()?.unwrap_or_default(),
        labels,
        taints: statement.taints()?,
        limits: statement.get("limits").map(values::resources).transpose()?,
        usage: Resources::default(),
        cost_limit: statement.word("max-cost").map(values::dollars).transpose()?,
        cost: MicroDollars::default(),
        disruption: disruption(statement)?,
        replicas: statement.number("replicas")?,
        running: 0,
        is_inactive: statement.has("inactive"),
        replacements: replacements(statement)?,
        paused_until: statement
            .word("launches-paused-for")
            .map(values::duration)
            .transpose()?
            .map(|it| Millis(NOW + it)),
        node_fee: statement.word("node-fee").map(values::dollars).transpose()?.unwrap_or_default(),
        preference_premium: statement.word("preference-premium").map(values::premium).transpose()?,
    })
}

/// Returns a limit of the cost of NodePools together, without their cost.
pub fn spend_limit(statement: &Statement) -> Result<SpendLimit, String> {
    Ok(SpendLimit {
        name: SpendLimit::of_policy(&statement.name),
        limit: values::dollars(statement.word("max-cost").ok_or("a spend-policy wants max-cost DOLLARS")?)?,
        cost: MicroDollars::default(),
        pools: statement.get("pools").ok_or("a spend-policy wants pools POOL")?.iter().cloned().collect(),
    })
}

/// Returns a commitment that pays for no nodes yet.
pub fn commitment(statement: &Statement) -> Result<Commitment, String> {
    let uses = statement.get("uses").ok_or("a commitment wants uses TYPE=AMOUNT")?.iter().map(|text| {
        let (kind, amount) = text.split_once('=').ok_or_else(|| format!("{text} is not TYPE=AMOUNT"))?;
        Ok((kind.to_owned(), values::dollars(amount)?.0))
    });
    Ok(Commitment {
        name: statement.name.clone(),
        left: values::dollars(statement.word("amount").ok_or("a commitment wants an amount")?)?.0,
        uses: Arc::new(uses.collect::<Result<_, String>>()?),
        zone: statement.word("zone").map(str::to_owned),
    })
}

/// Parses the permission of replacements: `replacements one`, `replacements awaiting CLAIM` or `replacements failed N DURATION`.
fn replacements(statement: &Statement) -> Result<ReplacementState, String> {
    let Some(words) = statement.get("replacements") else { return Ok(ReplacementState::Allowed) };
    match words {
        [one] if one == "one" => Ok(ReplacementState::One),
        [word, claim] if word == "awaiting" => Ok(ReplacementState::Awaiting { claim: claim.clone() }),
        [word, count, left] if word == "failed" => Ok(ReplacementState::Paused {
            failures: count.parse().map_err(|_| "replacements failed wants a number")?,
            until: Millis(NOW + values::duration(left)?),
        }),
        _ => Err(format!("replacements are one, awaiting a claim, or failed N times with a pause, not {words:?}")),
    }
}

/// Parses the disruption settings; by default only empty nodes are removed.
fn disruption(statement: &Statement) -> Result<Disruption, String> {
    let consolidate_after = match statement.word("consolidate-after") {
        Some("never") => None,
        Some(word) => Some(values::duration(word)?),
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
    let (budgets, canary) = (budgets(statement)?, drift_canary(statement)?);
    Ok(Disruption { consolidate_after, policy, budgets, worth, utilization, packing, canary })
}

/// Parses `drift-canary NODES DURATION`.
fn drift_canary(statement: &Statement) -> Result<Option<DriftCanary>, String> {
    match statement.get("drift-canary") {
        None => Ok(None),
        Some([nodes, time]) => {
            let nodes = nodes.parse().map_err(|_| "drift-canary wants a number of nodes and a duration")?;
            Ok(Some(DriftCanary { nodes, time: values::duration(time)? }))
        }
        Some(_) => Err("drift-canary wants a number of nodes and a duration".to_owned()),
    }
}

/// Parses `min-savings THOUSANDTHS DOLLARS` (share of the price, and dollars per pod), `warm-up DURATION` and `lost-work ignore`.
fn worth(statement: &Statement) -> Result<MinimumSavings, String> {
    let usual = MinimumSavings::default();
    let warm_up = statement.word("warm-up").map(values::duration).transpose()?.unwrap_or(usual.warm_up);
    let lost_work = statement.word("lost-work") != Some("ignore");
    match statement.get("min-savings") {
        None => Ok(MinimumSavings { warm_up, lost_work, ..usual }),
        Some([share, per_pod]) => Ok(MinimumSavings {
            share: share.parse().map_err(|_| "min-savings wants thousandths and dollars a pod")?,
            per_pod: values::dollars(per_pod)?,
            warm_up,
            lost_work,
        }),
        Some(_) => Err("min-savings wants thousandths and dollars a pod".to_owned()),
    }
}

/// Parses `packing MARGIN FLOOR HOURS`, with the first two in thousandths.
fn packing(statement: &Statement) -> Result<Packing, String> {
    let Some(reported) = statement.get("packing") else { return Ok(Packing::default()) };
    let numbers: Vec<u32> = reported.iter().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [margin, floor, history] => Ok(Packing { margin, floor, history }),
        _ => Err("packing wants a margin and a floor in thousandths, and hours".to_owned()),
    }
}

fn budgets(statement: &Statement) -> Result<Budgets, String> {
    let all = statement.number("budget")?.unwrap_or(u32::MAX);
    let of = |clause| Ok::<u32, String>(statement.number(clause)?.unwrap_or(all).min(all));
    Ok(Budgets {
        empty: of("budget-empty")?,
        underutilized: of("budget-underutilized")?,
        drifted: of("budget-drifted")?,
        expired: of("budget-expired")?,
    })
}

/// Parses the usage of a node: `usage cpu=1 memory=2Gi` and `pressed` (`memory`, `disk` or `killed`). `usage-limits cpu=2 memory=3Gi`
/// is the sum of its pods' single limits, and `recent-pods` the usage of pods that are too new to show.
fn usage(statement: &Statement) -> Result<Option<Usage>, String> {
    let Some(reported) = statement.get("usage") else { return Ok(None) };
    let (amounts, pressed): (Vec<String>, Vec<String>) = reported.iter().cloned().partition(|word| word.contains('='));
    let pressed = match pressed.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["pressed"] => Some(Pressure::Cpu),
        ["pressed", "memory"] => Some(Pressure::Memory),
        ["pressed", "disk"] => Some(Pressure::Disk),
        ["pressed", "killed"] => Some(Pressure::Killed),
        _ => return Err(format!("a node is pressed, for memory, disk or killed, not {pressed:?}")),
    };
    let amounts = Size::from_resources(&values::resources(&amounts)?);
    let of_pods = Size::from_resources(&statement.resources("usage-limits")?);
    let newcomers = Size::from_resources(&statement.resources("recent-pods")?);
    Ok(Some(Usage { cpu: amounts.cpu, memory: amounts.memory, pressed, of_pods, newcomers }))
}

/// Returns the start and the name of a state.
fn since(statement: &Statement, clause: &str) -> Result<Option<(Millis, String)>, String> {
    let Some(reported) = statement.get(clause) else { return Ok(None) };
    let name = reported.first().cloned().unwrap_or_default();
    let ago = reported.get(1).map(|word| values::duration(word)).transpose()?.unwrap_or(0);
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
    let attach_limits =
        if has("attach-limits") { statement.counts("attach-limits")? } else { kind.attach_limits.clone() };
    Ok(Node {
        name: name.to_owned(),
        claim: pool.is_some().then(|| format!("{name}-claim")),
        pool,
        stage,
        leaving: interrupted.or(has("deleting").then_some(Leaving::Deleting)),
        unschedulable: has("cordoned"),
        labels,
        requirements: statement.get("requires").map(values::conjunction).transpose()?.unwrap_or_default(),
        instance_type: Some(kind.name.clone()),
        taints: statement.taints()?,
        allocatable: kind.allocatable.clone(),
        attach_limits,
        created: Millis(statement.word("age").map(values::duration).transpose()?.map_or(0, |age| NOW - age)),
        healthy_since: ago(statement, "healthy")?.filter(|_| stage == Stage::Initialized),
        quiet_since: ago(statement, "quiet")?.filter(|_| stage == Stage::Initialized),
        do_not_disrupt: has("do-not-disrupt"),
        rebooting: has("rebooting"),
        nominated_until: has("nominated").then_some(Millis(NOW + 20_000)),
        price,
        expires: expired(statement)?,
        termination_grace: statement.word("termination-grace").map(values::duration).transpose()?,
        drifted: since(statement, "drifted")?.map(|(since, reason)| Drifted { since, reason }),
        unhealthy: since(statement, "unhealthy")?.map(|(due, condition)| Unhealthy { due, condition }),
        usage: usage(statement)?,
        ..Node::default()
    })
}

/// Parses `expired`, with an optional time since the expiration.
fn expired(statement: &Statement) -> Result<Option<Millis>, String> {
    let Some(reported) = statement.get("expired") else { return Ok(None) };
    let ago = reported.first().map(|word| values::duration(word)).transpose()?.unwrap_or(0);
    Ok(Some(Millis(NOW - ago)))
}

/// Parses the time since which a node is `quiet` or `healthy`, by default one hour. With `unknown` it is not: the NodeClaim is not
/// reported as initialized yet, or the node is not Ready.
fn ago(statement: &Statement, clause: &str) -> Result<Option<Millis>, String> {
    let ago = match statement.word(clause) {
        None => 3_600_000,
        Some("unknown") => return Ok(None),
        Some(word) => values::duration(word)?,
    };
    Ok(Some(Millis(NOW - ago)))
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
    let tier = values::capacity_type(tier)?;
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
