//! IMDSv2 protocol: status of each request, as documented, and conversion into a response.

use std::io;
use std::time::{Duration, Instant};

use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, SERVER};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};

use super::facts::Facts;
use super::tokens::Tokens;

/// Header with the requested lifetime of a token, or with its remaining lifetime.
const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
/// Header with a token.
const TOKEN: &str = "x-aws-ec2-metadata-token";

/// Body of a response; its errors close the connection.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Response before any change of its body.
pub type Plain = Response<Vec<u8>>;

/// Returns the path of a request below its version: `latest` or a date.
pub fn path(path: &str) -> &str {
    let version = |text: &str| {
        text == "latest" || (text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    match path.trim_start_matches('/').split_once('/') {
        Some((first, rest)) if version(first) => rest,
        _ => "",
    }
}

/// Returns the response of the service without a fault.
pub fn answer(
    facts: &Facts,
    tokens: &mut Tokens,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    now: Instant,
) -> Plain {
    if facts.disabled {
        return plain(StatusCode::FORBIDDEN);
    }
    match (method, path) {
        (&Method::PUT, "api/token") => issue(tokens, headers, now),
        (&Method::GET, "api/token") | (&Method::PUT, _) => plain(StatusCode::METHOD_NOT_ALLOWED),
        (&Method::GET, _) => read(facts, tokens, path, headers, now),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn issue(tokens: &mut Tokens, headers: &HeaderMap, now: Instant) -> Plain {
    if headers.contains_key("x-forwarded-for") {
        return plain(StatusCode::FORBIDDEN);
    }
    let seconds = headers.get(TTL).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    match seconds.and_then(|seconds| Some((seconds, tokens.issue(seconds, now)?))) {
        Some((seconds, token)) => found(token.into_bytes(), Duration::from_secs(seconds)),
        None => plain(StatusCode::BAD_REQUEST),
    }
}

fn read(facts: &Facts, tokens: &Tokens, path: &str, headers: &HeaderMap, now: Instant) -> Plain {
    let token = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    let Some(left) = token.and_then(|token| tokens.left(token, now)) else {
        return plain(StatusCode::UNAUTHORIZED);
    };
    match facts.body(path) {
        Some(body) => found(body, left),
        None => plain(StatusCode::NOT_FOUND),
    }
}

fn found(body: Vec<u8>, left: Duration) -> Plain {
    let mut response = Response::new(body);
    response.headers_mut().insert(TTL, left.as_secs().into());
    response
}

fn plain(status: StatusCode) -> Plain {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    response
}

/// Returns a response with this status; an invalid code becomes a 500.
pub fn status(code: u16) -> Response<Body> {
    whole(plain(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)))
}

/// Returns the complete response.
pub fn whole(plain: Plain) -> Response<Body> {
    dressed(plain).map(|body| Full::from(body).map_err(|never| match never {}).boxed_unsync())
}

/// Returns the response with its real content length, but only `bytes` of its body before the connection closes.
pub fn cut(plain: Plain, bytes: usize) -> Response<Body> {
    let mut response = dressed(plain);
    let length = response.body().len();
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response.map(|mut body| {
        body.truncate(bytes);
        let steps = stream::unfold(Some(body), |rest| async move {
            match rest {
                Some(body) => Some((Ok(Frame::data(Bytes::from(body))), None)),
                None => {
                    // The bytes must leave before the error closes the connection.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Err(io::Error::other("cut by the script")), None))
                }
            }
        });
        StreamBody::new(steps).boxed_unsync()
    })
}

fn dressed(mut response: Plain) -> Plain {
    response.headers_mut().insert(SERVER, http::HeaderValue::from_static("EC2ws"));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}
