//! Windows Server: the user's commands first, then the call of the image's bootstrap script, all in one block of PowerShell.

use super::{Bootstrap, Document, RenderError, arguments, user_text};

const OPEN: &str = "<powershell>";
const CLOSE: &str = "</powershell>";
/// Path of the script in EKS' images, below the program folder.
const SCRIPT: &str = r"Amazon\EKS\Start-EKSBootstrap.ps1";

pub(super) fn render(input: &Bootstrap) -> Result<Document, RenderError> {
    if input.agent.is_some() {
        return Err(RenderError::AgentNotServed { family: "Windows", instead: "AL2023 or Bottlerocket" });
    }
    let (commands, after) = split(input.user_text())?;
    let mut lines = vec![OPEN.to_owned()];
    lines.extend((!commands.trim().is_empty()).then(|| commands.trim_matches(['\r', '\n']).to_owned()));
    lines.push(format!("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\{SCRIPT}\""));
    lines.push(call(input));
    lines.push(CLOSE.to_owned());
    lines.extend((!after.is_empty()).then(|| after.to_owned()));
    Ok(Document::from(lines.join("\n") + "\n").warned(user_text::second_bootstrap(commands)))
}

fn call(input: &Bootstrap) -> String {
    let arguments = arguments::kubelet_arguments(input);
    let mut words = vec![
        "& $EKSBootstrapScriptFile".to_owned(),
        format!("-EKSClusterName {}", quoted(&input.cluster_name)),
        format!("-APIServerEndpoint {}", quoted(&input.cluster_endpoint)),
        format!("-Base64ClusterCA {}", quoted(&input.cluster_ca)),
        format!("-KubeletExtraArgs {}", quoted(&arguments)),
    ];
    words.extend(input.dns().first().map(|address| format!("-DNSClusterIP {}", quoted(address))));
    words.join(" ")
}

/// Returns the user's commands, and the text after their block. User data that already has the tags contains one block,
/// possibly with a setting of EC2Launch such as `<persist>` after it.
fn split(text: &str) -> Result<(&str, &str), RenderError> {
    let lower = text.to_ascii_lowercase();
    let start = lower.len() - lower.trim_start().len();
    let (inner, after) = match lower[start..].strip_prefix(OPEN) {
        None => (0..text.len(), text.len()..text.len()),
        Some(_) => {
            let from = start + OPEN.len();
            let end = lower[from..].find(CLOSE).map(|at| from + at).ok_or(RenderError::OpenPowerShell)?;
            (from..end, end + CLOSE.len()..text.len())
        }
    };
    if [OPEN, CLOSE].iter().any(|tag| lower[inner.clone()].contains(tag) || lower[after.clone()].contains(tag)) {
        return Err(RenderError::InnerPowerShell);
    }
    Ok((&text[inner], text[after].trim()))
}

/// Quotes any text as one PowerShell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
