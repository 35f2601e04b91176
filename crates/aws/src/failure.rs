//! Conversion of the SDK's errors into [`CloudError`], by EC2's error code first, and without one by the HTTP status.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::{CloudError, ErrorKind};

/// Codes for insufficient capacity or an exhausted quota: another capacity pool may succeed.
const UNFULFILLABLE: [&str; 8] = [
    "InsufficientFreeAddressesInSubnet",
    "InsufficientInstanceCapacity",
    "MaxFleetCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "ReservationCapacityExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "VcpuLimitExceeded",
];

/// Codes for throttling by EC2, SSM and their gateways, and IAM's code for a concurrent change of the same object.
const THROTTLED: [&str; 10] = [
    "BandwidthLimitExceeded",
    "ConcurrentModification",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Codes that only a person can fix: in a policy, a key or the account.
const UNAUTHORIZED: [&str; 19] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "KmsAccessDenied",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
    "UnauthorizedException",
];

/// Codes for missing resources that do not end in `.NotFound`.
const NOT_FOUND: [&str; 7] = [
    "AWS.SimpleQueueService.NonExistentQueue",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidPlacementGroup.Unknown",
    "NoSuchEntity",
    "ParameterNotFound",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
];

/// Codes for names that already exist.
const TAKEN: [&str; 2] = ["EntityAlreadyExists", "InvalidLaunchTemplateName.AlreadyExistsException"];

/// Returns the kind of an error with this code (may be empty) and HTTP status, by the possible reaction of the caller.
pub(crate) fn kind(code: &str, status: u16) -> ErrorKind {
    if UNFULFILLABLE.contains(&code) {
        ErrorKind::InsufficientCapacity
    } else if THROTTLED.contains(&code) || (code.is_empty() && status == 429) {
        ErrorKind::Throttled
    } else if UNAUTHORIZED.contains(&code) || code.starts_with("AuthFailure.") {
        ErrorKind::Unauthorized
    } else if NOT_FOUND.contains(&code) || code.ends_with(".NotFound") {
        ErrorKind::NotFound
    } else if code == "IdempotentParameterMismatch" {
        ErrorKind::IdempotencyMismatch
    } else if TAKEN.contains(&code) {
        ErrorKind::AlreadyExists
    } else if status >= 500 {
        ErrorKind::Server
    } else if code.is_empty() && matches!(status, 401 | 403) {
        ErrorKind::Unauthorized
    } else {
        ErrorKind::Invalid
    }
}

/// Converts the failure of `call`. An invalid response counts as no response: the call may have happened.
pub(crate) fn failure<E>(call: &'static str, error: SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let meta = service.err().meta();
            let code = meta.code().unwrap_or_default().to_owned();
            let message = meta.message().map_or_else(|| format!("HTTP status {status}"), str::to_owned);
            CloudError { call, kind: kind(&code, status), code, message }
        }
        SdkError::ConstructionFailure(_) => unanswered(call, ErrorKind::Invalid, &error),
        SdkError::ResponseError(ref response) if response.raw().status().is_server_error() => {
            unanswered(call, ErrorKind::Server, &error)
        }
        _ => unanswered(call, ErrorKind::Transport, &error),
    }
}

/// Returns the error for a response without a required part; the call has happened.
pub(crate) fn incomplete(call: &'static str, what: &str) -> CloudError {
    CloudError { call, kind: ErrorKind::Server, code: String::new(), message: format!("the answer has no {what}") }
}

/// Returns the error for an invalid request, which is refused before it is sent.
pub(crate) fn refused(call: &'static str, message: String) -> CloudError {
    CloudError { call, kind: ErrorKind::Invalid, code: String::new(), message }
}

fn unanswered(call: &'static str, kind: ErrorKind, error: &dyn Error) -> CloudError {
    CloudError { call, kind, code: String::new(), message: chain(error) }
}

/// Returns an error and its causes in one line. [`CloudError`] keeps no source, so its message must contain everything, and the
/// SDK's list of credential sources has several lines.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let next = source.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = source.source();
    }
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{ErrorKind, kind};

    #[test]
    fn kind_uses_the_code_before_the_status() {
        let rows = [
            ("InsufficientInstanceCapacity", 500, ErrorKind::InsufficientCapacity),
            ("VcpuLimitExceeded", 400, ErrorKind::InsufficientCapacity),
            ("RequestLimitExceeded", 503, ErrorKind::Throttled),
            ("ThrottlingException", 400, ErrorKind::Throttled),
            ("", 429, ErrorKind::Throttled),
            ("UnauthorizedOperation", 403, ErrorKind::Unauthorized),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, ErrorKind::Unauthorized),
            ("", 403, ErrorKind::Unauthorized),
            ("InvalidInstanceID.NotFound", 400, ErrorKind::NotFound),
            ("InvalidLaunchTemplateId.NotFound", 400, ErrorKind::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", 400, ErrorKind::NotFound),
            ("ParameterNotFound", 400, ErrorKind::NotFound),
            ("AWS.SimpleQueueService.NonExistentQueue", 400, ErrorKind::NotFound),
            ("QueueDoesNotExist", 400, ErrorKind::NotFound),
            ("ResourceNotFoundException", 404, ErrorKind::NotFound),
            ("NoSuchEntity", 404, ErrorKind::NotFound),
            ("EntityAlreadyExists", 409, ErrorKind::AlreadyExists),
            ("DeleteConflict", 409, ErrorKind::Invalid),
            ("LimitExceeded", 409, ErrorKind::Invalid),
            ("ConcurrentModification", 409, ErrorKind::Throttled),
            ("AccessDenied", 403, ErrorKind::Unauthorized),
            ("InvalidLaunchTemplateName.AlreadyExistsException", 400, ErrorKind::AlreadyExists),
            ("IdempotentParameterMismatch", 400, ErrorKind::IdempotencyMismatch),
            ("InvalidParameterValue", 400, ErrorKind::Invalid),
            ("InvalidInstanceID.Malformed", 400, ErrorKind::Invalid),
            ("InternalError", 500, ErrorKind::Server),
            ("Unavailable", 503, ErrorKind::Server),
            ("", 500, ErrorKind::Server),
        ];
        for (code, status, expected) in rows {
            assert_eq!(kind(code, status), expected, "{code} with status {status}");
        }
    }
}
