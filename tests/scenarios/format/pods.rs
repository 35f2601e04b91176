//! Pods of a scenario: requests, pod affinity and anti-affinity, host ports and volumes.

use std::sync::Arc;

use planner::{
    CapacitySplit, ContainerSize, HostPort, LaunchPause, Millis, NodePreference, NotResizable, Operator, PodGroup,
    PodPreference, PodShape, PodTerm, PodUtilization, Requirement, Resources, RestoredRequests, Selector, Size, Sizing,
    Spread, VolumeNeed,
};

use super::NOW;
use super::statement::Statement;
use crate::values;

/// Returns the shape of a pod in `namespace` by its statement.
pub fn shape(statement: &Statement, namespace: &str) -> Result<PodShape, String> {
    let mut requests = statement.resources("requests")?;
    requests.set(Resources::PODS, 1);
    let selector = statement.labels("node-selector")?;
    let one = |(key, value): (&String, &String)| Requirement::new(key, Operator::In, [value]);
    let tolerations = statement.get("tolerates").unwrap_or_default().iter();
    Ok(PodShape {
        requests,
        selector: selector.iter().map(one).collect(),
        affinity: statement.get("requires").map(values::alternatives).transpose()?.unwrap_or_default(),
        tolerations: tolerations.map(|word| values::toleration(word)).collect::<Result<_, _>>()?,
        priority: statement.number("priority")?.unwrap_or(0),
        namespace: namespace.to_owned(),
        labels: statement.labels("labels")?,
        preferred: statement.all("prefers").map(node_preference).collect::<Result<_, _>>()?,
        spread: statement.all("spread").map(spread).collect::<Result<_, _>>()?,
        near: statement.all("near").map(term).collect::<Result<_, _>>()?,
        apart: statement.all("apart").map(term).collect::<Result<_, _>>()?,
        prefers_near: statement.all("prefers-near").map(preference).collect::<Result<_, _>>()?,
        prefers_apart: statement.all("prefers-apart").map(preference).collect::<Result<_, _>>()?,
        ports: statement.get("ports").unwrap_or_default().iter().map(|word| port(word)).collect::<Result<_, _>>()?,
        volumes: volumes(statement).map(|(_, _, words)| volume(words)).collect::<Result<_, _>>()?,
        paused: statement.all("paused-in").map(pause).collect::<Result<_, _>>()?,
    })
}

/// Parses `paused-in POOL N DURATION`: the number of failed launches, and the time until the next one.
fn pause(words: &[String]) -> Result<LaunchPause, String> {
    let [pool, failures, left] = words else {
        return Err("paused-in wants a pool, a number and a duration".to_owned());
    };
    let failures = failures.parse().map_err(|_| format!("{failures} is not a number"))?;
    Ok(LaunchPause { pool: pool.clone(), failures, until: Millis(NOW + values::duration(left)?) })
}

/// Parses `mix web base 2 share 70`. Pods with the same values for the same workload form one group.
pub fn mix(statement: &Statement, namespace: &str) -> Result<Option<Arc<CapacitySplit>>, String> {
    let Some(words) = statement.get("mix") else { return Ok(None) };
    let parts = Parts::of(words, &["base", "share"]);
    let workload = format!("{namespace}/{}", parts.front().first().ok_or("mix wants a workload")?);
    let on_demand_base = parts.number("base")?.unwrap_or(0);
    let spot_share = parts.number("share")?;
    Ok(Some(Arc::new(CapacitySplit { owner: workload.clone(), workload, on_demand_base, spot_share })))
}

/// Parses `group train least 4 running 1`.
pub fn group(statement: &Statement) -> Result<Option<Arc<PodGroup>>, String> {
    let Some(words) = statement.get("group") else { return Ok(None) };
    let parts = Parts::of(words, &["least", "running"]);
    let name = parts.front().first().ok_or("group wants a name")?.clone();
    let least = parts.number("least")?.ok_or("group wants least N")?;
    Ok(Some(Arc::new(PodGroup { name, least, running: parts.number("running")?.unwrap_or(0) })))
}

/// Parses `protected-for 1h of web`: the workload, and the end of its protection. Without a workload, the pod is its own workload.
pub fn rest(statement: &Statement, pod: &str) -> Result<Option<(String, Millis)>, String> {
    match statement.get("protected-for").map(|words| words.iter().map(String::as_str).collect::<Vec<_>>()).as_deref() {
        None => Ok(None),
        Some([left]) => Ok(Some((pod.to_owned(), Millis(NOW + values::duration(left)?)))),
        Some([left, "of", workload]) => Ok(Some(((*workload).to_owned(), Millis(NOW + values::duration(left)?)))),
        Some(words) => Err(format!("protected-for wants a duration [of WORKLOAD], not {words:?}")),
    }
}

/// Returns requests and usage of a pod with one container, if the statement has any. The median of its CPU usage is half of the
/// given usage.
pub fn sizing(statement: &Statement) -> Result<Option<Sizing>, String> {
    if !["usage", "lowered-from", "restored", "not-resizable"].iter().any(|word| statement.has(word)) {
        return Ok(None);
    }
    let requests = Size::from_resources(&statement.resources("requests")?);
    let requested = Size::from_resources(&statement.resources("lowered-from")?).max(requests);
    let container = ContainerSize { name: "main".to_owned(), requested, requests, ..ContainerSize::default() };
    Ok(Some(Sizing {
        containers: vec![container],
        least: Size::default(),
        fixed: statement.word("not-resizable").map(fixed).transpose()?,
        used: statement.get("usage").map(used).transpose()?,
        given_back: statement.get("restored").map(given_back).transpose()?,
    }))
}

fn used(words: &[String]) -> Result<PodUtilization, String> {
    let (front, rest) =
        words.split_at(words.iter().position(|word| word == "after").ok_or("usage wants amounts, `after` and hours")?);
    let p95 = Size::from_resources(&values::resources(front)?);
    let hours = rest.get(1).and_then(|word| word.parse().ok()).ok_or("usage wants a number of hours")?;
    let pressed = rest.iter().any(|word| word == "pressed");
    Ok(PodUtilization { median_cpu: p95.cpu / 2, p95, hours, pressed })
}

fn given_back(words: &[String]) -> Result<RestoredRequests, String> {
    let [times, ago] = words else { return Err("restored wants a number and a duration".to_owned()) };
    let times = times.parse().map_err(|_| format!("{times} is not a number"))?;
    Ok(RestoredRequests { last: Millis(NOW - values::duration(ago)?), times })
}

fn fixed(word: &str) -> Result<NotResizable, String> {
    match word {
        "never" => Ok(NotResizable::Never),
        "daemon" => Ok(NotResizable::Daemon),
        "guaranteed" => Ok(NotResizable::Guaranteed),
        _ => Err(format!("not-resizable is never, daemon or guaranteed, not {word}")),
    }
}

/// Returns `namespace/name` of the volume claims of a pod, one for each volume of its shape.
pub fn claims(statement: &Statement, namespace: &str, pod: &str) -> Vec<String> {
    let name = |(shared, name, _): (bool, &str, &[String])| match shared {
        true => format!("{namespace}/{name}"),
        false => format!("{namespace}/{name}-{pod}"),
    };
    volumes(statement).map(name).collect()
}

/// Returns the volumes, each with its name and a flag for sharing.
fn volumes(statement: &Statement) -> impl Iterator<Item = (bool, &str, &[String])> {
    let all = statement.clauses.iter().filter(|(word, _)| word == "claims" || word == "shares");
    all.filter_map(|(word, rest)| rest.split_first().map(|(name, rest)| (word == "shares", name.as_str(), rest)))
}

/// Parses `from DRIVER where zone In a or zone In b`; both parts are optional.
fn volume(words: &[String]) -> Result<VolumeNeed, String> {
    let parts = Parts::of(words, &["from", "where"]);
    let driver = parts.get("from").and_then(<[String]>::first).cloned();
    let alternatives = parts.get("where").map(values::alternatives).transpose()?.unwrap_or_default();
    Ok(VolumeNeed { driver, alternatives })
}

/// Parses a host port: `80`, `53/UDP`, `10.0.0.1:80`.
fn port(word: &str) -> Result<HostPort, String> {
    let (front, protocol) = word.split_once('/').unwrap_or((word, "TCP"));
    let (ip, port) = front.rsplit_once(':').unwrap_or(("0.0.0.0", front));
    let port = port.parse().map_err(|_| format!("{word} is not a port"))?;
    Ok(HostPort { ip: ip.to_owned(), port, protocol: protocol.to_owned() })
}

/// Parses `zone In a and arch Exists weight 10`.
fn node_preference(words: &[String]) -> Result<NodePreference, String> {
    let parts = Parts::of(words, &["weight"]);
    Ok(NodePreference { weight: parts.number("weight")?.unwrap_or(1), term: values::conjunction(parts.front())? })
}

/// Parses `app=web over zone in shop,bank weight 10`.
fn preference(words: &[String]) -> Result<PodPreference, String> {
    let at = words.iter().position(|word| word == "weight").unwrap_or(words.len());
    let (front, weight) = words.split_at(at);
    let weight = Parts::of(weight, &["weight"]).number("weight")?.unwrap_or(1);
    Ok(PodPreference { weight, term: term(front)? })
}

/// Parses `app=web over zone`, with optional namespaces: `in shop,bank`, `in-namespaces team=a`, `in-every-namespace`.
fn term(words: &[String]) -> Result<PodTerm, String> {
    let parts = Parts::of(words, &["over", "in", "in-namespaces", "in-every-namespace"]);
    let listed = parts.get("in").unwrap_or_default().iter().flat_map(|word| word.split(','));
    let every = parts.get("in-every-namespace").map(|_| Selector::default());
    let by_label = parts.get("in-namespaces").map(selector).transpose()?.flatten();
    Ok(PodTerm {
        key: parts.key()?,
        selector: selector(parts.front())?,
        namespaces: listed.map(str::to_owned).collect(),
        namespace_selector: every.or(by_label),
    })
}

/// Parses `over zone by at most 1 among app=web min-domains 3 softly ignoring-affinity honouring-taints`.
fn spread(words: &[String]) -> Result<Spread, String> {
    let known = ["over", "by", "among", "min-domains", "softly", "ignoring-affinity", "honouring-taints"];
    let parts = Parts::of(words, &known);
    let skew = parts.get("by").and_then(<[String]>::last).and_then(|word| word.parse().ok());
    Ok(Spread {
        key: parts.key()?,
        max_skew: skew.ok_or("by at most how many?")?,
        min_domains: parts.number("min-domains")?,
        selector: selector(parts.get("among").ok_or("spread among whom?")?)?,
        hard: parts.get("softly").is_none(),
        honor_affinity: parts.get("ignoring-affinity").is_none(),
        honor_taints: parts.get("honouring-taints").is_some(),
    })
}

/// Parses `app=web and tier In a,b`, or `everyone`; `no-one` returns no selector.
fn selector(words: &[String]) -> Result<Option<Selector>, String> {
    match words {
        [word] if word == "all-pods" => return Ok(Some(Selector::default())),
        [word] if word == "no-pods" => return Ok(None),
        _ => {}
    }
    let one = |words: &[String]| match words {
        [word] => {
            values::pair(word).map(|(key, value)| vec![Requirement::new(&values::key(key), Operator::In, [value])])
        }
        words => values::conjunction(words),
    };
    let all = words.split(|word| word == "and").map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Selector(all.concat())))
}

/// Parts of a clause, divided by keywords.
struct Parts<'a>(Vec<(&'a str, &'a [String])>);

impl<'a> Parts<'a> {
    fn of(words: &'a [String], known: &[&str]) -> Self {
        let mut starts: Vec<usize> = (0..words.len()).filter(|at| known.contains(&words[*at].as_str())).collect();
        let front = starts.first().copied().unwrap_or(words.len());
        starts.push(words.len());
        let mut parts = vec![("", &words[..front])];
        parts.extend(starts.windows(2).map(|pair| (words[pair[0]].as_str(), &words[pair[0] + 1..pair[1]])));
        Self(parts)
    }

    fn front(&self) -> &'a [String] {
        self.0[0].1
    }

    fn get(&self, word: &str) -> Option<&'a [String]> {
        self.0.iter().find(|(name, _)| *name == word).map(|(_, rest)| *rest)
    }

    fn number<N: std::str::FromStr>(&self, word: &str) -> Result<Option<N>, String> {
        let number = self.get(word).and_then(<[String]>::first);
        number.map(|it| it.parse()).transpose().map_err(|_| format!("{word} wants a number"))
    }

    fn key(&self) -> Result<String, String> {
        let key = self.get("over").and_then(<[String]>::first).ok_or("over which label?")?;
        Ok(values::key(key))
    }
}
