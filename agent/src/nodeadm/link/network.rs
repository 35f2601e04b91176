//! Configuration of systemd-networkd for an interface of EC2. Pure.

/// Metric of routes over the primary interface; other interfaces have greater ones, so that the primary interface is preferred.
const METRIC: u32 = 512;
/// First routing table of secondary interfaces.
const TABLE: u32 = 10_000;
/// Priority just before the rule of the main table.
const RULE_PRIORITY: u32 = 32_765;

/// One interface as IMDS describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Hardware address.
    pub mac: String,
    /// Number of the network card.
    pub card: u32,
    /// Device index on that card.
    pub device: u32,
    /// Set for the primary interface of the instance.
    pub primary: bool,
    /// First IPv4 address, if any.
    pub ipv4: Option<String>,
}

impl InterfaceSettings {
    /// Returns the networkd file: addresses by DHCP, and preference for the primary interface. Each other interface has a
    /// routing table, so that responses leave through the interface of their requests.
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
