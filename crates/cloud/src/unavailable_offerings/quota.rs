//! Quotas of the account, in vCPUs per class of instance families and capacity type.

/// The families that share a quota (EC2's "Running On-Demand ... instances" and "All ... Spot Instance Requests").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FamilyClass {
    /// A, C, D, H, I, M, R, T and Z.
    Standard,
    /// DL.
    Dl,
    /// F.
    F,
    /// G and VT.
    GAndVt,
    /// High memory, U.
    HighMemory,
    /// HPC.
    Hpc,
    /// Inf.
    Inf,
    /// Mac.
    Mac,
    /// P.
    P,
    /// Trn.
    Trn,
    /// X.
    X,
}

/// Returns the quota class of an instance type. Unknown families count as standard, which is the class of most families.
#[must_use]
pub fn family_class(instance_type: &str) -> FamilyClass {
    let letters = instance_type.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default();
    match letters {
        "dl" => FamilyClass::Dl,
        "f" => FamilyClass::F,
        "g" | "gr" | "vt" => FamilyClass::GAndVt,
        "u" => FamilyClass::HighMemory,
        "hpc" => FamilyClass::Hpc,
        "inf" => FamilyClass::Inf,
        "mac" => FamilyClass::Mac,
        "p" => FamilyClass::P,
        "trn" => FamilyClass::Trn,
        "x" => FamilyClass::X,
        _ => FamilyClass::Standard,
    }
}
