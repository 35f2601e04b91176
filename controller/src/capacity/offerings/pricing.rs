//! Prices, refreshed in the background, separately for each capacity type. After a failed request the known prices remain, and
//! the request is retried soon.

use std::sync::Arc;

use cloud::types::prices::{NoPrices, Origin, PriceUpdate, Schedule};
use cloud::{AnswerLimit, CloudError};
use daemon::metric::Metrics;
use jiff::Timestamp;
use planner::CapacityType;
use thiserror::Error;

use super::Offerings;
use crate::metrics;
use crate::state::cluster::Cluster;

/// Reason why prices were not updated.
#[derive(Debug, Error)]
enum Unanswered {
    #[error("no response from AWS")]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Empty(#[from] NoPrices),
}

impl Offerings {
    /// Refreshes the prices of one capacity type (spot or on-demand) forever, and requests a plan if prices changed.
    pub async fn follow_prices(
        self: Arc<Self>,
        capacity_type: CapacityType,
        isolated_network: bool,
        cluster: Arc<Cluster>,
        metrics: Arc<Metrics>,
    ) {
        let name = capacity_type.as_str();
        let region = &self.settings().region;
        let table = cloud::data::facts().map_or("", |facts| facts.price_region(region));
        self.tell_prices(&metrics);
        if capacity_type == CapacityType::OnDemand && !cloud::types::prices::has_pricing_api(region, isolated_network) {
            tracing::info!(
                region = region.as_str(),
                table,
                "no Pricing API in this partition, using embedded on-demand prices"
            );
            return;
        }
        if capacity_type == CapacityType::OnDemand {
            tracing::info!(
                region = region.as_str(),
                table,
                "using embedded on-demand prices until AWS returns those of the region"
            );
        }
        let mut schedule = Schedule::new(seed(&self.settings().cluster_name, name));
        loop {
            let answer = self.ask_prices(capacity_type, cluster.now()).await;
            let outcome = if answer.is_ok() { "success" } else { "failure" };
            metrics.add(
                &metrics::PRICE_REFRESHES,
                metrics::ByCapacityTypeOutcome { capacity_type: name, outcome },
                1.0,
            );
            let wait = match answer {
                Ok(learned) => {
                    tracing::info!(
                        capacity_type = name,
                        prices = learned.reported as i64,
                        changed = learned.changed as i64,
                        "loaded prices"
                    );
                    if learned.changed > 0 {
                        cluster.ask_for_plan("prices".to_owned());
                    }
                    schedule.after_answer()
                }
                Err(error) => {
                    tracing::warn!(
                        capacity_type = name,
                        error = daemon::error::chain(&error).as_str(),
                        "failed to update prices, keeping the last ones, retrying"
                    );
                    schedule.after_failure()
                }
            };
            self.tell_prices(&metrics);
            tokio::time::sleep(wait).await;
        }
    }

    /// Requests prices once and stores them.
    async fn ask_prices(&self, capacity_type: CapacityType, now: Timestamp) -> Result<PriceUpdate, Unanswered> {
        let learned = if capacity_type == CapacityType::Spot {
            let prices = self.cloud.spot_prices().await;
            self.state().spot_asked = true;
            let prices = prices?;
            AnswerLimit::spot_prices().add_page(prices.iter().map(|price| price.instance_type.len()))?;
            self.state().prices.prices_mut().learn_spot(prices, now)?
        } else {
            let prices = self.cloud.on_demand_prices().await?;
            AnswerLimit::on_demand_prices().add_page(prices.iter().map(|price| price.instance_type.len()))?;
            let prices = prices.into_iter().map(|price| (price.instance_type, price.micro_dollars));
            self.state().prices.prices_mut().learn_on_demand(prices, now)?
        };
        if learned.changed > 0 {
            self.state().renew();
        }
        Ok(learned)
    }

    /// Exports source, time and number of prices as metrics.
    fn tell_prices(&self, metrics: &Metrics) {
        let standings = self.state().prices.prices().statuses();
        for standing in standings {
            let name = standing.capacity_type.as_str();
            for word in Origin::WORDS {
                let is = f64::from(u8::from(word == standing.origin.as_str()));
                metrics.set(
                    &metrics::PRICE_SOURCE,
                    metrics::ByCapacityTypeSource { capacity_type: name, source: word },
                    is,
                );
            }
            if let Origin::Answer { at } = standing.origin {
                metrics.set(
                    &metrics::PRICE_TIME,
                    metrics::ByCapacityType { capacity_type: name },
                    at.as_second() as f64,
                );
            }
            metrics.set(&metrics::PRICES, metrics::ByCapacityType { capacity_type: name }, standing.prices as f64);
        }
    }
}

/// Returns the seed of a schedule, so that controllers of two clusters do not always send requests at the same moment.
fn seed(cluster: &str, capacity_type: &str) -> u64 {
    api::hash::fnv1a(cluster.bytes().chain([0]).chain(capacity_type.bytes()))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use std::sync::Arc;

    use cloud::fake::{FakeCloud, Fault};
    use cloud::settings::Settings as CloudSettings;
    use cloud::types::NodeReading;
    use daemon::metric::Metrics;
    use planner::CapacityType;

    use super::seed;
    use crate::capacity::offerings::Offerings;
    use crate::metrics;
    use crate::settings::Gates;

    const TYPE: &str = "m5.large";
    const ZONE: &str = "us-west-2a";

    fn offerings() -> (FakeCloud, Offerings) {
        let fake = FakeCloud::builder("us-west-2").only_types(&[TYPE]).build().unwrap();
        (fake.clone(), Offerings::new(Arc::new(fake), CloudSettings::default(), Gates::default()))
    }

    fn price(offerings: &Offerings, capacity_type: CapacityType) -> Option<i64> {
        offerings.state().prices.price(capacity_type, TYPE, ZONE).map(|price| price.0)
    }

    #[tokio::test]
    async fn ask_prices_keeps_known_prices_when_a_call_fails() {
        let (fake, offerings) = offerings();
        let list = CapacityType::OnDemand;
        assert_eq!(price(&offerings, list), Some(96_000), "the embedded table");
        fake.set_on_demand_price(TYPE, Some(90_000));
        fake.fail("GetProducts", 1, Fault::throttled());
        assert!(offerings.ask_prices(list, Timestamp::now()).await.is_err());
        assert_eq!(price(&offerings, list), Some(96_000));
        assert_eq!(offerings.ask_prices(list, Timestamp::now()).await.unwrap().changed, 1);
        assert_eq!(price(&offerings, list), Some(90_000));
        assert_eq!(price(&offerings, CapacityType::Spot), Some(90_000), "no history yet");
        let metrics = Metrics::new(&metrics::table());
        offerings.tell_prices(&metrics);
        let text = metrics.render();
        for line in [
            "kerf_prices_source{capacity_type=\"on-demand\",source=\"aws\"} 1.0",
            "kerf_prices_source{capacity_type=\"on-demand\",source=\"embedded\"} 0.0",
            "kerf_prices_source{capacity_type=\"spot\",source=\"on-demand\"} 1.0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("kerf_prices_updated_timestamp_seconds{capacity_type=\"spot\"}"));
    }

    /// The error names the call, and the known prices stay.
    #[tokio::test]
    async fn ask_prices_refuses_answers_that_are_too_long() {
        let (fake, offerings) = offerings();
        for index in 0..20_001 {
            fake.set_on_demand_price(&format!("m5.{index}"), Some(1));
        }
        let error = offerings.ask_prices(CapacityType::OnDemand, Timestamp::now()).await.unwrap_err();
        let error = daemon::error::chain(&error);
        assert!(error.contains("GetProducts failed: the answer has too many rows"), "{error}");
        assert_eq!(price(&offerings, CapacityType::OnDemand), Some(96_000));
        fake.set_spot_price(&"m".repeat(17 << 20), ZONE, 1);
        let error = offerings.ask_prices(CapacityType::Spot, Timestamp::now()).await.unwrap_err();
        let error = daemon::error::chain(&error);
        assert!(error.contains("DescribeSpotPriceHistory failed: the answer has too many bytes"), "{error}");
        assert_eq!(price(&offerings, CapacityType::Spot), Some(96_000), "no history yet");
    }

    #[tokio::test]
    async fn knows_returns_true_when_spot_prices_were_requested() {
        let (fake, offerings) = offerings();
        offerings.refresh().await.unwrap();
        assert!(!offerings.knows([].iter()));
        fake.fail("DescribeSpotPriceHistory", 1, Fault::server());
        assert!(offerings.ask_prices(CapacityType::Spot, Timestamp::now()).await.is_err());
        assert!(offerings.knows([].iter()));
        fake.set_spot_price(TYPE, ZONE, 12_345);
        assert!(offerings.ask_prices(CapacityType::Spot, Timestamp::now()).await.unwrap().changed > 0);
        assert_eq!(price(&offerings, CapacityType::Spot), Some(12_345));
    }

    #[test]
    fn learn_node_returns_none_when_class_is_unknown() {
        let (_, offerings) = offerings();
        let reading = NodeReading {
            class: "default".to_owned(),
            instance_type: TYPE.to_owned(),
            image: "ami-1".to_owned(),
            memory: Some(1 << 30),
            ..NodeReading::default()
        };
        assert_eq!(offerings.learn_node(&reading, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn seed_differs_by_cluster_and_capacity_type() {
        assert_ne!(seed("a", "spot"), seed("b", "spot"));
        assert_ne!(seed("a", "spot"), seed("a", "on-demand"));
        assert_eq!(seed("a", "spot"), seed("a", "spot"));
    }
}
