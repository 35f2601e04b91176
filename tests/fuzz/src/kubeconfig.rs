//! kubelet's kubeconfig and the output of its credentials command. Kerf, a user's script or another distribution may have
//! written them.

use std::path::Path;

use agent::cluster::{Access, Credentials, Material, credential};
use serde_json::{Value, json};

use crate::ParseResult;
use crate::journal::HOURS;
use crate::sentence;

const ROOT: &str = "/srv/machine";

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    printed(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return ParseResult::Refused("no text".to_owned()) };
    match Access::parse(Path::new(ROOT), text) {
        Ok(access) => {
            sentence::hold(&access.server());
            assert!(!access.host.is_empty() && !access.host.contains(char::is_whitespace), "{:?}", access.host);
            if let Credentials::Exec(command) = &access.credentials {
                assert_eq!(command.audience(), command.audience());
            }
            let again = Access::parse(Path::new(ROOT), &written(&access));
            assert_eq!(again.as_ref(), Ok(&access), "{}", written(&access));
            ParseResult::Accepted
        }
        Err(problem) => sentence::refused_with(problem),
    }
}

/// Asserts that the times of an accepted token are in order, for any current time.
fn printed(bytes: &[u8]) {
    for now in HOURS {
        if let Ok(token) = credential(bytes, now) {
            assert!(token.renew <= token.end && token.signed == now, "{token:?}");
            let _ = token.is_fresh(now);
        }
    }
}

/// Returns the same access as a kubeconfig with one cluster, context and user.
fn written(access: &Access) -> String {
    let scheme = if access.tls { "https" } else { "http" };
    let host = if access.host.contains(':') { format!("[{}]", access.host) } else { access.host.clone() };
    let mut cluster = json!({"server": format!("{scheme}://{host}:{}", access.port)});
    put(&mut cluster, "certificate-authority", access.authority.as_ref());
    let mut user = json!({});
    match &access.credentials {
        Credentials::None => {}
        Credentials::Token(token) => user["token"] = json!(token.expose()),
        Credentials::Exec(command) => {
            let env = command.env.iter().flatten().map(|it| json!({"name": it.name, "value": it.value.expose()}));
            let env = command.env.as_ref().map(|_| env.collect::<Vec<_>>());
            user["exec"] = json!({"command": command.command, "args": command.args, "env": env});
        }
        Credentials::Certificate { certificate, key } => {
            put(&mut user, "client-certificate", Some(certificate));
            put(&mut user, "client-key", Some(key));
        }
    }
    json!({
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    })
    .to_string()
}

fn put(entry: &mut Value, name: &str, material: Option<&Material>) {
    match material {
        None => {}
        Some(Material::Data(bytes)) => entry[format!("{name}-data")] = json!(base64(bytes)),
        Some(Material::File(path)) => {
            let below = path.strip_prefix(ROOT).unwrap_or(path);
            entry[name] = json!(format!("/{}", below.display()));
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(bytes)
}
