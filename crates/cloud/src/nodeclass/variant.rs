//! Variants of images: the kinds of instances that AWS builds an image for.

use api::{Operator, Requirement, label};

/// Kind of instance that an image is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Instances without GPUs and Neuron devices.
    Standard,
    /// Instances with NVIDIA GPUs.
    Nvidia,
    /// Instances with Neuron devices.
    Neuron,
    /// Instances that run Windows.
    Windows {
        /// Windows build, such as `10.0.20348`.
        build: &'static str,
    },
    /// Any instance of the image's architecture, because the selector gives no other restriction.
    Any,
}

impl Variant {
    /// Returns the requirements on the labels of the instance types.
    pub(super) fn requirements(self) -> Vec<Requirement> {
        let none: [&str; 0] = [];
        let requirement = |key, operator| Requirement::new(key, operator, none);
        match self {
            Self::Standard => vec![
                requirement(label::INSTANCE_ACCELERATOR_COUNT, Operator::DoesNotExist),
                requirement(label::INSTANCE_GPU_COUNT, Operator::DoesNotExist),
            ],
            Self::Nvidia => vec![requirement(label::INSTANCE_GPU_COUNT, Operator::Exists)],
            Self::Neuron => vec![requirement(label::INSTANCE_ACCELERATOR_COUNT, Operator::Exists)],
            Self::Windows { build } => vec![
                Requirement::new(label::OS, Operator::In, [label::OS_WINDOWS]),
                Requirement::new(label::WINDOWS_BUILD, Operator::In, [build]),
            ],
            Self::Any => Vec::new(),
        }
    }
}
