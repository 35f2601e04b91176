//! Check of GPUs and Neuron devices that existed at the start and no longer respond. A device that has fallen off its bus reads
//! as ones only, or has disappeared. The check uses neither the driver nor its tools, which may hang in this state.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use api::condition;

use super::{Check, CheckRun, check};
use crate::host::hardware::NVIDIA;

const DEVICES: &str = "sys/bus/pci/devices";
const AMAZON: &str = "0x1d0f";
/// Device ids of Inferentia, Trainium, Inferentia2 and Trainium2.
const NEURON: [&str; 7] = ["0x7064", "0x7065", "0x7066", "0x7067", "0x7164", "0x7264", "0x7364"];

/// Accelerators of this machine.
#[derive(Debug)]
pub(super) struct Accelerators {
    nvidia: Vec<PathBuf>,
    neuron: Vec<PathBuf>,
}

impl Accelerators {
    pub(super) fn find(root: &Path) -> Self {
        let entries = std::fs::read_dir(root.join(DEVICES)).into_iter().flatten().flatten();
        let (mut nvidia, mut neuron) = (Vec::new(), Vec::new());
        for path in entries.map(|entry| entry.path()) {
            let field = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default().trim().to_owned();
            match field("vendor").as_str() {
                // Displays and 3D controllers; not the sound and USB functions of some cards.
                NVIDIA if field("class").starts_with("0x03") => nvidia.push(path),
                AMAZON if NEURON.contains(&field("device").as_str()) => neuron.push(path),
                _ => {}
            }
        }
        Self { nvidia, neuron }
    }

    /// Reports whether the machine has a device of the kind to which a kernel message of this check belongs.
    pub(super) fn have(&self, check: &Check) -> bool {
        let is_neuron = check::NEURON_ERRORS.iter().any(|(_, known)| known == check);
        let devices = if is_neuron { &self.neuron } else { &self.nvidia };
        check.condition != condition::ACCELERATED_HARDWARE_READY || !devices.is_empty()
    }

    /// Checks each kind of device that the machine has.
    pub(super) fn check(&self) -> Vec<CheckRun> {
        let kinds = [(&self.nvidia, check::NVIDIA_LOST), (&self.neuron, check::NEURON_LOST)];
        let there = kinds.into_iter().filter(|(devices, _)| !devices.is_empty());
        there.map(|(devices, check)| CheckRun { check, trouble: lost(devices) }).collect()
    }
}

fn lost(devices: &[PathBuf]) -> Option<String> {
    let lost: Vec<_> = devices.iter().filter(|device| !answers(device)).collect();
    let names: Vec<_> = lost.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy()).collect();
    (!lost.is_empty())
        .then(|| format!("{} of {} devices do not respond: {}", lost.len(), devices.len(), names.join(", ")))
}

fn answers(device: &Path) -> bool {
    let mut identity = [0xff; 4];
    let read = File::open(device.join("config")).and_then(|mut file| file.read_exact(&mut identity));
    read.is_ok() && identity != [0xff; 4]
}
