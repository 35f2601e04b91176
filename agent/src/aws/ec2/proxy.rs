//! Route of a request: direct, or through the proxy that the environment names. hyper-util's matcher parses URLs, addresses,
//! networks and domains. Users write their environments for Go's standard library, so the rules in which curl and the matcher
//! differ from Go stay here: ports, `*.`, a leading dot, loopback, and errors for invalid URLs. Pure.

use std::net::IpAddr;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use super::error::Ec2Error;
use crate::host::environment::Environment;
use crate::host::secret::Secret;

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Use of TLS.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Server {
    /// Parses `http://HOST[:PORT]` or `https://HOST[:PORT]`; the rest is ignored.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        Self::from_uri(&url.parse().ok()?)
    }

    fn from_uri(uri: &Uri) -> Option<Self> {
        let tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        (!host.is_empty()).then_some(Self { tls, host, port })
    }

    fn uri(&self) -> Option<Uri> {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority(false)).parse().ok()
    }

    /// Returns host and port, as in a `Host` header or a CONNECT request. `always` adds the default port of the scheme too.
    #[must_use]
    pub fn authority(&self, always: bool) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if always || self.port != usual { format!("{host}:{}", self.port) } else { host }
    }
}

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Server of the proxy.
    pub server: Server,
    /// Value of `Proxy-Authorization`, where the proxy's URL names a user.
    pub authorization: Option<Secret>,
}

/// Returns the proxy for requests to `server`; `None` for a direct connection. Connections to this machine itself never use a
/// proxy.
///
/// # Errors
/// [`Ec2Error::Variable`] for a proxy whose URL is invalid.
pub fn on_the_way(environment: &Environment, server: &Server) -> Result<Option<Proxy>, Ec2Error> {
    let names = if server.tls { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let Some((name, url)) = names.iter().find_map(|name| Some((*name, environment.get(name)?))) else {
        return Ok(None);
    };
    let exempt = environment.get("NO_PROXY").or_else(|| environment.get("no_proxy")).unwrap_or_default();
    if is_here(&server.host) || is_exempt(exempt, server) {
        return Ok(None);
    }
    let unusable = || Ec2Error::Variable { name: name.to_owned(), cure: "write http://HOST:PORT of the proxy" };
    parse(url, server).map(Some).ok_or_else(unusable)
}

fn parse(url: &str, server: &Server) -> Option<Proxy> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let found = Matcher::builder().all(url).build().intercept(&server.uri()?)?;
    let authorization =
        found.basic_auth().and_then(|value| value.to_str().ok()).map(|value| Secret::from(value.to_owned()));
    Some(Proxy { server: Server::from_uri(found.uri())?, authorization })
}

fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Reports whether the value of NO_PROXY covers a server.
fn is_exempt(exempt: &str, server: &Server) -> bool {
    let rules = || exempt.split(',').map(str::trim);
    let translated: Vec<&str> = rules().filter_map(|rule| translated(rule, server)).collect();
    let matcher = Matcher::builder().all("http://proxy").no(translated.join(",")).build();
    // The matcher's `*` covers names only, not addresses.
    rules().any(|rule| rule == "*") || server.uri().is_some_and(|uri| matcher.intercept(&uri).is_none())
}

/// Returns a rule of Go in the notation of the matcher; `None` if the rule cannot cover the server. The matcher has neither
/// ports nor brackets nor `*.`, and its leading dot covers the domain itself too.
fn translated<'a>(rule: &'a str, server: &Server) -> Option<&'a str> {
    let (name, port) = with_port(rule);
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    let is_itself = name.strip_prefix('.').is_some_and(|domain| domain.eq_ignore_ascii_case(&server.host));
    (!is_itself && port.is_none_or(|port| port == server.port)).then_some(name)
}

fn with_port(rule: &str) -> (&str, Option<u16>) {
    let bare = rule.trim_start_matches('[');
    match bare.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host.trim_end_matches(']'), port.parse().ok().or(Some(0)))
        }
        _ => (bare.trim_end_matches(']'), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn proxied(no_proxy: &str, url: &str) -> bool {
        let variables = [("HTTPS_PROXY", "http://proxy:3128"), ("HTTP_PROXY", "proxy"), ("NO_PROXY", no_proxy)];
        let server = Server::parse(url);
        server.is_some_and(|server| matches!(on_the_way(&environment(&variables), &server), Ok(Some(_))))
    }

    #[test]
    fn on_the_way_skips_the_proxy_when_no_proxy_matches() {
        let ec2 = "https://ec2.us-west-2.amazonaws.com";
        for (no_proxy, url, expected) in [
            ("", ec2, true),
            ("", "http://ec2.test:5000", true),
            ("", "http://localhost:5000", false),
            ("", "http://127.0.0.1:5000", false),
            ("", "http://127.9.9.9:5000", false),
            ("", "http://[::1]:5000", false),
            ("*", ec2, false),
            ("amazonaws.com", ec2, false),
            (".amazonaws.com", ec2, false),
            ("*.amazonaws.com", ec2, false),
            ("AMAZONAWS.COM", ec2, false),
            ("aws.com", ec2, true),
            ("a, amazonaws.com", ec2, false),
            ("ec2.us-west-2.amazonaws.com", ec2, false),
            (".ec2.us-west-2.amazonaws.com", ec2, true),
            ("amazonaws.com:443", ec2, false),
            ("amazonaws.com:80", ec2, true),
            ("10.0.0.0/8", "http://10.1.2.3", false),
            ("10.0.0.0/8", "http://11.1.2.3", true),
            ("0.0.0.0/0", "http://11.1.2.3", false),
            ("10.1.2.3", "http://10.1.2.3", false),
            ("10.1.2.3:80", "http://10.1.2.3", false),
            ("10.1.2.3:81", "http://10.1.2.3", true),
            ("fd00::/8", "http://[fd00:ec2::254]", false),
            ("[fd00:ec2::254]:80", "http://[fd00:ec2::254]", false),
            ("fd00:ec2::254", "http://[fd00:ec2::254]", false),
            (",,", ec2, true),
            ("*", "http://10.1.2.3", false),
            ("a, *", "http://10.1.2.3", false),
            ("10.0.0.0/33, :443, .", ec2, true),
            (":80", "http://10.1.2.3", true),
            ("*.EC2.us-west-2.amazonaws.com", ec2, true),
        ] {
            assert_eq!(proxied(no_proxy, url), expected, "NO_PROXY={no_proxy} {url}");
        }
    }

    #[test]
    fn on_the_way_returns_the_proxy_of_the_scheme() {
        let server = |url| Server::parse(url).unwrap_or(Server { tls: false, host: String::new(), port: 0 });
        let secret = |text: &str| Some(Secret::from(text.to_owned()));
        for (url, expected) in [
            ("http://proxy:3128", Some((server("http://proxy:3128"), None))),
            ("proxy:3128", Some((server("http://proxy:3128"), None))),
            ("http://user:p%40ss@proxy", Some((server("http://proxy:80"), secret("Basic dXNlcjpwQHNz")))),
            ("http://user@proxy", Some((server("http://proxy:80"), secret("Basic dXNlcjo=")))),
            ("proxy:3128/", Some((server("http://proxy:3128"), None))),
            ("https://proxy/", Some((server("https://proxy:443"), None))),
            ("socks5://proxy:1080", None),
            ("http://", None),
        ] {
            let found = on_the_way(&environment(&[("https_proxy", url)]), &server("https://a.example"));
            let found = found.map(|proxy| proxy.map(|proxy| (proxy.server, proxy.authorization)));
            assert_eq!(found.ok(), expected.map(Some), "{url}");
        }
        let other = on_the_way(&environment(&[("HTTP_PROXY", "http://proxy")]), &server("https://a.example"));
        assert_eq!(other.ok(), Some(None));
    }
}
