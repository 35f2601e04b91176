//! Consequences of missing permissions.

/// Consequence of a missing permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consequence {
    /// Sentence part about the work that stops.
    pub text: &'static str,
    /// True if nodes cannot be launched or removed without the permission.
    pub is_vital: bool,
}

const fn vital(text: &'static str) -> Consequence {
    Consequence { text, is_vital: true }
}

const fn minor(text: &'static str) -> Consequence {
    Consequence { text, is_vital: false }
}

/// Actions with a consequence of their own.
const BY_ACTION: &[(&str, Consequence)] = &[
    ("ec2:TerminateInstances", vital("instances of removed nodes keep running and cost money")),
    ("ec2:DeleteLaunchTemplate", minor("unused launch templates remain")),
    ("ec2:DescribeLaunchTemplates", minor("unused launch templates remain")),
    ("ec2:DescribeInstances", vital("launched instances are not found, and orphaned ones are not terminated")),
    ("ec2:DescribeImages", vital("EC2NodeClasses are not Ready, and no node is launched")),
    ("ec2:DescribeSubnets", vital("EC2NodeClasses are not Ready, and no node is launched")),
    ("ec2:DescribeSecurityGroups", vital("EC2NodeClasses are not Ready, and no node is launched")),
    ("ec2:DescribeInstanceTypes", vital("no instance type is known, and no node is launched")),
    ("ec2:DescribeInstanceTypeOfferings", vital("no instance type is known, and no node is launched")),
    ("ec2:DescribeSpotPriceHistory", minor("spot prices are unknown")),
    ("ec2:DescribeInstanceStatus", minor("failed status checks and scheduled maintenance are not noticed")),
    ("ec2:DescribeCapacityReservations", minor("capacity reservations are not used")),
    ("ec2:DescribePlacementGroups", minor("EC2NodeClasses with placementGroupSelector are not Ready")),
    ("iam:ListInstanceProfiles", minor("instance profiles of deleted EC2NodeClasses remain")),
    ("iam:DeleteInstanceProfile", minor("instance profiles of deleted EC2NodeClasses remain")),
    ("iam:RemoveRoleFromInstanceProfile", minor("instance profiles of deleted EC2NodeClasses remain")),
];

/// Statements whose other actions have the same consequence.
const BY_STATEMENT: &[(&str, Consequence)] = &[
    ("AllowScopedEC2InstanceAccessActions", vital("no node is launched")),
    ("AllowScopedEC2LaunchTemplateAccessActions", vital("no node is launched")),
    ("AllowScopedEC2InstanceActionsWithTags", vital("no node is launched")),
    ("AllowScopedResourceCreationTagging", vital("no node is launched")),
    (
        "AllowScopedResourceTagging",
        minor("instances have no tag Name, and those launched together none with their NodeClaim"),
    ),
    ("AllowPassingInstanceRole", vital("no node of this role is launched")),
    ("AllowScopedInstanceProfileCreationActions", vital("EC2NodeClasses with a role are not Ready")),
    ("AllowScopedInstanceProfileTagActions", vital("EC2NodeClasses with a role are not Ready")),
    ("AllowScopedInstanceProfileActions", vital("EC2NodeClasses with a role are not Ready")),
    ("AllowInstanceProfileReadActions", vital("EC2NodeClasses with a role are not Ready")),
    (
        "AllowAPIServerEndpointDiscovery",
        vital("the controller does not learn endpoint, CA and service CIDR of the cluster"),
    ),
    (
        "AllowInterruptionQueueActions",
        vital("notices in the queue are not received, and only nodes with an agent react to them"),
    ),
    ("AllowSSMReadActions", vital("EC2NodeClasses that select images by alias are not Ready")),
    ("AllowZonalShiftStatusReadOnly", minor("launches go on in zones from which ARC shifts away")),
    ("AllowPricingReadActions", minor("on-demand prices are the built-in ones")),
];

/// Resources that only some launches use.
const SOME_LAUNCHES: [&str; 2] = [":capacity-reservation/", ":placement-group/"];

impl Consequence {
    /// Returns the consequence of an action that is missing on these resources.
    #[must_use]
    pub(super) fn new(sid: &str, action: &str, resources: &[&str]) -> Self {
        let is_special = |resource: &&str| SOME_LAUNCHES.iter().any(|kind| resource.contains(kind));
        if resources.iter().all(is_special) {
            return minor("launches into capacity reservations and placement groups fail");
        }
        let by_action = BY_ACTION.iter().find(|(known, _)| *known == action);
        let found = by_action.or_else(|| BY_STATEMENT.iter().find(|(known, _)| *known == sid));
        found.map_or(vital("calls that need it fail"), |(_, consequence)| *consequence)
    }
}

#[cfg(test)]
mod tests {
    use super::{BY_ACTION, BY_STATEMENT};
    use crate::policy::STATEMENTS;

    #[test]
    fn consequences_cover_every_action_and_no_other() {
        for statement in STATEMENTS {
            let whole = BY_STATEMENT.iter().any(|(sid, _)| *sid == statement.sid);
            for action in statement.actions {
                let own = BY_ACTION.iter().any(|(known, _)| known == action);
                assert!(whole || own, "{} of {} has no consequence", action, statement.sid);
            }
        }
        for (sid, _) in BY_STATEMENT {
            assert!(STATEMENTS.iter().any(|statement| statement.sid == *sid), "{sid}");
        }
        for (action, _) in BY_ACTION {
            assert!(STATEMENTS.iter().any(|statement| statement.actions.contains(action)), "{action}");
        }
    }
}
