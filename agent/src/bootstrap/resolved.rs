//! systemd-resolved's drop-in: name servers and search domains of the user's.

use machine::nodeconfig::Network;

use super::plan::{Part, Plan};

/// The drop-in; below `/run`, so that a reboot begins without it.
pub const DROP_IN: &str = "/run/systemd/resolved.conf.d/40-eks.conf";
const UNIT: &str = "systemd-resolved.service";

pub(super) fn add(plan: &mut Plan, network: &Network) {
    let content = (!network.is_empty()).then(|| render(network));
    if content.is_some() {
        plan.system_units.push(UNIT.to_owned());
    }
    plan.put_or_remove(Part::System, DROP_IN, content);
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
