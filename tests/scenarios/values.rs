//! Small elements of a scenario: quantities, durations, labels, requirements, taints, offerings and prices.

use std::collections::BTreeMap;

use planner::{
    CapacityType, Effect, MicroDollars, Offering, Operator, PreferencePremium, Requirement, Reservation, Resources,
    Taint, Toleration, TolerationOperator, label,
};

/// Short names of label keys. All but the last are well-known: instance types determine them.
const KEYS: [(&str, &str); 12] = [
    ("zone", label::ZONE),
    ("capacity-type", label::CAPACITY_TYPE),
    ("type", label::INSTANCE_TYPE),
    ("arch", "kubernetes.io/arch"),
    ("os", "kubernetes.io/os"),
    ("cpus", "karpenter.k8s.aws/instance-cpu"),
    ("family", "karpenter.k8s.aws/instance-family"),
    ("gpu", "karpenter.k8s.aws/instance-gpu-name"),
    ("region", "topology.kubernetes.io/region"),
    ("reservation", "karpenter.k8s.aws/capacity-reservation-id"),
    ("nodepool", "karpenter.sh/nodepool"),
    ("hostname", label::HOSTNAME),
];

/// Returns the keys that a NodePool need not define.
pub fn well_known() -> impl Iterator<Item = String> {
    KEYS.iter().filter(|(short, _)| *short != "hostname").map(|(_, key)| (*key).to_owned())
}

/// Returns the full key of a short name; other names are returned unchanged.
pub fn key(short: &str) -> String {
    KEYS.iter().find(|(name, _)| *name == short).map_or(short, |(_, key)| key).to_owned()
}

/// Returns the short name of a key, the inverse of [`key`].
pub fn short_key(key: &str) -> &str {
    KEYS.iter().find(|(_, full)| *full == key).map_or(key, |(name, _)| name)
}

/// Parses `90s`, `10m` or `2h` into milliseconds.
pub fn duration(word: &str) -> Result<i64, String> {
    let (number, unit) = word.split_at(word.len().saturating_sub(1));
    let scale = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{word} is not a duration such as 90s, 10m or 2h")),
    };
    number.parse::<i64>().map(|it| it * scale).map_err(|_| format!("{word} is not a duration"))
}

/// Parses a quantity such as `250m` CPU, `4Gi` or `3`.
pub fn amount(resource: &str, word: &str) -> Result<i64, String> {
    let end = word.find(|it: char| !it.is_ascii_digit()).unwrap_or(word.len());
    let number: i64 = word[..end].parse().map_err(|_| format!("{word} is not an amount"))?;
    match (&word[end..], resource) {
        ("m", Resources::CPU) => Ok(number),
        ("", Resources::CPU) => Ok(number * 1000),
        ("", _) => Ok(number),
        ("Mi", _) => Ok(number << 20),
        ("Gi", _) => Ok(number << 30),
        _ => Err(format!("{word} is not an amount of {resource}")),
    }
}

/// Parses `cpu=1 memory=2Gi`.
pub fn resources(words: &[String]) -> Result<Resources, String> {
    let mut all = Resources::default();
    for word in words {
        let (name, text) = pair(word)?;
        all.set(name, amount(name, text)?);
    }
    Ok(all)
}

/// Splits `key=value`.
pub fn pair(word: &str) -> Result<(&str, &str), String> {
    word.split_once('=').ok_or_else(|| format!("{word} is not name=value"))
}

/// Parses `team=a arch=arm64`.
pub fn labels(words: &[String]) -> Result<BTreeMap<String, String>, String> {
    let label = |word: &String| pair(word).map(|(short, value)| (key(short), value.to_owned()));
    words.iter().map(label).collect()
}

/// Parses `zone In a,b or arch Exists and cpus Gt 3`: alternatives of conjunctions.
pub fn alternatives(words: &[String]) -> Result<Vec<Vec<Requirement>>, String> {
    words.split(|word| word == "or").map(conjunction).collect()
}

/// Parses `arch Exists and cpus Gt 3`. A fourth element `min=2` is `minValues`.
pub fn conjunction(words: &[String]) -> Result<Vec<Requirement>, String> {
    words.split(|word| word == "and").map(requirement).collect()
}

fn requirement(words: &[String]) -> Result<Requirement, String> {
    let text = words.join(" ");
    let [short, operator, rest @ ..] = words else { return Err(format!("{text:?} is not a requirement")) };
    let operator = match operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        "Gte" => Operator::Gte,
        "Lte" => Operator::Lte,
        _ => return Err(format!("{text:?} has no operator")),
    };
    let min = rest.last().and_then(|word| word.strip_prefix("min="));
    let values = rest.iter().filter(|word| !word.starts_with("min=")).flat_map(|word| word.split(','));
    let mut requirement = Requirement::new(&key(short), operator, values);
    requirement.min_values = min.map(|count| count.parse().unwrap());
    Ok(requirement)
}

fn effect(text: &str) -> Result<Effect, String> {
    match text {
        "NoSchedule" => Ok(Effect::NoSchedule),
        "PreferNoSchedule" => Ok(Effect::PreferNoSchedule),
        "NoExecute" => Ok(Effect::NoExecute),
        _ => Err(format!("{text} is not a taint's effect")),
    }
}

/// Parses `dedicated=batch:NoSchedule`.
pub fn taint(word: &str) -> Result<Taint, String> {
    let (front, text) = word.rsplit_once(':').ok_or_else(|| format!("{word} is not a taint"))?;
    let (key, value) = front.split_once('=').unwrap_or((front, ""));
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect(text)? })
}

/// Parses `everything`, `dedicated` (any value and effect), `dedicated=batch`, or `dedicated=batch:NoSchedule`.
pub fn toleration(word: &str) -> Result<Toleration, String> {
    if word == "everything" {
        return Ok(Toleration { key: None, operator: TolerationOperator::Exists, value: String::new(), effect: None });
    }
    let (front, effect) = match word.rsplit_once(':') {
        Some((front, text)) => (front, Some(effect(text)?)),
        None => (word, None),
    };
    let (key, operator, value) = match front.split_once('=') {
        Some((key, value)) => (key, TolerationOperator::Equal, value),
        None => (front, TolerationOperator::Exists, ""),
    };
    Ok(Toleration { key: Some(key.to_owned()), operator, value: value.to_owned(), effect })
}

/// Parses `spot@a=0.031`. `spot@a=0.031(gone)` is unavailable; `reserved@a=0(cr-1:2)` uses reservation cr-1 with 2 free
/// instances.
pub fn offering(word: &str) -> Result<Offering, String> {
    let (place, price) = pair(word)?;
    let wrong = || format!("{word} is not an offering such as spot@a=0.031");
    let (tier, zone) = place.split_once('@').ok_or_else(wrong)?;
    let (price, note) = match price.strip_suffix(')').and_then(|it| it.split_once('(')) {
        Some((price, note)) => (price, Some(note)),
        None => (price, None),
    };
    let reservation = note.and_then(|note| note.split_once(':')).map(|(id, left)| reservation(id, left)).transpose()?;
    let labels = reservation.iter().map(|it| (key("reservation"), it.id.clone())).collect();
    let available = note != Some("gone") && reservation.as_ref().is_none_or(|it| it.remaining > 0);
    Ok(Offering {
        zone: zone.to_owned(),
        capacity_type: capacity_type(tier)?,
        price: dollars(price)?,
        premium: MicroDollars(0),
        available,
        labels,
        reservation,
    })
}

fn reservation(id: &str, left: &str) -> Result<Reservation, String> {
    let remaining = left.parse().map_err(|_| format!("{left} is not what reservation {id} has left"))?;
    Ok(Reservation { id: id.to_owned(), remaining })
}

/// Parses `spot`, `on-demand` or `reserved`.
pub fn capacity_type(word: &str) -> Result<CapacityType, String> {
    let all = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    all.into_iter().find(|it| it.as_str() == word).ok_or_else(|| format!("{word} is not a capacity type"))
}

/// Parses a premium in percent, or `unlimited`.
pub fn premium(text: &str) -> Result<PreferencePremium, String> {
    match text {
        "unlimited" => Ok(PreferencePremium::Unlimited),
        _ => text.parse().map(PreferencePremium::Percent).map_err(|_| format!("{text} is not a premium in percent")),
    }
}

/// Parses dollars such as `0.031`.
pub fn dollars(text: &str) -> Result<MicroDollars, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{fraction:0<6}");
    let micro = fraction.get(..6).and_then(|it| it.parse::<i64>().ok());
    let whole = whole.parse::<i64>().ok();
    let both = whole.zip(micro).map(|(whole, micro)| MicroDollars(whole * 1_000_000 + micro));
    both.ok_or_else(|| format!("{text} is not an amount of dollars"))
}
