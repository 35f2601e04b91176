//! One statement of a scenario: a subject, a name, and clauses that each begin with a keyword.

use std::collections::BTreeMap;

use planner::{Resources, Taint};

use crate::values;

/// Subject with its name, its number of copies, and its clauses: keyword and arguments.
pub struct Statement {
    pub subject: String,
    pub name: String,
    pub count: Option<usize>,
    pub clauses: Vec<(String, Vec<String>)>,
}

const POD: [&str; 21] = [
    "requests",
    "labels",
    "node-selector",
    "requires",
    "prefers",
    "tolerates",
    "priority",
    "spread",
    "near",
    "apart",
    "prefers-near",
    "prefers-apart",
    "ports",
    "claims",
    "shares",
    "pending-for",
    "nominated",
    "mix",
    "group",
    "paused-in",
    "on",
];

const POOL: [&str; 26] = [
    "weight",
    "requires",
    "labels",
    "taints",
    "limits",
    "consolidate-after",
    "budget",
    "replicas",
    "max-cost",
    "node-fee",
    "preference-premium",
    "catalogue",
    "consolidates",
    "min-savings",
    "warm-up",
    "lost-work",
    "drift-canary",
    "budget-empty",
    "budget-drifted",
    "budget-underutilized",
    "budget-expired",
    "utilization",
    "packing",
    "replacements",
    "launches-paused-for",
    "inactive",
];

/// Returns the keywords of a subject's clauses; any other subject may use them as plain arguments.
fn clauses(subject: &str) -> Option<Vec<&'static str>> {
    Some(match subject {
        "type" => vec!["capacity", "reserved", "labels", "offerings", "performance", "attach-limits", "price-step"],
        "pool" => POOL.to_vec(),
        "node" => vec![
            "of",
            "is",
            "at",
            "labels",
            "taints",
            "runs",
            "daemon-pod",
            "quiet",
            "healthy",
            "age",
            "attach-limits",
            "requires",
            "in-flight",
            "registered",
            "deleting",
            "interrupted",
            "cordoned",
            "rebooting",
            "do-not-disrupt",
            "nominated",
            "drifted",
            "expired",
            "termination-grace",
            "unhealthy",
            "usage",
            "usage-limits",
            "recent-pods",
        ],
        "pod" => [
            &POD[..],
            &[
                "do-not-disrupt",
                "do-not-disrupt-for",
                "works-for",
                "terminating",
                "eviction-blocked",
                "not-rescheduled",
                "budget",
                "deletion-cost",
                "protected-for",
                "surges",
            ],
            &["usage", "lowered-from", "restored", "not-resizable"],
        ]
        .concat(),
        "daemon" | "buffer" | "request" => POD[..POD.len() - 1].to_vec(),
        "namespace" => vec!["labels"],
        "spend-policy" => vec!["max-cost", "pools"],
        "commitment" => vec!["amount", "uses", "zone"],
        "catalogue" => Vec::new(),
        _ => return None,
    })
}

impl Statement {
    /// Parses one line with its continuation lines.
    pub fn of(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace().map(str::to_owned).peekable();
        let subject = words.next().ok_or("an empty statement")?;
        let known = clauses(&subject).ok_or_else(|| format!("{subject} is not a subject"))?;
        let name = words.next().ok_or("a subject wants a name")?;
        let count = words.next_if(|word| times(word).is_some()).as_deref().and_then(times);
        let mut clauses: Vec<(String, Vec<String>)> = Vec::new();
        for word in words {
            match clauses.last_mut() {
                _ if known.contains(&word.as_str()) => clauses.push((word, Vec::new())),
                Some((_, rest)) => rest.push(word),
                None => return Err(format!("{word} is not a clause of a {subject}")),
            }
        }
        Ok(Self { subject, name, count, clauses })
    }

    /// Returns the arguments of the first clause of that name.
    pub fn get(&self, clause: &str) -> Option<&[String]> {
        self.all(clause).next()
    }

    /// Returns the arguments of every clause of that name.
    pub fn all(&self, clause: &str) -> impl Iterator<Item = &[String]> {
        self.clauses.iter().filter(move |(word, _)| word == clause).map(|(_, rest)| rest.as_slice())
    }

    pub fn has(&self, clause: &str) -> bool {
        self.get(clause).is_some()
    }

    /// Returns the first argument of a clause.
    pub fn word(&self, clause: &str) -> Option<&str> {
        self.get(clause)?.first().map(String::as_str)
    }

    pub fn number<N: std::str::FromStr>(&self, clause: &str) -> Result<Option<N>, String> {
        self.word(clause).map(str::parse).transpose().map_err(|_| format!("{clause} wants a number"))
    }

    pub fn resources(&self, clause: &str) -> Result<Resources, String> {
        values::resources(self.get(clause).unwrap_or_default())
    }

    pub fn counts(&self, clause: &str) -> Result<BTreeMap<String, i64>, String> {
        Ok(self.resources(clause)?.iter().map(|(name, amount)| (name.to_owned(), amount)).collect())
    }

    pub fn labels(&self, clause: &str) -> Result<BTreeMap<String, String>, String> {
        values::labels(self.get(clause).unwrap_or_default())
    }

    pub fn taints(&self) -> Result<Vec<Taint>, String> {
        self.get("taints").unwrap_or_default().iter().map(|word| values::taint(word)).collect()
    }

    /// Returns the names of all objects of the statement.
    pub fn names(&self) -> Vec<String> {
        numbered(&self.name, self.count)
    }
}

/// Returns the statements of a text, without comments and with joined continuation lines.
pub fn lines(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        match statements.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(line),
            _ if line.trim().is_empty() => {}
            _ => statements.push(line.to_owned()),
        }
    }
    statements
}

/// Parses the number of `x5`.
pub fn times(word: &str) -> Option<usize> {
    word.strip_prefix('x')?.parse().ok()
}

/// Returns `web`, or `web-01` and so on.
pub fn numbered(name: &str, count: Option<usize>) -> Vec<String> {
    let Some(count) = count else { return vec![name.to_owned()] };
    let width = count.to_string().len().max(2);
    (1..=count).map(|number| format!("{name}-{number:0width$}")).collect()
}
