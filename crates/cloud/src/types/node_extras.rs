//! Cost of each node of an EC2NodeClass beside its instance: EBS volumes and a public IPv4 address.

use planner::MicroDollars;

use super::ClassSettings;
use super::prices::EQUAL_LEVEL;
use crate::calls::BlockDevice;
use crate::data::VolumePrices;

/// Hours of a month in the prices of EBS.
const HOURS_PER_MONTH: i64 = 730;
/// Price of a public IPv4 address in every region, in millionths of a dollar per hour.
const PUBLIC_IPV4: i64 = 5_000;
/// Type of a volume whose block device mapping names none.
const DEFAULT_TYPE: &str = "gp2";

/// Returns the cost per hour of the volumes, and of a public IPv4 address if the EC2NodeClass requests one. The prices of volumes
/// are those of us-east-1; in other regions they differ about as much as those of instances, by `level` in thousandths. A volume
/// of unknown size, which has that of a snapshot, costs nothing.
pub(super) fn cost(class: &ClassSettings, prices: &VolumePrices, level: i64) -> MicroDollars {
    let volumes: i64 = class.block_devices.iter().map(|volume| volume_cost(volume, prices)).sum();
    let address = if class.public_ipv4 { PUBLIC_IPV4 } else { 0 };
    MicroDollars(volumes * level / EQUAL_LEVEL + address)
}

fn volume_cost(volume: &BlockDevice, prices: &VolumePrices) -> i64 {
    let kind = volume.volume_type.as_deref().unwrap_or(DEFAULT_TYPE);
    let (Some(price), Some(size)) = (prices.get(kind), volume.size_gib) else { return 0 };
    let beyond = |amount: Option<u32>, included: u32| i64::from(amount.unwrap_or(0).saturating_sub(included));
    let month = i64::from(size) * price.gib
        + beyond(volume.iops, price.free_iops) * price.iops
        + beyond(volume.throughput, price.free_throughput) * price.throughput;
    month / HOURS_PER_MONTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::facts;
    use crate::types::prices::PriceBook;

    fn volume(kind: &str, size_gib: u32) -> BlockDevice {
        BlockDevice { volume_type: Some(kind.to_owned()), size_gib: Some(size_gib), ..BlockDevice::default() }
    }

    fn class(volumes: &[BlockDevice], public_ipv4: bool) -> ClassSettings {
        ClassSettings { block_devices: volumes.to_vec(), public_ipv4, ..ClassSettings::default() }
    }

    fn hourly(volumes: &[BlockDevice], public_ipv4: bool) -> i64 {
        cost(&class(volumes, public_ipv4), &facts().unwrap().volumes, EQUAL_LEVEL).0
    }

    /// A month of 20 GiB of gp3 costs $1.60, and one of 1 TiB of io2 with 10,000 IOPS $778.
    #[test]
    fn cost_counts_size_iops_throughput_and_address() {
        assert_eq!(hourly(&[volume("gp3", 20)], false), 2_191);
        assert_eq!(hourly(&[volume("gp3", 4), volume("gp3", 20)], false), 438 + 2_191);
        assert_eq!(hourly(&[BlockDevice { iops: Some(10_000), ..volume("io2", 1_024) }], false), 1_065_753);
        let fast = BlockDevice { iops: Some(4_000), throughput: Some(225), ..volume("gp3", 100) };
        assert_eq!(hourly(&[fast], false), (8_000_000 + 1_000 * 5_000 + 100 * 40_000) / 730);
        let slow = BlockDevice { iops: Some(3_000), throughput: Some(125), ..volume("gp3", 100) };
        assert_eq!(hourly(&[slow], false), 8_000_000 / 730, "included in the price of gp3");
        assert_eq!(hourly(&[], true), 5_000);
    }

    #[test]
    fn cost_of_volumes_follows_the_price_level_of_the_region() {
        let class = class(&[volume("gp3", 100)], true);
        let facts = facts().unwrap();
        let dearer = facts.on_demand.iter().map(|(name, price)| (name.clone(), price * 6 / 5)).collect();
        let level = PriceBook::of_table(dearer).level(&facts.on_demand);
        assert_eq!(cost(&class, &facts.volumes, level).0, 8_000_000 / 730 * 6 / 5 + 5_000);
        assert_eq!(PriceBook::default().level(&facts.on_demand), EQUAL_LEVEL, "no price is known");
    }

    #[test]
    fn cost_is_that_of_gp2_without_a_type_and_nothing_without_a_size() {
        let untyped = BlockDevice { volume_type: None, ..volume("", 100) };
        assert_eq!(hourly(&[untyped], false), hourly(&[volume("gp2", 100)], false));
        assert_eq!(hourly(&[BlockDevice { size_gib: None, ..volume("gp3", 0) }], false), 0);
    }
}
