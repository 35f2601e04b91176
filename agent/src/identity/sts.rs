//! Where the security token service of a region answers: EKS accepts only tokens that are signed for the right one.

/// Region prefixes whose services answer under another domain than `amazonaws.com`. Source: the partitions of the AWS SDKs.
const DOMAINS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
];

/// The regions with a FIPS endpoint of their own. In GovCloud the ordinary endpoint is one.
const FIPS: [&str; 4] = ["us-east-1", "us-east-2", "us-west-1", "us-west-2"];

/// The domain below which a region's services answer.
#[must_use]
pub fn domain(region: &str) -> &'static str {
    DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("amazonaws.com", |(_, domain)| domain)
}

/// The regional endpoint; the FIPS one where it was asked for and the region has one.
#[must_use]
pub fn host(region: &str, fips: bool) -> String {
    let service = if fips && FIPS.contains(&region) { "sts-fips" } else { "sts" };
    format!("{service}.{region}.{}", domain(region))
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn each_partition_has_its_domain() {
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
