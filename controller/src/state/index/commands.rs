//! Disruption commands in progress, by the annotations of their NodeClaims.

use api::NodeClaim;

use super::{Index, key_of};

impl Index {
    /// Returns the command in progress that disrupts the NodeClaim or that created it; see [`api::annotation::REPLACED_BY`].
    #[must_use]
    pub fn move_of<'a>(&'a self, claim: &'a NodeClaim) -> Option<&'a str> {
        claim.replaced_by().or_else(|| claim.replaces().find_map(|name| self.claims.get(name)?.replaced_by()))
    }

    /// Reports whether a command in progress waits for the NodeClaim.
    #[must_use]
    pub fn is_awaited(&self, claim: &NodeClaim) -> bool {
        let name = key_of(claim);
        let replaced = claim.replaces().filter_map(|replaced| self.claims.get(replaced)?.replaced_by());
        replaced.flat_map(|replacements| replacements.split(',')).any(|replacement| replacement == name)
    }
}
