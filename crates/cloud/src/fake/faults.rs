//! Faults on order, and the log of what was asked: "the second CreateFleet happens, but its answer is lost".

use jiff::Timestamp;

use crate::calls::{
    Filter, FleetRequest, InstanceProfileRequest, LaunchTemplateRequest, PlacementGroupQuery, ReservationFilter,
    RunInstancesProbe, Tags,
};
use crate::error::{CloudError, ErrorKind};

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The service refuses; nothing happens.
    Error {
        /// The kind that the SDK would make of it.
        kind: ErrorKind,
        /// EC2's code.
        code: String,
        /// EC2's message.
        message: String,
    },
    /// The connection breaks before the service sees the call; nothing happens.
    Dropped,
    /// The call happens, then the connection breaks.
    Lost,
}

impl Fault {
    /// An error of the service.
    #[must_use]
    pub fn error(kind: ErrorKind, code: &str, message: &str) -> Self {
        Self::Error { kind, code: code.to_owned(), message: message.to_owned() }
    }

    /// `RequestLimitExceeded`.
    #[must_use]
    pub fn throttled() -> Self {
        Self::error(ErrorKind::Throttled, "RequestLimitExceeded", "Request limit exceeded.")
    }

    /// `InternalError`, HTTP 500.
    #[must_use]
    pub fn server() -> Self {
        Self::error(ErrorKind::Server, "InternalError", "An internal error has occurred")
    }

    /// `UnauthorizedOperation`, HTTP 403.
    #[must_use]
    pub fn unauthorized() -> Self {
        let message = "You are not authorized to perform this operation. \
                       User is not authorized because no identity-based policy allows the action";
        Self::error(ErrorKind::Unauthorized, "UnauthorizedOperation", message)
    }
}

/// What a call was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// A filter.
    Filter(Filter),
    /// A name.
    Name(String),
    /// Tags to look for.
    Tags(Tags),
    /// Ids.
    Ids(Vec<String>),
    /// A launch template.
    LaunchTemplate(Box<LaunchTemplateRequest>),
    /// A fleet.
    Fleet(Box<FleetRequest>),
    /// Tags to write, and where.
    CreateTags(Vec<String>, Tags),
    /// A filter of reservations.
    Reservations(ReservationFilter),
    /// A placement group.
    PlacementGroup(PlacementGroupQuery),
    /// A RunInstances that is only asked about.
    Probe(RunInstancesProbe),
    /// An instance profile to create.
    Profile(InstanceProfileRequest),
    /// An instance profile and a role.
    Role(String, String),
}

/// One call as the fake saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// AWS' name of the action, such as `CreateFleet`; `CreateFleet(DryRun)` when it is only asked about.
    pub call: &'static str,
    /// When.
    pub at: Timestamp,
    /// What it was given.
    pub input: Input,
    /// The fault that it met, if one was on order.
    pub fault: Option<Fault>,
}

/// Faults that wait for their call.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Ordered>);

#[derive(Debug)]
struct Ordered {
    call: String,
    /// How many calls until it strikes; 1 is the next.
    left: u64,
    fault: Fault,
}

impl Script {
    pub(super) fn order(&mut self, call: &str, nth: u64, fault: Fault) {
        self.0.push(Ordered { call: call.to_owned(), left: nth.max(1), fault });
    }

    /// Counts one call and gives the fault whose turn it is; when two are due, the first that was ordered.
    pub(super) fn strike(&mut self, call: &str) -> Option<Fault> {
        let mut due = None;
        for (position, ordered) in self.0.iter_mut().enumerate() {
            if ordered.call == call {
                ordered.left = ordered.left.saturating_sub(1);
                if ordered.left == 0 && due.is_none() {
                    due = Some(position);
                }
            }
        }
        due.map(|position| self.0.remove(position).fault)
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.len()
    }
}

/// An error as the SDK would report it.
pub(super) fn refuse(call: &'static str, kind: ErrorKind, code: &str, message: String) -> CloudError {
    CloudError { call, kind, code: code.to_owned(), message }
}

pub(super) fn no_answer(call: &'static str) -> CloudError {
    refuse(call, ErrorKind::Transport, "", "the connection closed before a complete answer came".to_owned())
}
