//! Node labels of an instance type. Zone and capacity type belong to the offerings.

use std::collections::BTreeMap;

use api::label;

use crate::calls::{Accelerator, InstanceTypeInfo};
use crate::data::Facts;
use crate::settings::Settings;

/// Default value of the tenancy label.
const SHARED: &str = "default";
/// Tenancy of instances on dedicated hardware.
const DEDICATED: &str = "dedicated";

/// Returns the labels of the type's Linux instances by key; nodes lack all other keys. A node has the first of several
/// tenancies unless its NodeClaim requests another.
#[must_use]
pub fn labels(info: &InstanceTypeInfo, facts: &Facts, settings: &Settings) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let mut set = |key: &str, value: String| {
        all.insert(key.to_owned(), vec![value]);
    };
    let (family, size) = info.name.split_once('.').unwrap_or((info.name.as_str(), ""));
    set(label::INSTANCE_TYPE, info.name.clone());
    set(label::ARCH, arch(info).to_owned());
    set(label::OS, label::OS_LINUX.to_owned());
    set(label::REGION, settings.region.clone());
    set(label::INSTANCE_FAMILY, family.to_owned());
    set(label::INSTANCE_SIZE, size.to_owned());
    if let Some((category, generation)) = category(family) {
        set(label::INSTANCE_CATEGORY, category.to_owned());
        set(label::INSTANCE_GENERATION, generation.to_owned());
    }
    set(label::INSTANCE_CPU, info.vcpus.to_string());
    set(label::INSTANCE_CPU_MANUFACTURER, kebab(&info.cpu_manufacturer));
    set(label::INSTANCE_MEMORY, info.memory_mib.to_string());
    set(label::INSTANCE_HYPERVISOR, info.hypervisor.clone());
    set(label::INSTANCE_ENCRYPTION, info.encryption_in_transit.to_string());
    set(label::INSTANCE_CAPABILITY_FLEX, family.contains("-flex").to_string());
    let mut set_known = |key: &str, amount: u64| {
        if amount > 0 {
            set(key, amount.to_string());
        }
    };
    set_known(label::INSTANCE_CPU_CLOCK, u64::from(info.clock_mhz));
    set_known(label::INSTANCE_EBS_BANDWIDTH, u64::from(info.ebs_mbps));
    set_known(label::INSTANCE_NETWORK_BANDWIDTH, facts.network_mbps.get(&info.name).copied().unwrap_or(0));
    set_known(label::INSTANCE_LOCAL_NVME, if info.local_nvme { info.local_storage_gb } else { 0 });
    if let [gpu] = info.gpus.as_slice() {
        device(&mut set, gpu, [label::INSTANCE_GPU_NAME, label::INSTANCE_GPU_MANUFACTURER, label::INSTANCE_GPU_COUNT]);
        set(label::INSTANCE_GPU_MEMORY, gpu.memory_mib.to_string());
    }
    if let [accelerator] = info.accelerators.as_slice() {
        let keys = [
            label::INSTANCE_ACCELERATOR_NAME,
            label::INSTANCE_ACCELERATOR_MANUFACTURER,
            label::INSTANCE_ACCELERATOR_COUNT,
        ];
        device(&mut set, accelerator, keys);
    }
    all.insert(label::INSTANCE_TENANCY.to_owned(), vec![SHARED.to_owned(), DEDICATED.to_owned()]);
    all
}

fn device(set: &mut impl FnMut(&str, String), one: &Accelerator, [name, manufacturer, count]: [&str; 3]) {
    set(name, kebab(&one.name));
    set(manufacturer, kebab(&one.manufacturer));
    set(count, one.count.to_string());
}

/// Returns Kubernetes' name of the first supported architecture.
pub(super) fn arch(info: &InstanceTypeInfo) -> &'static str {
    let known = info.architectures.iter().find_map(|arch| match arch.as_str() {
        "x86_64" => Some(label::ARCH_AMD64),
        "arm64" => Some(label::ARCH_ARM64),
        _ => None,
    });
    known.unwrap_or_default()
}

/// Returns letters and generation of a family: `m7g` is (`m`, `7`), `u-6tb1` is (`u`, `1`). Returns `None` if the name has
/// another form.
fn category(family: &str) -> Option<(&str, &str)> {
    let letters = family.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(family.len());
    let (category, rest) = family.split_at(letters);
    let rest = skip_terabytes(rest).unwrap_or(rest);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (!category.is_empty() && digits > 0).then(|| (category, &rest[..digits]))
}

/// Returns the text after `-6tb`, if the text begins with such a prefix.
fn skip_terabytes(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('-')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    (digits > 0).then(|| rest[digits..].strip_prefix("tb")).flatten()
}

fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::category;

    #[test]
    fn category_splits_letters_and_generation() {
        let rows = [
            ("m7g", Some(("m", "7"))),
            ("u-6tb1", Some(("u", "1"))),
            ("u7i-12tb", Some(("u", "7"))),
            ("inf2", Some(("inf", "2"))),
            ("p6-b200", Some(("p", "6"))),
            ("mac-m4", None),
            ("hpc7a", Some(("hpc", "7"))),
        ];
        for (family, expected) in rows {
            assert_eq!(category(family), expected, "{family}");
        }
    }
}
