//! Route of a request: direct, or through the proxy that the environment names. The rules are those of Go's standard library,
//! for which users write their environments. Pure.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;

use super::error::Ec2Error;
use crate::host::environment::Environment;

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
        let uri: Uri = url.parse().ok()?;
        let tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        (!host.is_empty()).then_some(Self { tls, host, port })
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
    pub authorization: Option<String>,
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
    if is_here(&server.host) || exempt.split(',').any(|rule| exempts(rule.trim(), server)) {
        return Ok(None);
    }
    let unusable = || Ec2Error::Variable { name: name.to_owned(), cure: "write http://HOST:PORT of the proxy" };
    parse(url).map(Some).ok_or_else(unusable)
}

fn parse(url: &str) -> Option<Proxy> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().ok()?;
    let user = uri.authority()?.as_str().rsplit_once('@').map(|(user, _)| user.to_owned());
    let authorization = user.map(|user| format!("Basic {}", STANDARD.encode(decoded(&user))));
    Some(Proxy { server: Server::parse(&url)?, authorization })
}

/// Decodes percent escapes; other text is unchanged.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let (byte, after) = match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (byte, &tail[2..]),
            None => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Reports whether a rule of NO_PROXY covers a server. A rule is `*`, an address, a network, or a domain with its subdomains,
/// each with or without a port. A domain with a leading dot covers only its subdomains.
fn exempts(rule: &str, server: &Server) -> bool {
    if rule == "*" {
        return true;
    }
    let host = server.host.to_ascii_lowercase();
    if let (Some(network), Ok(address)) = (Network::parse(rule), host.parse()) {
        return network.contains(address);
    }
    let (name, port) = with_port(rule);
    if name.is_empty() || port.is_some_and(|port| port != server.port) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(&name);
    let (domain, itself) = name.strip_prefix('.').map_or((name, true), |domain| (domain, false));
    match host.strip_suffix(domain) {
        Some("") => itself,
        Some(below) => below.ends_with('.'),
        None => false,
    }
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

/// Network of IP addresses in CIDR notation.
struct Network {
    address: IpAddr,
    /// Number of leading bits that all addresses of the network share.
    length: u32,
}

impl Network {
    fn parse(rule: &str) -> Option<Self> {
        let (address, length) = rule.split_once('/')?;
        let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some(Self { address, length })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let same =
            |left: u128, right: u128, bits: u32| (left ^ right).checked_shr(bits - self.length).unwrap_or(0) == 0;
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => same(own.to_bits().into(), address.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(address)) => same(own.to_bits(), address.to_bits(), 128),
            _ => false,
        }
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
        ] {
            assert_eq!(proxied(no_proxy, url), expected, "NO_PROXY={no_proxy} {url}");
        }
    }

    #[test]
    fn on_the_way_returns_the_proxy_of_the_scheme() {
        let server = |url| Server::parse(url).unwrap_or(Server { tls: false, host: String::new(), port: 0 });
        let secret = Some("Basic dXNlcjpwQHNz".to_owned());
        for (url, expected) in [
            ("http://proxy:3128", Some((server("http://proxy:3128"), None))),
            ("proxy:3128", Some((server("http://proxy:3128"), None))),
            ("http://user:p%40ss@proxy", Some((server("http://proxy:80"), secret))),
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
