//! Addresses of API servers. A program sends its token to the address, so plain HTTP is permitted only on the same machine.

use std::net::IpAddr;

/// Fix for an address with plain HTTP.
pub const CURE: &str = "write https://HOST, because plain HTTP shows credentials to the network";

/// Reports whether a URL is plain HTTP to another machine. The scheme may be in any case.
#[must_use]
pub fn is_plain_remote(url: &str) -> bool {
    let Some((scheme, rest)) = url.trim().split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    scheme.eq_ignore_ascii_case("http") && !is_loopback(host)
}

/// Reports whether a host is this machine itself: an address of the loopback interface, or `localhost`.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_plain_remote;

    #[test]
    fn is_plain_remote_permits_http_only_on_loopback() {
        let remote = [
            "http://a.example",
            "HTTP://10.0.0.1:8080/x",
            "http://[fd00::1]:80",
            "http://127.0.0.1@a.example",
            "http://localhost.example",
            "http://127.0.0.1.example",
            " http://a",
        ];
        for url in remote {
            assert!(is_plain_remote(url), "{url}");
        }
        let safe = [
            "https://a.example",
            "http://127.0.0.1:8080",
            "http://127.9.9.9/",
            "http://localhost:1",
            "http://[::1]:1",
            "HTTPS://10.0.0.1",
            "a.example",
            "",
        ];
        for url in safe {
            assert!(!is_plain_remote(url), "{url}");
        }
    }
}
