//! Amazon Linux 2: the user's own content first, then a script that calls the image's `/etc/eks/bootstrap.sh`.

use api::nodeclass::AmiFamily;

use super::{Bootstrap, Document, RenderError, arguments, multipart};

/// The output is written to a log on the instance and to EC2's console output. The console output is all that remains of an
/// instance that never joins the cluster.
const HEAD: &str = "#!/bin/bash -xe
exec > >(tee -a /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1
";

pub(super) fn render(input: &Bootstrap) -> Result<Document, RenderError> {
    if input.agent.is_some() {
        return Err(RenderError::AgentNotServed { family: "AL2", instead: "AL2023 or Bottlerocket" });
    }
    let mut user = multipart::user_parts(AmiFamily::Al2, input.user_text())?;
    user.parts.push(multipart::script(script(input)));
    Ok(Document::from(multipart::write(&user.parts)?).warned(user.warnings))
}

fn script(input: &Bootstrap) -> String {
    let mut words = vec![
        format!("/etc/eks/bootstrap.sh {}", quoted(&input.cluster_name)),
        format!("--apiserver-endpoint {}", quoted(&input.cluster_endpoint)),
        format!("--b64-cluster-ca {}", quoted(&input.cluster_ca)),
    ];
    words.extend(network(input));
    words.extend(input.pods().map(|_| "--use-max-pods false".to_owned()));
    words.push(format!("--kubelet-extra-args {}", quoted(&arguments::kubelet_arguments(input))));
    words.extend(input.raid0.then(|| "--local-disks raid0".to_owned()));
    format!("{HEAD}{}\n", words.join(" \\\n"))
}

/// Returns the arguments for cluster DNS. The script computes the address in an IPv6 cluster only from the service CIDR.
fn network(input: &Bootstrap) -> Vec<String> {
    let is_ipv6 = input.is_ipv6();
    let address = input.dns().first().map(|address| format!("--dns-cluster-ip {}", quoted(address)));
    let range = || is_ipv6.then(|| format!("--service-ipv6-cidr {}", quoted(&input.cluster_cidr)));
    let family = is_ipv6.then(|| "--ip-family ipv6".to_owned());
    family.into_iter().chain(address.or_else(range)).collect()
}

/// Quotes any text as one shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
