//! Time limits of the launch and the registration.

use super::*;

/// Both timeouts follow the transition time of the condition, which begins as the creation of the NodeClaim.
#[test]
fn decide_deletes_claims_when_launch_or_registration_times_out() {
    let unlaunched = |since| status(&[cond(condition::LAUNCHED, "Unknown", since)]);
    let unregistered =
        |since| status(&[cond(condition::LAUNCHED, "True", 240), cond(condition::REGISTERED, "Unknown", since)]);
    let rows = [
        ("fresh", json!({}), 0, None),
        ("not launched in time", json!({}), 300, Some("launch_timeout")),
        ("just in time", unlaunched(0), 299, None),
        ("not launched, seen before", unlaunched(0), 300, Some("launch_timeout")),
        ("a later transition moves the deadline", unlaunched(200), 499, None),
        ("and there it ends", unlaunched(200), 500, Some("launch_timeout")),
        ("launched at minute 4, never seen again", launched(), 900, Some("registration_timeout")),
        ("launched at minute 4, one second left", launched(), 899, None),
        ("registration's later transition", unregistered(60), 959, None),
        ("and its end", unregistered(60), 960, Some("registration_timeout")),
        ("registered for hours", registered("Unknown"), 9000, None),
    ];
    for (what, change, seconds, reason) in rows {
        let decision = decide(&claim_view(&change, &[], seconds));
        assert_eq!(decision.disrupted, reason, "{what}");
        let deleted = words(&decision.steps).contains(&"delete claim default-1 (claim-uid)".to_owned());
        assert_eq!(deleted, reason.is_some(), "{what}");
        // An instance that is not stored yet exists; only the limit of the registration applies.
        let late = decide(&NodeClaimView { awaits_adoption: true, ..claim_view(&change, &[], seconds) });
        assert_eq!(late.disrupted, reason.filter(|reason| *reason != "launch_timeout"), "{what}");
    }
}

#[test]
fn decide_requeues_when_the_launch_timeout_ends() {
    let decision = decide(&claim_view(&status(&[cond(condition::LAUNCHED, "Unknown", 0)]), &[], 100));
    assert_eq!(decision.after.map(|after| after.as_secs()), Some(200));
}
