//! The Node's name: the one that bootstrap made kubelet register with, since that is the one our certificate is for.

use std::fs;
use std::path::Path;

/// Environment of kubelet's unit, below the machine's root.
const ENVIRONMENT: &str = "etc/eks/kubelet/environment";
const FLAG: &str = "--hostname-override=";

/// The name in kubelet's environment file, if there is one.
pub(super) fn written(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(ENVIRONMENT)).ok()?;
    find(&text)
}

fn find(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(FLAG)?;
    let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '\'').unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_flag_is_found_wherever_it_stands() {
        let name = Some("ip-10-0-0-1.us-west-2.compute.internal".to_owned());
        let rows = [
            (
                "NODEADM_KUBELET_ARGS=\"--x=1 --hostname-override=ip-10-0-0-1.us-west-2.compute.internal --y\"",
                name.clone(),
            ),
            ("ARGS=\"--hostname-override=ip-10-0-0-1.us-west-2.compute.internal\"\n", name.clone()),
            ("ARGS=--hostname-override=ip-10-0-0-1.us-west-2.compute.internal", name),
            ("ARGS=--hostname-override=", None),
            ("ARGS=--node-ip=1.2.3.4", None),
        ];
        for (text, expected) in rows {
            assert_eq!(find(text), expected, "{text}");
        }
    }
}
