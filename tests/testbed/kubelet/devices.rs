//! Device plugins: a pod that runs one makes the devices of the machine known to kubelet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

/// Part of the image's name of each plugin, and its resources.
const PLUGINS: [(&str, &[&str]); 5] = [
    ("nvcr.io/nvidia/k8s-device-plugin", &["nvidia.com/gpu"]),
    ("rocm/k8s-device-plugin", &["amd.com/gpu"]),
    ("habana.ai/docker-k8s-device-plugin", &["habana.ai/gaudi"]),
    ("neuron-device-plugin", &["aws.amazon.com/neuron", "aws.amazon.com/neuroncore"]),
    ("aws-efa-k8s-device-plugin", &["vpc.amazonaws.com/efa"]),
];
/// Resource that the VPC resource controller adds where aws-node asks for it.
const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// Variable of aws-node that asks for it.
const ENABLE_POD_ENI: &str = "ENABLE_POD_ENI";

/// Returns the resources that the pod makes known.
pub fn advertised_by(pod: &Pod) -> Vec<&'static str> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut found = Vec::new();
    for container in containers {
        let image = container.image.as_deref().unwrap_or_default();
        let plugins = PLUGINS.iter().filter(|(part, _)| image.contains(part));
        found.extend(plugins.flat_map(|(_, resources)| resources.iter().copied()));
        let mut variables = container.env.iter().flatten();
        if variables.any(|it| it.name == ENABLE_POD_ENI && it.value.as_deref() == Some("true")) {
            found.push(POD_ENI);
        }
    }
    found
}

/// Devices of a machine, and which of them kubelet knows.
#[derive(Debug, Default)]
pub struct KnownDevices(BTreeMap<String, u32>);

impl KnownDevices {
    /// Adds resources of the machine. Returns true if one is new.
    pub fn add(&mut self, resources: &[&str], machine: &BTreeMap<String, u32>) -> bool {
        let before = self.0.len();
        let present = resources.iter().filter_map(|name| Some(((*name).to_owned(), *machine.get(*name)?)));
        self.0.extend(present);
        self.0.len() > before
    }

    /// Returns the amounts.
    pub fn amounts(&self) -> &BTreeMap<String, u32> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{KnownDevices, advertised_by};

    #[test]
    fn known_devices_are_those_of_plugins_that_the_machine_has() {
        let image = "nvcr.io/nvidia/k8s-device-plugin:v0.12.3";
        let pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "p", "image": image}]}})).unwrap();
        let advertised = advertised_by(&pod);
        assert_eq!(advertised, ["nvidia.com/gpu"]);
        let mut known = KnownDevices::default();
        assert!(!known.add(&advertised, &[("amd.com/gpu".to_owned(), 8)].into()));
        assert!(known.add(&advertised, &[("nvidia.com/gpu".to_owned(), 4)].into()));
        assert_eq!(known.amounts()["nvidia.com/gpu"], 4);
    }
}
