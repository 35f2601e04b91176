//! Drop-in of systemd-resolved: name servers and search domains of the user.

use machine::nodeconfig::Network;
use machine::quote::quote;

use super::{BootstrapPlan, PlanPart};

/// The drop-in, below `/run`, so that a reboot removes it.
pub const DROP_IN: &str = "/run/systemd/resolved.conf.d/40-eks.conf";
const UNIT: &str = "systemd-resolved.service";

pub(super) fn add(plan: &mut BootstrapPlan, network: &Network) {
    let nameservers = words(plan, "nameservers", &network.nameservers);
    let network = Network { domains: words(plan, "domains", &network.domains), nameservers };
    let content = (!network.is_empty()).then(|| render(&network));
    if content.is_some() {
        plan.system_units.push(UNIT.to_owned());
    }
    plan.put_or_remove(PlanPart::System, DROP_IN, content);
}

/// Returns the values that are names or addresses. systemd would parse any other value as several values or as another line.
fn words(plan: &mut BootstrapPlan, field: &str, values: &[String]) -> Vec<String> {
    let (words, others): (Vec<String>, Vec<String>) = values.iter().cloned().partition(|value| is_word(value));
    for other in others {
        let other = quote(&other);
        plan.warn(format!(
            "spec.instance.network.{field}: `{other}` has no effect: it is neither a name nor an address"
        ));
    }
    words
}

fn is_word(value: &str) -> bool {
    !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn render(network: &Network) -> String {
    let mut lines = vec!["[Resolve]".to_owned()];
    for (key, values) in [("DNS", &network.nameservers), ("Domains", &network.domains)] {
        if !values.is_empty() {
            lines.push(format!("{key}={}", values.join(" ")));
        }
    }
    lines.join("\n") + "\n"
}
