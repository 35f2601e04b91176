//! A sample of Karpenter's own end-to-end suites, and the page with all results. `make conformance` runs all of it.

use testbed::conformance::results::{Case, Outcome, Results};
use testbed::conformance::run::{self, Plan};
use testbed::conformance::{ginkgo, page, reasons, suites};

/// Cases of the sample: which objects the API server refuses, a NodeClaim without a NodePool, and a static NodePool.
const SAMPLE: &str = "Integration Validation NodePool|NodeClaim StandaloneNodeClaim should create a standard NodeClaim$|\
    StaticCapacity Deprovisioning should scale down to zero";

#[test]
fn sample_of_the_regression_suite_passes() {
    let suites = suites::named(&["core/regression".to_owned()]).unwrap();
    let plan = Plan { cases: SAMPLE.to_owned(), clusters: 2, given: None, karpenter: None };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ran = runtime.block_on(run::run(&suites[0], &plan, |_| Ok(()))).unwrap();
    assert_eq!(ran.len(), 19, "{ran:#?}");
    run::ensure_passed(&ran).unwrap();
}

#[test]
fn generated_page_is_up_to_date() {
    if std::env::var_os("BLESS").is_some() {
        page::write().unwrap();
    }
    let found = std::fs::read_to_string(page::file()).unwrap();
    assert_eq!(found, page::render().unwrap(), "docs/conformance.md: write it with `make bless`");
}

#[test]
fn each_reason_explains_a_case_that_does_not_pass() {
    let results: Vec<(String, Results)> =
        suites::all().unwrap().into_iter().map(|suite| (suite.name(), Results::read(&suite).unwrap())).collect();
    for reason in reasons::read().unwrap() {
        let explains = |case: &Case, suite: &str| case.outcome != Outcome::Passed && reason.explains(suite, case);
        let found = results.iter().any(|(suite, results)| results.cases().any(|case| explains(case, suite)));
        assert!(found, "no case of {} that begins with {:?} fails", reason.suite, reason.cases);
    }
}

#[test]
fn named_reports_an_unknown_suite_with_the_known_ones() {
    let error = suites::named(&["core/regresion".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("core/regresion") && error.contains("core/regression"), "{error}");
}

/// Report of Ginkgo with one spec of this type, state and failure message.
fn report(node: &str, state: &str, message: &str) -> String {
    serde_json::json!([{"SpecReports": [{
        "ContainerHierarchyTexts": ["Drift", "Budgets"], "LeafNodeType": node, "LeafNodeText": "holds",
        "LeafNodeLocation": {"FileName": "x/suites/regression/drift_test.go"}, "State": state, "RunTime": 1_250_000_000_u64,
        "Failure": {"Message": message},
    }]}])
    .to_string()
}

#[test]
fn cases_returns_the_chosen_cases_of_a_report() {
    let rows = [
        ("passed", "", Some(Outcome::Passed)),
        ("failed", "expected 1", Some(Outcome::Failed)),
        ("timedout", "", Some(Outcome::Failed)),
        ("panicked", "", Some(Outcome::Failed)),
        ("skipped", "needs a GPU", Some(Outcome::Skipped)),
        ("skipped", "Spec skipped because an earlier spec in an ordered container failed", Some(Outcome::Failed)),
        ("pending", "", Some(Outcome::Skipped)),
        ("skipped", "", None),
    ];
    for (state, message, expected) in rows {
        let cases = ginkgo::cases(&report("It", state, message)).unwrap();
        assert_eq!(cases.first().map(|case| case.outcome), expected, "{state} {message:?}");
        for case in cases {
            assert_eq!((case.file.as_str(), case.name.as_str()), ("drift_test.go", "Drift Budgets holds"));
            assert_eq!((case.seconds, case.message.as_str()), (1.3, message));
        }
    }
}

#[test]
fn cases_reports_a_failed_set_up() {
    let error = ginkgo::cases(&report("BeforeSuite", "failed", "no cluster")).unwrap_err().to_string();
    assert_eq!(error, "BeforeSuite failed: no cluster");
}

#[test]
fn page_counts_and_explains_what_does_not_pass() {
    let case = |name: &str, outcome, message: &str| Case {
        file: "drift_test.go".to_owned(),
        name: name.to_owned(),
        outcome,
        seconds: 60.0,
        message: message.to_owned(),
    };
    let results: Results = [
        case("Drift passes", Outcome::Passed, ""),
        case("Drift differs", Outcome::Failed, "expected 1"),
        case("Drift breaks", Outcome::Failed, "expected 2\nmore"),
    ]
    .into_iter()
    .collect();
    let reason = "- {suite: core/regression, cases: Drift differs, kind: difference, reason: \"Kerf waits | longer\"}";
    let reasons: Vec<reasons::Reason> = serde_saphyr::from_str(reason).unwrap();
    let suites = [("core/regression".to_owned(), results), ("core/performance".to_owned(), Results::default())];
    let page = page::page(&suites, &reasons);
    let lines = [
        "| core/regression | 3 | 1 | 1 | 1 | 3 |",
        "| core/performance | not run yet | | | | |",
        "| drift | Drift passes | pass | 60 |  |",
        "| drift | Drift differs | **fail** | 60 | deliberate difference: Kerf waits \\| longer |",
        "| drift | Drift breaks | **fail** | 60 | unexplained: expected 2 |",
    ];
    for line in lines {
        assert!(page.lines().any(|found| found == line), "{line:?} is missing in\n{page}");
    }
}
