//! Endpoints of the security token service: EKS accepts only tokens that are signed for the endpoint of the right region.

/// Region prefixes with another domain than `amazonaws.com`. Source: the partitions of the AWS SDKs.
const DOMAINS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
];

/// Regions with a FIPS endpoint of their own. In GovCloud the ordinary endpoint is a FIPS endpoint.
const FIPS: [&str; 4] = ["us-east-1", "us-east-2", "us-west-1", "us-west-2"];

/// Returns the domain of a region's services.
#[must_use]
pub fn domain(region: &str) -> &'static str {
    DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("amazonaws.com", |(_, domain)| domain)
}

/// Returns the regional endpoint; the FIPS endpoint if it is requested and the region has one.
#[must_use]
pub fn host(region: &str, fips: bool) -> String {
    let service = if fips && FIPS.contains(&region) { "sts-fips" } else { "sts" };
    format!("{service}.{region}.{}", domain(region))
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn host_uses_the_domain_of_each_partition() {
        let rows = [
            ("us-west-2", false, "sts.us-west-2.amazonaws.com"),
            ("us-west-2", true, "sts-fips.us-west-2.amazonaws.com"),
            ("eu-central-1", true, "sts.eu-central-1.amazonaws.com"),
            ("us-gov-west-1", true, "sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", false, "sts.cn-north-1.amazonaws.com.cn"),
            ("us-iso-east-1", false, "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", false, "sts.us-isob-east-1.sc2s.sgov.gov"),
            ("eusc-de-east-1", false, "sts.eusc-de-east-1.amazonaws.eu"),
        ];
        for (region, fips, expected) in rows {
            assert_eq!(host(region, fips), expected);
        }
    }
}
