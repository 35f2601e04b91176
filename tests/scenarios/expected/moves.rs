//! Expectations of a scenario for existing nodes and running pods.

use planner::{Destination, Launch, NodeVerdict, Purpose, Requirement};

use super::{Outcome, equal};
use crate::values;

impl Outcome<'_> {
    /// Checks an expectation about disruption commands; returns `None` for any other expectation.
    pub(super) fn moves(&self, words: &[&str]) -> Option<Result<(), String>> {
        Some(match words {
            ["no", "moves"] => equal("0", &self.plan.moves.len().to_string()),
            [count, "nodes" | "node", "removed"] => {
                equal(count, &self.plan.moves.iter().map(|it| it.nodes.len()).sum::<usize>().to_string())
            }
            [nodes, "removed", reason] => self.each_node(nodes, |verdict| match verdict {
                NodeVerdict::Remove(why) => equal(reason, why.as_str()),
                verdict => Err(format!("it {verdict}")),
            }),
            [nodes, "kept", "because", part @ ..] => self.each_node(nodes, |verdict| {
                let reported = verdict.to_string();
                let stays = !matches!(verdict, NodeVerdict::Remove(_)) && reported.contains(&part.join(" "));
                if stays { Ok(()) } else { Err(format!("it {reported}")) }
            }),
            [pods, "moves", "to", place] => pods.split(',').try_for_each(|pod| equal(place, &self.moved(pod))),
            ["replacements", "list", count, "types"] => {
                self.each_replacement(|launch| equal(count, &launch.instance_types.len().to_string()))
            }
            ["replacements", "require", key, operator, values] => self.each_replacement(|launch| {
                let asked = launch.requirements.iter().find(|it| it.key == values::key(key));
                let reported = |it: &Requirement| format!("{:?} {}", it.operator, it.values.join(","));
                equal(&format!("{operator} {values}"), &asked.map(reported).unwrap_or_default())
            }),
            _ => return None,
        })
    }

    fn each_node(&self, nodes: &str, check: impl Fn(&NodeVerdict) -> Result<(), String>) -> Result<(), String> {
        nodes.split(',').try_for_each(|name| {
            let known = self.plan.report.nodes.iter().find(|(node, _)| node == name);
            let (_, verdict) = known.ok_or_else(|| format!("there is no managed node {name}"))?;
            check(verdict).map_err(|why| format!("of {name} {why}"))
        })
    }

    fn each_replacement(&self, check: impl Fn(&Launch) -> Result<(), String>) -> Result<(), String> {
        let mut all = self.plan.launches.iter().filter(|launch| launch.purpose == Purpose::Replacement).peekable();
        all.peek().ok_or("there are no replacements")?;
        all.try_for_each(check)
    }

    /// Returns the destination of a pod in a command: a node's name, `new`, or `unplaced`.
    fn moved(&self, pod: &str) -> String {
        let mut all = self.plan.moves.iter().flat_map(|it| &it.pods);
        match all.find(|it| it.pod == pod).map(|it| &it.to) {
            Some(Destination::Node(node)) => node.clone(),
            Some(Destination::Launch(_)) => "new".to_owned(),
            None => "unplaced".to_owned(),
        }
    }
}
