//! Scheduled faults, and the log of calls. An example of a fault: the second CreateFleet takes effect, but its answer is lost.

use jiff::Timestamp;

use crate::calls::{
    CloudError, ErrorKind, Filter, FleetRequest, InstanceProfileRequest, LaunchTemplateRequest, PlacementGroupQuery,
    ReservationFilter, RunInstancesProbe, Tags,
};

/// A fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The service returns an error; the call has no effect.
    Error {
        /// Kind of the error, as the SDK would report it.
        kind: ErrorKind,
        /// EC2's error code.
        code: String,
        /// EC2's error message.
        message: String,
    },
    /// The connection breaks before the service receives the call; the call has no effect.
    Dropped,
    /// The call takes effect, then the connection breaks.
    Lost,
}

impl Fault {
    /// Returns an error of the service.
    #[must_use]
    pub fn error(kind: ErrorKind, code: &str, message: &str) -> Self {
        Self::Error { kind, code: code.to_owned(), message: message.to_owned() }
    }

    /// Returns the error `RequestLimitExceeded`.
    #[must_use]
    pub fn throttled() -> Self {
        Self::error(ErrorKind::Throttled, "RequestLimitExceeded", "Request limit exceeded.")
    }

    /// Returns the error `InternalError`, HTTP 500.
    #[must_use]
    pub fn server() -> Self {
        Self::error(ErrorKind::Server, "InternalError", "An internal error has occurred")
    }

    /// Returns the error `UnauthorizedOperation`, HTTP 403.
    #[must_use]
    pub fn unauthorized() -> Self {
        let message = "You are not authorized to perform this operation. \
                       User is not authorized because no identity-based policy allows the action";
        Self::error(ErrorKind::Unauthorized, "UnauthorizedOperation", message)
    }
}

/// Input of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// A filter.
    Filter(Filter),
    /// A name.
    Name(String),
    /// Tags to select by.
    Tags(Tags),
    /// Ids.
    Ids(Vec<String>),
    /// A launch template to create.
    LaunchTemplate(Box<LaunchTemplateRequest>),
    /// A fleet request.
    Fleet(Box<FleetRequest>),
    /// Resource ids, and the tags to write.
    CreateTags(Vec<String>, Tags),
    /// A filter of capacity reservations.
    Reservations(ReservationFilter),
    /// A placement group.
    PlacementGroup(PlacementGroupQuery),
    /// A dry run of RunInstances.
    Probe(RunInstancesProbe),
    /// An instance profile to create.
    Profile(InstanceProfileRequest),
    /// An instance profile and a role.
    Role(String, String),
}

/// A call that the fake received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// AWS name of the action, such as `CreateFleet`; `CreateFleet(DryRun)` for a dry run.
    pub call: &'static str,
    /// Time of the call.
    pub at: Timestamp,
    /// Input of the call.
    pub input: Input,
    /// Fault of the call, if one was scheduled.
    pub fault: Option<Fault>,
}

/// Faults that have not occurred yet.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Ordered>);

#[derive(Debug)]
struct Ordered {
    call: String,
    /// Number of calls until the fault occurs; 1 is the next call.
    left: u64,
    fault: Fault,
}

impl Script {
    pub(super) fn order(&mut self, call: &str, nth: u64, fault: Fault) {
        self.0.push(Ordered { call: call.to_owned(), left: nth.max(1), fault });
    }

    /// Counts one call and returns the fault that is due. If two are due, returns the first that was scheduled.
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

/// Returns an error as the SDK would report it.
pub(super) fn refuse(call: &'static str, kind: ErrorKind, code: &str, message: String) -> CloudError {
    CloudError { call, kind, code: code.to_owned(), message }
}

pub(super) fn no_answer(call: &'static str) -> CloudError {
    refuse(call, ErrorKind::Transport, "", "the connection closed before a complete answer came".to_owned())
}
