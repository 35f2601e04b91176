//! Reads a story into a snapshot.
//!
//! One statement a line; indented lines go on with the statement above; `#` starts a comment. A statement is its subject,
//! a name, and clauses that each begin with a word of their own:
//!
//! ```text
//! include FILE                              statements of another file, such as standard.types
//! type NAME has AMOUNTS keeps AMOUNTS labels LABELS offers OFFERINGS
//! pool NAME weight N requires R [and R] labels L taints T limits AMOUNTS waits DURATION|never may-lose N
//! daemon NAME asks AMOUNTS selects LABELS requires R tolerates T
//! node NAME of POOL is TYPE at spot@a labels L taints T runs NAME [xN] AMOUNTS hosts AMOUNTS (a daemon pod)
//!           quiet DURATION, and single words: in-flight registered deleting interrupted cordoned held expected
//! pod NAME [xN] asks AMOUNTS selects LABELS requires R [and R] [or R] tolerates T waits-since DURATION promised NODE
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use planner::{
    BoundPod, Catalogue, Daemon, Disruption, InstanceType, Leaving, Millis, Node, Pod, PodShape, Pool, Resources,
    Snapshot, Stage, label,
};

use crate::words;

const NOW: i64 = 1_800_000_000_000;

/// A subject with its name and clauses: the clause's word, and the words after it.
struct Statement {
    subject: String,
    name: String,
    clauses: Vec<(String, Vec<String>)>,
}

const CLAUSES: [&str; 27] = [
    "has",
    "keeps",
    "labels",
    "offers",
    "weight",
    "requires",
    "taints",
    "limits",
    "waits",
    "may-lose",
    "asks",
    "selects",
    "tolerates",
    "of",
    "is",
    "at",
    "runs",
    "hosts",
    "quiet",
    "in-flight",
    "registered",
    "deleting",
    "interrupted",
    "cordoned",
    "held",
    "expected",
    "promised",
];

/// The snapshot that a story describes.
pub fn read(text: &str, folder: &Path) -> Result<Snapshot, String> {
    let mut reader = Reader { snapshot: Snapshot { now: Millis(NOW), ..Snapshot::default() }, ..Reader::default() };
    reader.snapshot.policy.well_known = words::well_known().collect();
    reader.read(text, folder)?;
    Ok(reader.finish())
}

#[derive(Default)]
struct Reader {
    snapshot: Snapshot,
    types: Vec<InstanceType>,
    /// Bound pods of leaving nodes, which need a place.
    displaced: Vec<(String, String, PodShape)>,
}

impl Reader {
    fn read(&mut self, text: &str, folder: &Path) -> Result<(), String> {
        for line in statements(text) {
            if let Some(file) = line.strip_prefix("include ") {
                self.read(
                    &fs::read_to_string(folder.join(file.trim())).map_err(|it| format!("{file}: {it}"))?,
                    folder,
                )?;
                continue;
            }
            self.statement(&line).map_err(|why| format!("{line:?}: {why}"))?;
        }
        Ok(())
    }

    fn statement(&mut self, line: &str) -> Result<(), String> {
        let statement = Statement::of(line)?;
        match statement.subject.as_str() {
            "types-a-claim" => {
                self.snapshot.policy.max_instance_types = statement.name.parse().map_err(|_| "wants a number")?;
            }
            "type" => self.types.push(statement.instance_type()?),
            "pool" => self.snapshot.pools.push(statement.pool()?),
            "daemon" => {
                let daemon = Daemon { name: statement.name.clone(), shape: statement.shape()? };
                self.snapshot.daemons.push(daemon);
            }
            "node" => self.node(&statement)?,
            "pod" => self.pods(&statement)?,
            other => return Err(format!("{other} is not a subject")),
        }
        Ok(())
    }

    fn shape(&mut self, shape: PodShape) -> usize {
        let known = self.snapshot.shapes.iter().position(|it| **it == shape);
        known.unwrap_or_else(|| {
            self.snapshot.shapes.push(Arc::new(shape));
            self.snapshot.shapes.len() - 1
        })
    }

    fn pods(&mut self, statement: &Statement) -> Result<(), String> {
        let shape = statement.shape()?;
        let shape = self.shape(shape);
        let since = statement.word("waits").map(words::duration).transpose()?.unwrap_or(0);
        let (name, count) = counted(&statement.name);
        for name in numbered(&name, count) {
            self.snapshot.pods.push(Pod {
                uid: name.clone(),
                name,
                shape,
                created: Millis(NOW - since),
                leaving_node: None,
                nominated: statement.word("promised").map(str::to_owned),
                ..Pod::default()
            });
        }
        Ok(())
    }

    fn node(&mut self, statement: &Statement) -> Result<(), String> {
        let kind = statement.word("is").ok_or("a node is of a type")?;
        let kind = self.types.iter().find(|it| it.name == kind).cloned().ok_or_else(|| format!("no type {kind}"))?;
        let mut node = statement.node(&kind)?;
        for (word, rest) in &statement.clauses {
            match word.as_str() {
                "runs" => self.runs(&mut node, rest)?,
                "hosts" => {
                    let mut requests = words::resources(rest)?;
                    requests.set(Resources::PODS, 1);
                    node.used.add(&requests);
                    node.daemon_used.add(&requests);
                }
                _ => {}
            }
        }
        if let Some(pool) = self.snapshot.pools.iter_mut().find(|it| Some(&it.name) == node.pool.as_ref()) {
            let own = std::mem::replace(&mut node.labels, pool.labels.clone());
            node.labels.extend(own);
            if node.leaving.is_none() {
                pool.usage.add(&kind.capacity);
                pool.usage.add(&Resources::from_iter([(Resources::NODES, 1)]));
            }
        }
        self.snapshot.nodes.push(Arc::new(node));
        Ok(())
    }

    fn runs(&mut self, node: &mut Node, rest: &[String]) -> Result<(), String> {
        let (name, rest) = rest.split_first().ok_or("runs what?")?;
        let (name, count) = counted(name);
        let mut requests = words::resources(rest)?;
        requests.set(Resources::PODS, 1);
        for name in numbered(&name, count) {
            node.used.add(&requests);
            if node.leaving.is_some() {
                let shape = PodShape { requests: requests.clone(), ..PodShape::default() };
                self.displaced.push((node.name.clone(), name.clone(), shape));
            }
            node.pods.push(BoundPod { uid: name.clone(), name, reschedulable: true, ..BoundPod::default() });
        }
        Ok(())
    }

    fn finish(mut self) -> Snapshot {
        for (node, name, shape) in std::mem::take(&mut self.displaced) {
            let shape = self.shape(shape);
            let uid = name.clone();
            let leaving_node = Some(node);
            self.snapshot.pods.push(Pod { uid, name, shape, created: Millis(NOW), leaving_node, ..Pod::default() });
        }
        self.types.sort_by(|one, other| one.name.cmp(&other.name));
        self.snapshot.catalogues = vec![Arc::new(Catalogue { name: "default".to_owned(), types: self.types })];
        self.snapshot
    }
}

impl Statement {
    fn of(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let subject = words.next().ok_or("an empty statement")?;
        let mut name = words.next().ok_or("a subject wants a name")?;
        let mut clauses: Vec<(String, Vec<String>)> = Vec::new();
        for word in words {
            if CLAUSES.contains(&word.as_str()) {
                clauses.push((word, Vec::new()));
                continue;
            }
            match clauses.last_mut() {
                Some((clause, rest)) if clause == "runs" && is_count(&word) && rest.len() == 1 => rest[0] += &word,
                Some((_, rest)) => rest.push(word),
                None if is_count(&word) => name += &word,
                None => return Err(format!("{word} is not a clause")),
            }
        }
        Ok(Self { subject, name, clauses })
    }

    fn get(&self, clause: &str) -> Option<&[String]> {
        self.clauses.iter().find(|(word, _)| word == clause).map(|(_, rest)| rest.as_slice())
    }

    fn word(&self, clause: &str) -> Option<&str> {
        self.get(clause)?.first().map(String::as_str)
    }

    fn resources(&self, clause: &str) -> Result<Resources, String> {
        words::resources(self.get(clause).unwrap_or_default())
    }

    fn labels(&self, clause: &str) -> Result<BTreeMap<String, String>, String> {
        words::labels(self.get(clause).unwrap_or_default())
    }

    fn instance_type(&self) -> Result<InstanceType, String> {
        let capacity = self.resources("has")?;
        let mut allocatable = capacity.clone();
        allocatable.subtract(&self.resources("keeps")?);
        let labels = self.labels("labels")?.into_iter();
        let offerings = self.get("offers").unwrap_or_default().iter();
        Ok(InstanceType {
            name: self.name.clone(),
            labels: labels.map(|(key, values)| (key, values.split(',').map(str::to_owned).collect())).collect(),
            capacity,
            allocatable,
            offerings: offerings.map(|word| words::offering(word)).collect::<Result<_, _>>()?,
            ..InstanceType::default()
        })
    }

    fn taints(&self) -> Result<Vec<planner::Taint>, String> {
        self.get("taints").unwrap_or_default().iter().map(|word| words::taint(word)).collect()
    }

    fn pool(&self) -> Result<Pool, String> {
        let number = |clause| self.word(clause).map(str::parse).transpose().map_err(|_| format!("{clause} what?"));
        let mut labels = self.labels("labels")?;
        labels.insert(words::key("nodepool"), self.name.clone());
        let consolidate_after = match self.word("waits") {
            Some("never") => None,
            Some(word) => Some(words::duration(word)?),
            None => Some(0),
        };
        Ok(Pool {
            name: self.name.clone(),
            weight: number("weight")?.unwrap_or(0),
            catalogue: 0,
            requirements: self.get("requires").map(words::conjunction).transpose()?.unwrap_or_default(),
            labels,
            taints: self.taints()?,
            limits: self.get("limits").map(words::resources).transpose()?,
            usage: Resources::default(),
            disruption: Disruption {
                consolidate_after,
                empty_budget: number("may-lose")?.map_or(u32::MAX, |it| u32::try_from(it).unwrap()),
            },
            ..Pool::default()
        })
    }

    fn shape(&self) -> Result<PodShape, String> {
        let mut requests = self.resources("asks")?;
        requests.set(Resources::PODS, 1);
        let selector = self.labels("selects")?;
        let one = |(key, value): (&String, &String)| planner::Requirement::new(key, planner::Operator::In, [value]);
        let tolerations = self.get("tolerates").unwrap_or_default().iter();
        Ok(PodShape {
            requests,
            selector: selector.iter().map(one).collect(),
            affinity: self.get("requires").map(words::alternatives).transpose()?.unwrap_or_default(),
            tolerations: tolerations.map(|word| words::toleration(word)).collect::<Result<_, _>>()?,
            ..PodShape::default()
        })
    }

    fn node(&self, kind: &InstanceType) -> Result<Node, String> {
        let has = |word: &str| self.get(word).is_some();
        let pool = self.word("of").map(str::to_owned);
        let stage = match (has("in-flight"), has("registered")) {
            (true, _) => Stage::InFlight,
            (_, true) => Stage::Registered,
            _ => Stage::Initialized,
        };
        let mut labels: BTreeMap<String, String> = kind
            .labels
            .iter()
            .filter(|(_, values)| values.len() == 1)
            .map(|(key, it)| (key.clone(), it[0].clone()))
            .collect();
        labels.insert(label::INSTANCE_TYPE.to_owned(), kind.name.clone());
        let mut price = None;
        if let Some((bought, zone)) = self.word("at").and_then(|word| word.split_once('@')) {
            labels.insert(label::CAPACITY_TYPE.to_owned(), bought.to_owned());
            labels.insert(label::ZONE.to_owned(), zone.to_owned());
            let bought = words::capacity_type(bought)?;
            let sold = kind.offerings.iter().find(|it| it.zone == zone && it.capacity_type == bought);
            price = sold.map(|it| it.price);
        }
        labels.extend(self.labels("labels")?);
        let quiet = self.word("quiet").map(words::duration).transpose()?.unwrap_or(3_600_000);
        let interrupted = has("interrupted").then_some(Leaving::Interrupted { deadline: Some(Millis(NOW + 120_000)) });
        Ok(Node {
            name: self.name.clone(),
            claim: pool.is_some().then(|| format!("{}-claim", self.name)),
            pool,
            stage,
            leaving: interrupted.or(has("deleting").then_some(Leaving::Deleting)),
            unschedulable: has("cordoned"),
            labels,
            instance_type: Some(kind.name.clone()),
            taints: self.taints()?,
            allocatable: kind.allocatable.clone(),
            quiet_since: (stage == Stage::Initialized).then_some(Millis(NOW - quiet)),
            do_not_disrupt: has("held"),
            nominated_until: has("expected").then_some(Millis(NOW + 20_000)),
            price,
            ..Node::default()
        })
    }
}

/// Statements of a text, without comments, continuation lines joined.
fn statements(text: &str) -> Vec<String> {
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

/// `x5`.
fn is_count(word: &str) -> bool {
    word.strip_prefix('x').is_some_and(|count| count.parse::<usize>().is_ok())
}

/// The name and the count that was glued to it; names of stories contain no `x` before a final number.
fn counted(name: &str) -> (String, Option<usize>) {
    let split = name.rsplit_once('x').and_then(|(name, count)| Some((name, count.parse().ok()?)));
    split.map_or((name.to_owned(), None), |(name, count)| (name.to_owned(), Some(count)))
}

fn numbered(name: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|number| format!("{name}-{number:02}")).collect(),
    }
}

/// The same cluster, listed backwards.
pub fn reversed(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods.reverse();
    turned.nodes.reverse();
    turned.pools.reverse();
    turned.daemons.reverse();
    turned
}

/// The same cluster, listed from the middle on, with its shapes backwards.
pub fn rotated(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods.rotate_left(snapshot.pods.len() / 2);
    turned.nodes.rotate_left(snapshot.nodes.len() / 2);
    turned.shapes.reverse();
    for pod in &mut turned.pods {
        pod.shape = turned.shapes.len() - 1 - pod.shape;
    }
    turned
}
