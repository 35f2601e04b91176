//! Limit of the size of each HTTP response. The SDK reads a response completely before it parses it, so a service, or a proxy before
//! it, that sends without end would fill the memory of the controller.

use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http_body_util::Limited;

/// Maximum size of a response in bytes. The largest one is a page of DescribeInstances: 1,000 instances of less than 10 kB.
const MAX_BODY: usize = 64 << 20;

/// HTTP client whose responses end with an error at the limit. The failed call names itself in its error.
#[derive(Debug)]
pub(crate) struct LimitedClient(pub(crate) SharedHttpClient);

impl HttpClient for LimitedClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, parts: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(LimitedConnector(self.0.http_connector(settings, parts)))
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.0.connector_metadata()
    }
}

#[derive(Debug)]
struct LimitedConnector(SharedHttpConnector);

impl HttpConnector for LimitedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let response = self.0.call(request);
        HttpConnectorFuture::new(async move { Ok(response.await?.map(|body| limited(body, MAX_BODY))) })
    }
}

fn limited(body: SdkBody, most: usize) -> SdkBody {
    SdkBody::from_body_1_x(Limited::new(body, most))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn call_returns_an_error_for_a_response_beyond_the_limit() {
        #[derive(Debug)]
        struct Service(usize);
        impl HttpConnector for Service {
            fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
                let response = http::Response::new(SdkBody::from(vec![b' '; self.0]));
                HttpConnectorFuture::ready(Ok(response.try_into().unwrap()))
            }
        }
        for (size, expected) in [(0, Some(0)), (MAX_BODY, Some(MAX_BODY)), (MAX_BODY + 1, None)] {
            let connector = LimitedConnector(SharedHttpConnector::new(Service(size)));
            let response = connector.call(HttpRequest::new(SdkBody::empty())).await.unwrap();
            let read = response.into_body().collect().await;
            if let Err(error) = &read {
                let cause = std::error::Error::source(error.as_ref()).map(ToString::to_string);
                let text = format!("{error} {}", cause.unwrap_or_default());
                assert!(text.contains("length limit exceeded"), "{text}");
            }
            assert_eq!(read.ok().map(|body| body.to_bytes().len()), expected);
        }
    }
}
