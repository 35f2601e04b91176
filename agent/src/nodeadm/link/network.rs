//! The configuration that systemd-networkd gets for one of EC2's interfaces. Pure.

/// The metric of routes over the primary interface; others follow, so that the primary one is preferred.
const METRIC: u32 = 512;
/// The first routing table of secondary interfaces.
const TABLE: u32 = 10_000;
/// Just before the main table's own rule.
const RULE_PRIORITY: u32 = 32_765;

/// One interface as metadata describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Hardware address.
    pub mac: String,
    /// Number of its network card.
    pub card: u32,
    /// Device index on that card.
    pub device: u32,
    /// Whether it is the instance's primary one.
    pub primary: bool,
    /// Its first IPv4 address, if it has one.
    pub ipv4: Option<String>,
}

impl InterfaceSettings {
    /// The networkd file: addresses by DHCP, the primary interface preferred, and for each other one a routing table
    /// of its own, so that answers leave where questions came in.
    #[must_use]
    pub fn network_file(&self) -> String {
        let mut sections = self.common();
        if !self.primary {
            sections.push_str(&self.own_table());
        }
        sections
    }

    fn place(&self) -> u32 {
        self.card.saturating_mul(100).saturating_add(self.device)
    }

    fn common(&self) -> String {
        let (mac, metric) = (&self.mac, METRIC.saturating_add(self.place()));
        format!(
            "# Written by kerf-agent when the interface appeared.\n\
             [Match]\nPermanentMACAddress={mac}\n\n\
             [Link]\nMTUBytes=9001\n\n\
             [Network]\nDHCP=yes\nDNSDefaultRoute=yes\nIPv6DuplicateAddressDetection=0\nLLMNR=no\n\n\
             [DHCPv4]\nRouteMetric={metric}\nUseDNS=yes\nUseDomains=yes\nUseGateway=true\nUseHostname=no\nUseNTP=yes\n\
             UseRoutes=true\n\n\
             [DHCPv6]\nUseDNS=yes\nUseHostname=no\nUseNTP=yes\nWithoutRA=solicit\n\n\
             [IPv6AcceptRA]\nRouteMetric={metric}\nUseGateway=true\n"
        )
    }

    fn own_table(&self) -> String {
        let table = TABLE.saturating_add(self.place());
        let mut sections: String =
            ["_dhcp4", "_ipv6ra"].map(|gateway| format!("\n[Route]\nGateway={gateway}\nTable={table}\n")).concat();
        if let Some(address) = &self.ipv4 {
            sections
                .push_str(&format!("\n[RoutingPolicyRule]\nFrom={address}\nPriority={RULE_PRIORITY}\nTable={table}\n"));
        }
        sections
    }
}
