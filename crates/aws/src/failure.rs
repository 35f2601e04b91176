//! The SDK's many errors as the one [`CloudError`], sorted by EC2's code first and by the HTTP status where there is none.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::{CloudError, Kind};

/// A pool is out of stock or a quota says so: another pool may do.
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

/// EC2, SSM and their gateways all say "slower" in their own words; IAM says so while another writes the same thing.
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

/// A person must change a policy, a key or the account.
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

/// Codes of things that are not there which do not end in `.NotFound`.
const NOT_FOUND: [&str; 7] = [
    "AWS.SimpleQueueService.NonExistentQueue",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidPlacementGroup.Unknown",
    "NoSuchEntity",
    "ParameterNotFound",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
];

/// Codes of names that are taken.
const TAKEN: [&str; 2] = ["EntityAlreadyExists", "InvalidLaunchTemplateName.AlreadyExistsException"];

/// What the caller can do about an answer with this code (may be empty) and HTTP status.
pub(crate) fn kind(code: &str, status: u16) -> Kind {
    if UNFULFILLABLE.contains(&code) {
        Kind::InsufficientCapacity
    } else if THROTTLED.contains(&code) || (code.is_empty() && status == 429) {
        Kind::Throttled
    } else if UNAUTHORIZED.contains(&code) || code.starts_with("AuthFailure.") {
        Kind::Unauthorized
    } else if NOT_FOUND.contains(&code) || code.ends_with(".NotFound") {
        Kind::NotFound
    } else if code == "IdempotentParameterMismatch" {
        Kind::IdempotencyMismatch
    } else if TAKEN.contains(&code) {
        Kind::AlreadyExists
    } else if status >= 500 {
        Kind::Server
    } else if code.is_empty() && matches!(status, 401 | 403) {
        Kind::Unauthorized
    } else {
        Kind::Invalid
    }
}

/// The failure of `call` in our words. An answer that nobody can read counts as no answer: the call may have happened.
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
        SdkError::ConstructionFailure(_) => unanswered(call, Kind::Invalid, &error),
        SdkError::ResponseError(ref response) if response.raw().status().is_server_error() => {
            unanswered(call, Kind::Server, &error)
        }
        _ => unanswered(call, Kind::Transport, &error),
    }
}

/// Something in an answer that must be there is not; the call has happened.
pub(crate) fn incomplete(call: &'static str, what: &str) -> CloudError {
    CloudError { call, kind: Kind::Server, code: String::new(), message: format!("the answer has no {what}") }
}

/// A request that EC2 could not make sense of, refused before it is sent.
pub(crate) fn refused(call: &'static str, message: String) -> CloudError {
    CloudError { call, kind: Kind::Invalid, code: String::new(), message }
}

fn unanswered(call: &'static str, kind: Kind, error: &dyn Error) -> CloudError {
    CloudError { call, kind, code: String::new(), message: chain(error) }
}

/// An error and its causes in one line: [`CloudError`] keeps no source, so its message must tell all, and the SDK's list
/// of where it looked for credentials has several lines.
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
    use super::{Kind, kind};

    #[test]
    fn codes_decide_before_statuses() {
        let rows = [
            ("InsufficientInstanceCapacity", 500, Kind::InsufficientCapacity),
            ("VcpuLimitExceeded", 400, Kind::InsufficientCapacity),
            ("RequestLimitExceeded", 503, Kind::Throttled),
            ("ThrottlingException", 400, Kind::Throttled),
            ("", 429, Kind::Throttled),
            ("UnauthorizedOperation", 403, Kind::Unauthorized),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, Kind::Unauthorized),
            ("", 403, Kind::Unauthorized),
            ("InvalidInstanceID.NotFound", 400, Kind::NotFound),
            ("InvalidLaunchTemplateId.NotFound", 400, Kind::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", 400, Kind::NotFound),
            ("ParameterNotFound", 400, Kind::NotFound),
            ("AWS.SimpleQueueService.NonExistentQueue", 400, Kind::NotFound),
            ("QueueDoesNotExist", 400, Kind::NotFound),
            ("ResourceNotFoundException", 404, Kind::NotFound),
            ("NoSuchEntity", 404, Kind::NotFound),
            ("EntityAlreadyExists", 409, Kind::AlreadyExists),
            ("DeleteConflict", 409, Kind::Invalid),
            ("LimitExceeded", 409, Kind::Invalid),
            ("ConcurrentModification", 409, Kind::Throttled),
            ("AccessDenied", 403, Kind::Unauthorized),
            ("InvalidLaunchTemplateName.AlreadyExistsException", 400, Kind::AlreadyExists),
            ("IdempotentParameterMismatch", 400, Kind::IdempotencyMismatch),
            ("InvalidParameterValue", 400, Kind::Invalid),
            ("InvalidInstanceID.Malformed", 400, Kind::Invalid),
            ("InternalError", 500, Kind::Server),
            ("Unavailable", 503, Kind::Server),
            ("", 500, Kind::Server),
        ];
        for (code, status, expected) in rows {
            assert_eq!(kind(code, status), expected, "{code} with status {status}");
        }
    }
}
