//! Result of a call: a response, an EC2 error, or a closed connection.

use cloud::{CloudError, ErrorKind};
use http::{HeaderMap, StatusCode, header};

use super::form::Form;
use super::xml::Xml;

/// Request id of all responses; no client evaluates it.
pub(super) const REQUEST_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Body of a successful response, and its summary for the log.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: String,
    pub(super) summary: String,
}

/// Reason for a failed call.
#[derive(Debug)]
pub(super) enum Failure {
    /// Error response of the service.
    Refused {
        /// HTTP status.
        status: StatusCode,
        /// EC2's error code.
        code: String,
        /// EC2's message.
        message: String,
    },
    /// Page that is no EC2 response.
    Garbled(StatusCode),
    /// Closed connection.
    Dropped,
}

impl From<CloudError> for Failure {
    /// EC2 uses 5xx for insufficient capacity and its own failures, 503 for throttling, and 4xx for errors of the caller.
    fn from(error: CloudError) -> Self {
        let status = match error.kind {
            ErrorKind::Transport => return Self::Dropped,
            ErrorKind::InsufficientCapacity | ErrorKind::Server => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::Throttled => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Unauthorized => StatusCode::FORBIDDEN,
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::IdempotencyMismatch | ErrorKind::Invalid => {
                StatusCode::BAD_REQUEST
            }
        };
        Self::Refused { status, code: error.code, message: error.message }
    }
}

/// Returns the error for an invalid request.
pub(super) fn invalid(code: &str, message: String) -> Failure {
    Failure::Refused { status: StatusCode::BAD_REQUEST, code: code.to_owned(), message }
}

/// Returns EC2's response to a dry run that would have succeeded.
pub(super) fn dry_run() -> Failure {
    Failure::Refused {
        status: StatusCode::PRECONDITION_FAILED,
        code: "DryRunOperation".to_owned(),
        message: "Request would have succeeded, but DryRun flag is set.".to_owned(),
    }
}

/// Checks that the request has a signature. An unsigned request gets EC2's error in the test, not only in production.
pub(super) fn check_signed(headers: &HeaderMap) -> Result<(), Failure> {
    let signature = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if signature.is_some_and(|signature| signature.starts_with("AWS4-HMAC-SHA256 Credential=")) {
        return Ok(());
    }
    let message = "AWS was not able to validate the provided access credentials".to_owned();
    Err(Failure::Refused { status: StatusCode::UNAUTHORIZED, code: "AuthFailure".to_owned(), message })
}

/// Returns EC2's error document.
pub(super) fn error_xml(code: &str, message: &str) -> String {
    let mut xml = Xml::default();
    xml.element("Response", |xml| {
        xml.element("Errors", |xml| {
            xml.element("Error", |xml| {
                xml.text("Code", code);
                xml.text("Message", message);
            });
        });
        xml.text("RequestID", REQUEST_ID);
    });
    xml.into_text()
}

/// Returns the error document of services with a JSON protocol.
pub(super) fn error_json(code: &str, message: &str) -> String {
    serde_json::json!({"__type": code, "message": message}).to_string()
}

/// Parses the body of a JSON request.
pub(super) fn json(body: &[u8]) -> Result<serde_json::Value, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| invalid("SerializationException", format!("the body is no JSON: {error}")))
}

/// Returns one page of `all`, and the token of the next. EC2 rejects pages of more than `limit` rows.
pub(super) fn page<T>(all: Vec<T>, form: &Form, limit: usize) -> Result<(Vec<T>, Option<String>), Failure> {
    cut(all, form.read("MaxResults").unwrap_or(limit), form.get("NextToken"), limit)
}

/// Returns one page of `size` rows, beginning at the position of `token`.
pub(super) fn cut<T>(
    all: Vec<T>,
    size: usize,
    token: Option<&str>,
    limit: usize,
) -> Result<(Vec<T>, Option<String>), Failure> {
    if !(1..=limit).contains(&size) {
        let message = format!("Value ( {size} ) for parameter maxResults is invalid. Expecting a value up to {limit}.");
        return Err(invalid("InvalidParameterValue", message));
    }
    let begin = match token {
        None => 0,
        Some(token) => offset(token)?,
    };
    let next = (begin + size < all.len()).then(|| format!("after-{}", begin + size));
    Ok((all.into_iter().skip(begin).take(size).collect(), next))
}

fn offset(token: &str) -> Result<usize, Failure> {
    let number = token.strip_prefix("after-").and_then(|number| number.parse().ok());
    number.ok_or_else(|| invalid("InvalidNextToken.Malformed", format!("The token '{token}' is invalid")))
}

#[cfg(test)]
mod tests {

    use super::{Form, page};

    #[test]
    fn page_returns_all_rows_until_no_token_is_left() {
        let mut seen = Vec::new();
        let mut token = None;
        loop {
            let mut body = "MaxResults=3".to_owned();
            if let Some(token) = &token {
                body.push_str(&format!("&NextToken={token}"));
            }
            let (rows, next) = page((0..7).collect(), &Form::parse(&body), 100).unwrap();
            assert!(rows.len() <= 3);
            seen.extend(rows);
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..7).collect::<Vec<_>>());
        assert!(page(vec![1], &Form::parse("MaxResults=101"), 100).is_err());
        assert!(page(vec![1], &Form::parse("NextToken=other"), 100).is_err());
    }
}
