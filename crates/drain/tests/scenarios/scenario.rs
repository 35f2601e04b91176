//! A drain scenario as text, one line per fact:
//!
//! ```text
//! # purpose of the scenario
//! drain termination [for 300s]      by Karpenter, with its terminationGracePeriod if there is one
//! drain notice for 120s             EC2 terminates the instance
//! drain request [for 60s]             a user requests it
//! budget NAME allows 1              a PodDisruptionBudget: so many of its pods may be unavailable at once
//! pod NAME [WORDS]                  on the node, of a ReplicaSet, with 30 s of grace, all of which it takes
//! volume NAME                       attached to the node
//! at 90s FACT                       a later fact; also `gone POD`, `detached VOLUME` and `restart` (of the driver)
//! instance is gone                  state in EC2; also `kubelet is silent`; for drivers that use more than pods
//! until 300s                        end of the scenario
//! expect WORDS                      expectation for every transcript; see expected.rs
//! ```
//!
//! Attributes of a pod: `grace 60s`, `stops in 5s`, `hangs`, `budget NAME`, `priority 10`, `ending until 600s`, `tolerates
//! KEY`, `claims 1`, `critical`, `daemonset`, `bare`, `static`, `ended`, `held` (do-not-disrupt), `held until 60s`, `asks for a
//! copy`, `copied until 60s` (its copy starts, and the eviction waits for it at most until then).

use std::time::Duration;

use drain::{AwaitedCopy, Millis, PodOnNode, Protection};

/// Start of every scenario.
pub const T0: Millis = Millis(1_767_268_800_000);
const DISRUPTED: &str = "karpenter.sh/disrupted";
const GRACE: u64 = 30;

/// Origin of the drain request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Termination,
    Notice,
    Request,
}

/// A pod on the API server.
#[derive(Clone, Debug)]
pub struct Member {
    pub pod: PodOnNode,
    pub budget: Option<String>,
    /// Time that the pod needs to stop; `None` never stops.
    pub stops: Option<Duration>,
    /// Time at which the pod is gone.
    pub gone: Option<Millis>,
}

/// A fact that begins to hold.
#[derive(Clone, Debug)]
pub enum Fact {
    Pod(Box<Member>),
    Budget(String, usize),
    Volume(String),
    Gone(String),
    Detached(String),
    Restart,
    /// `instance is gone`, `kubelet is silent`.
    Is(String, String),
}

/// A complete scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub cause: Cause,
    pub deadline: Option<Millis>,
    /// Facts in the order of their times.
    pub facts: Vec<(Millis, Fact)>,
    pub until: Millis,
    pub expected: Vec<String>,
}

/// Parses a scenario.
pub fn read(text: &str) -> Result<Scenario, String> {
    let mut scenario = Scenario { cause: Cause::Request, deadline: None, facts: vec![], until: T0, expected: vec![] };
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        scenario.line(&words).map_err(|why| format!("{line:?}: {why}"))?;
    }
    if scenario.until <= T0 {
        return Err("it has no end: `until 300s`".to_owned());
    }
    scenario.facts.sort_by_key(|(at, _)| *at);
    Ok(scenario)
}

impl Scenario {
    /// Reports whether the result depends on retry delays: the order of evictions when a budget allows one. Drivers differ in
    /// these delays.
    pub fn is_of_pace(&self) -> bool {
        self.facts.iter().any(|(_, fact)| matches!(fact, Fact::Budget(_, most) if *most > 0))
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["drain", cause, rest @ ..] => {
                self.cause = cause_of(cause)?;
                self.deadline = match rest {
                    [] => None,
                    ["for", span] => Some(moment(span)?),
                    _ => return Err("write `drain CAUSE for 300s`".to_owned()),
                };
            }
            ["until", span] => self.until = moment(span)?,
            ["expect", rest @ ..] => self.expected.push(rest.join(" ")),
            ["at", span, rest @ ..] => self.facts.push((moment(span)?, fact(rest)?)),
            _ => self.facts.push((T0, fact(words)?)),
        }
        Ok(())
    }
}

fn cause_of(word: &str) -> Result<Cause, String> {
    match word {
        "termination" => Ok(Cause::Termination),
        "notice" => Ok(Cause::Notice),
        "request" => Ok(Cause::Request),
        _ => Err(format!("{word} is no cause: termination, notice or request")),
    }
}

fn fact(words: &[&str]) -> Result<Fact, String> {
    match words {
        ["pod", name, rest @ ..] => Ok(Fact::Pod(Box::new(member(name, rest)?))),
        ["budget", name, "allows", most] => Ok(Fact::Budget((*name).to_owned(), number(most)?)),
        ["volume", name] => Ok(Fact::Volume((*name).to_owned())),
        ["gone", pod] => Ok(Fact::Gone((*pod).to_owned())),
        ["detached", volume] => Ok(Fact::Detached((*volume).to_owned())),
        ["restart"] => Ok(Fact::Restart),
        [who, "is", what] => Ok(Fact::Is((*who).to_owned(), (*what).to_owned())),
        _ => Err("that is no fact".to_owned()),
    }
}

fn member(name: &str, words: &[&str]) -> Result<Member, String> {
    let pod = PodOnNode {
        uid: name.to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        owner_kind: Some("ReplicaSet".to_owned()),
        grace_seconds: GRACE,
        ..PodOnNode::default()
    };
    let mut member = Member { pod, budget: None, stops: None, gone: None };
    let (mut rest, mut hangs, mut stops) = (words, false, None);
    while let [word, more @ ..] = rest {
        rest = match (*word, more) {
            ("grace", [span, more @ ..]) => set(&mut member.pod.grace_seconds, seconds(span)?, more),
            ("stops", ["in", span, more @ ..]) => set(&mut stops, Some(Duration::from_secs(seconds(span)?)), more),
            ("budget", [name, more @ ..]) => set(&mut member.budget, Some((*name).to_owned()), more),
            ("priority", [text, more @ ..]) => set(&mut member.pod.priority, number(text)?, more),
            ("ending", ["until", span, more @ ..]) => set(&mut member.pod.deletion, Some(moment(span)?), more),
            ("tolerates", [key, more @ ..]) => set(&mut member.pod.tolerates_disrupted, *key == DISRUPTED, more),
            ("claims", [text, more @ ..]) => set(&mut member.pod.claims, number(text)?, more),
            ("held", ["until", span, more @ ..]) => {
                set(&mut member.pod.do_not_disrupt, Protection::Until(moment(span)?), more)
            }
            ("copied", ["until", span, more @ ..]) => {
                set(&mut member.pod.copy, AwaitedCopy::Starting(moment(span)?), more)
            }
            ("asks", ["for", "a", "copy", more @ ..]) => set(&mut member.pod.copy, AwaitedCopy::Requested, more),
            ("hangs", more) => set(&mut hangs, true, more),
            (word, more) => {
                trait_of(&mut member.pod, word)?;
                more
            }
        };
    }
    member.stops = stops.or(Some(member.pod.grace())).filter(|_| !hangs);
    member.gone = member.pod.deletion.filter(|_| !hangs);
    Ok(member)
}

fn set<'a, T>(field: &mut T, value: T, rest: &'a [&'a str]) -> &'a [&'a str] {
    *field = value;
    rest
}

fn trait_of(pod: &mut PodOnNode, word: &str) -> Result<(), String> {
    match word {
        "critical" => pod.critical = true,
        "daemonset" => pod.owner_kind = Some("DaemonSet".to_owned()),
        "bare" => pod.owner_kind = None,
        "static" => pod.mirror = true,
        "ended" => pod.terminal = true,
        "held" => pod.do_not_disrupt = Protection::Always,
        _ => return Err(format!("{word} is no word of a pod")),
    }
    Ok(())
}

pub fn moment(span: &str) -> Result<Millis, String> {
    Ok(T0 + Duration::from_secs(seconds(span)?))
}

pub fn seconds(span: &str) -> Result<u64, String> {
    span.strip_suffix('s').map_or_else(|| Err(format!("{span} is no span such as 300s")), number)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
