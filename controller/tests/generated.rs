//! `docs/metrics.md` is written from the table of metrics; this test keeps it fresh. `make bless` writes it anew.
#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::fmt::Write as _;
use std::path::Path;

use controller::metrics::TABLE;
use daemon::metric::Kind;

#[test]
fn the_page_of_metrics_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let wanted = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("docs/metrics.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "docs/metrics.md is stale: run `make bless` and review the difference");
}

#[test]
fn every_name_stands_once_and_tells_its_unit() {
    let mut names: Vec<&str> = TABLE.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
    for metric in TABLE {
        let name = metric.name;
        match metric.kind {
            Kind::Counter => assert!(name.ends_with("_total"), "{name}"),
            Kind::Histogram(_) => assert!(name.ends_with("_seconds"), "{name}"),
            Kind::Gauge => assert!(!name.ends_with("_total"), "{name}"),
        }
        assert!(name.starts_with("karpenter_") || name.starts_with("kerf_"), "{name}");
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Metrics of the controller\n\nWritten from `controller/src/metrics.rs` by `make bless`. Names that begin with \
         `karpenter_` mean what they mean in\nKarpenter; `kerf_` are our own.\n\n| name | kind | labels | meaning |\n\
         |---|---|---|---|\n",
    );
    for metric in TABLE {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels = metric.labels.join(", ");
        writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help).expect("a String takes all");
    }
    page
}
