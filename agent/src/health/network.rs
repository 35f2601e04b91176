//! Checks of the network: a default route, and name resolution. The DNS query is one packet without a resolver library. Any
//! valid response shows that the name server works.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::text::Text;
use super::{CheckRun, check};

/// Time limit for one response.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUTE_UP: u32 = 0x1;
const ROUTE_REJECT: u32 = 0x200;

/// Check of default routes.
#[derive(Debug)]
pub(super) struct Routes {
    v4: Text,
    v6: Text,
}

impl Routes {
    pub(super) fn new(root: &Path) -> Self {
        let net = root.join("proc/net");
        Self { v4: Text::new(net.join("route")), v6: Text::new(net.join("ipv6_route")) }
    }

    pub(super) fn check(&mut self) -> Option<CheckRun> {
        let v4 = self.v4.read().map(|text| text.lines().any(is_default_v4));
        let v6 = self.v6.read().map(|text| text.lines().any(is_default_v6));
        let there = v4.into_iter().chain(v6).reduce(|one, other| one || other)?;
        let trouble = (!there).then(|| "no default route for IPv4 or IPv6".to_owned());
        Some(CheckRun { check: check::NO_ROUTE, trouble })
    }
}

/// Parses `eth0 00000000 0100000A 0003 ...`: interface, destination, gateway, flags in hexadecimal.
fn is_default_v4(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let destination = fields.nth(1);
    let flags = fields.nth(1).and_then(|flags| u32::from_str_radix(flags, 16).ok());
    destination == Some("00000000") && flags.is_some_and(|flags| flags & (ROUTE_UP | ROUTE_REJECT) == ROUTE_UP)
}

/// Parses destination, its prefix, source, its prefix, next hop, metric, two counters, flags, interface. The kernel keeps a
/// default route on `lo` that rejects everything.
fn is_default_v6(line: &str) -> bool {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [destination, prefix, .., flags, interface] = fields.as_slice() else { return false };
    let up = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & (ROUTE_UP | ROUTE_REJECT) == ROUTE_UP);
    destination.bytes().all(|byte| byte == b'0') && *prefix == "00" && up && *interface != "lo"
}

/// Returns the first name server of the machine.
pub(super) fn name_server(root: &Path, port: u16) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(root.join("etc/resolv.conf")).ok()?;
    let server = text.lines().find_map(|line| line.trim().strip_prefix("nameserver"))?;
    let address: IpAddr = server.trim().parse().ok()?;
    Some(SocketAddr::new(address, port))
}

/// Checks whether the name server answers a query for `name`. Returns one check for the warning and one for the repair.
pub(super) async fn resolve(server: SocketAddr, name: &str) -> [CheckRun; 2] {
    let asked = timeout(PATIENCE, ask(server, name)).await;
    let answered = asked.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    let trouble = answered.err().map(|error| format!("name server {} does not resolve {name}: {error}", server.ip()));
    [CheckRun { check: check::NO_DNS, trouble: trouble.clone() }, CheckRun { check: check::NAMES_LOST, trouble }]
}

async fn ask(server: SocketAddr, name: &str) -> Result<(), Error> {
    let id = random_id()?;
    let local: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question(name, id)).await?;
    let mut answer = [0; 512];
    loop {
        let length = socket.recv(&mut answer).await?;
        let answer = answer.get(..length).unwrap_or_default();
        let [high, low, flags, code, ..] = answer else { continue };
        if u16::from_be_bytes([*high, *low]) != id || flags & 0x80 == 0 {
            continue;
        }
        // A missing name is a valid response too; a failure of the name server to query others is not.
        return match code & 0xf {
            0 | 3 => Ok(()),
            code => Err(Error::other(format!("error {code}"))),
        };
    }
}

/// Returns an id that the sender of a forged response cannot know.
fn random_id() -> Result<u16, Error> {
    let mut id = [0; 2];
    SystemRandom::new().fill(&mut id).map_err(|_| Error::other("no random numbers"))?;
    Ok(u16::from_be_bytes(id))
}

/// Returns a query for the IPv4 addresses of `name`, RFC 1035.
fn question(name: &str, id: u16) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.') {
        let label = label.as_bytes();
        let label = label.get(..63).unwrap_or(label);
        packet.push(u8::try_from(label.len()).unwrap_or(63));
        packet.extend(label);
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}
