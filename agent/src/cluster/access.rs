//! Address and credentials for the API server, from the kubeconfig that bootstrap wrote for kubelet below the machine's root.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use api::endpoint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use machine::quote::problem;
use serde::Deserialize;

use super::error::ClusterError;
use super::exec::Command;
use crate::host::secret::Secret;

/// Bytes in the kubeconfig itself, or in a file that may be replaced at run time: kubelet rotates its certificate. The bytes may
/// be a key, so that no log shows them.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// Embedded data, decoded.
    Data(Vec<u8>),
    /// File that is read whenever a connection is opened.
    File(PathBuf),
}

impl fmt::Debug for Material {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => write!(out, "Data({} bytes)", data.len()),
            Self::File(path) => out.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Material {
    pub(super) fn read(&self) -> Result<Vec<u8>, ClusterError> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => fs::read(path).map_err(|source| ClusterError::File { path: path.clone(), source }),
        }
    }
}

/// Credentials of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials.
    None,
    /// A bearer token.
    Token(Secret),
    /// A bearer token that a command prints.
    Exec(Command),
    /// A TLS client certificate and its key.
    Certificate {
        /// PEM, the leaf first.
        certificate: Material,
        /// PEM.
        key: Material,
    },
}

/// Settings for calls to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Use of TLS; plain HTTP is permitted only to this machine itself.
    pub tls: bool,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// PEM of the authorities that may sign the server's certificate.
    pub authority: Option<Material>,
    /// Credentials of the agent.
    pub credentials: Credentials,
}

impl Access {
    /// Reads the kubeconfig at `path`. Absolute paths in the file are resolved below `root`.
    ///
    /// # Errors
    /// [`ClusterError::File`] when the file cannot be read, [`ClusterError::Kubeconfig`] when it is invalid.
    pub fn read(root: &Path, path: &Path) -> Result<Self, ClusterError> {
        let text = fs::read_to_string(path).map_err(|source| ClusterError::File { path: path.to_owned(), source })?;
        Self::parse(root, &text).map_err(|problem| ClusterError::Kubeconfig { path: path.to_owned(), problem })
    }

    /// Parses the text of a kubeconfig, with its absolute paths below `root`.
    ///
    /// # Errors
    /// The problem, in a few words.
    pub fn parse(root: &Path, text: &str) -> Result<Self, String> {
        Self::understand(root, text).map_err(|said| problem(&said))
    }

    fn understand(root: &Path, text: &str) -> Result<Self, String> {
        let config: Kubeconfig = machine::document::read(text).map_err(|fault| fault.to_string())?;
        let current = config.contexts.iter().find(|named| named.name == config.current_context);
        let context = current.or(config.contexts.first()).ok_or("no current context")?;
        let cluster = config.clusters.iter().find(|named| named.name == context.context.cluster);
        let cluster = &cluster.ok_or("the cluster of its context is missing")?.cluster;
        let user = config.users.iter().find(|named| named.name == context.context.user);
        let user = &user.ok_or("the user of its context is missing")?.user;
        let (tls, host, port) = server(&cluster.server)?;
        Ok(Self {
            tls,
            host,
            port,
            authority: material(root, cluster.authority_data.as_deref(), cluster.authority.as_deref())?,
            credentials: credentials(root, user)?,
        })
    }

    /// Returns host and port, as messages show them.
    #[must_use]
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

fn server(text: &str) -> Result<(bool, String, u16), String> {
    let uri: Uri = text.parse().map_err(|error| format!("server `{text}`: {error}"))?;
    let host = uri.host().map(|host| host.strip_prefix('[').and_then(|v6| v6.strip_suffix(']')).unwrap_or(host));
    let host = host.filter(|host| is_host(host)).ok_or_else(|| format!("server `{text}` has no host"))?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") if endpoint::is_loopback(host) => false,
        Some("http") => return Err(format!("server `{text}` is not https; {}", endpoint::CURE)),
        _ => return Err(format!("server `{text}` is neither https nor http")),
    };
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Ok((tls, host.to_owned(), port))
}

/// Reports whether the text is a name or an address: the URL parser accepts other text as a host too.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte))
}

fn material(root: &Path, data: Option<&str>, file: Option<&str>) -> Result<Option<Material>, String> {
    if let Some(data) = data {
        let decoded = STANDARD.decode(data.trim()).map_err(|error| format!("base64: {error}"))?;
        return Ok(Some(Material::Data(decoded)));
    }
    Ok(file.map(|file| Material::File(root.join(file.trim_start_matches('/')))))
}

fn credentials(root: &Path, user: &User) -> Result<Credentials, String> {
    let certificate = material(root, user.certificate_data.as_deref(), user.certificate.as_deref())?;
    let key = material(root, user.key_data.as_deref(), user.key.as_deref())?;
    Ok(match (certificate, key, &user.token, &user.exec) {
        (Some(certificate), Some(key), ..) => Credentials::Certificate { certificate, key },
        (_, _, Some(token), _) => Credentials::Token(token.clone().into()),
        (_, _, None, Some(command)) => Credentials::Exec(command.clone()),
        _ => Credentials::None,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: ClusterEntry,
}

#[derive(Deserialize)]
struct ClusterEntry {
    server: String,
    #[serde(rename = "certificate-authority")]
    authority: Option<String>,
    #[serde(rename = "certificate-authority-data")]
    authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
struct User {
    token: Option<String>,
    exec: Option<Command>,
    #[serde(rename = "client-certificate")]
    certificate: Option<String>,
    #[serde(rename = "client-certificate-data")]
    certificate_data: Option<String>,
    #[serde(rename = "client-key")]
    key: Option<String>,
    #[serde(rename = "client-key-data")]
    key_data: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = r"
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://ABC.gr7.us-west-2.eks.amazonaws.com
contexts:
- name: kubelet
  context: {cluster: kubernetes, user: kubelet}
current-context: kubelet
users:
- name: kubelet
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
";

    #[test]
    fn parse_resolves_files_below_the_root() {
        let access = Access::parse(Path::new("/srv/one"), CERTIFICATE);
        let pem = Material::File("/srv/one/var/lib/kubelet/pki/kubelet-client-current.pem".into());
        let expected = Access {
            tls: true,
            host: "ABC.gr7.us-west-2.eks.amazonaws.com".into(),
            port: 443,
            authority: Some(Material::File("/srv/one/etc/kubernetes/pki/ca.crt".into())),
            credentials: Credentials::Certificate { certificate: pem.clone(), key: pem },
        };
        assert_eq!(access, Ok(expected));
    }

    #[test]
    fn parse_reads_embedded_data_and_exec_commands() {
        let text = CERTIFICATE
            .replace("certificate-authority: /etc/kubernetes/pki/ca.crt", "certificate-authority-data: aGVsbG8=")
            .replace("https://ABC.gr7.us-west-2.eks.amazonaws.com", "http://127.0.0.1:8080");
        let (head, _) = text.split_once("    client-certificate:").unwrap_or_default();
        let exec = "    exec:\n      command: aws\n      args: [eks, get-token]\n      env: null\n";
        let access = Access::parse(Path::new("/"), &format!("{head}{exec}"));
        let command = Command { command: "aws".into(), args: vec!["eks".into(), "get-token".into()], env: None };
        let expected = Access {
            tls: false,
            host: "127.0.0.1".into(),
            port: 8080,
            authority: Some(Material::Data(b"hello".to_vec())),
            credentials: Credentials::Exec(command),
        };
        assert_eq!(access, Ok(expected));
    }

    #[test]
    fn parse_reports_the_problem_when_kubeconfig_is_invalid() {
        let rows = [
            ("clusters: []", "no current context"),
            ("]", ""),
            (&CERTIFICATE.replace("user: kubelet}", "user: absent}"), "the user of its context is missing"),
            (&CERTIFICATE.replace("https:", "ftp:"), "neither https nor http"),
            (&CERTIFICATE.replace("https:", "http:"), "is not https; write https://HOST"),
            (&CERTIFICATE.replace("https://ABC", "http://127.0.0.1.ABC"), "is not https"),
            (&CERTIFICATE.replace("https://ABC", "HTTP://10.0.0.1/ABC"), "is not https"),
            (&CERTIFICATE.replace("https://ABC", "https://c[fd00::1]ABC"), "no host"),
        ];
        for (text, part) in rows {
            let problem = Access::parse(Path::new("/"), text).err().unwrap_or_else(|| "accepted".into());
            assert!(problem.contains(part) && problem != "accepted", "{text}: {problem}");
        }
    }
}
