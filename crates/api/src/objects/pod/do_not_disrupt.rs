//! Protection of pods against voluntary disruption: evaluation of their annotations, end of the protection, and invalid values.

use jiff::{SignedDuration, Timestamp};

use super::Pod;
use crate::names::annotation;
use crate::units::duration::{InvalidSpan, nanos, span};

impl Pod {
    /// Reports whether voluntary disruption of the pod is forbidden at `now`. The annotation is `true`, or a positive duration
    /// since the start of the pod that has not passed. Any other text protects nothing.
    #[must_use]
    pub fn is_do_not_disrupt(&self, now: Timestamp) -> bool {
        let text = self.annotation(annotation::DO_NOT_DISRUPT);
        let started = self.status.start_time.as_ref().map_or(now, |at| at.0);
        text == Some(annotation::TRUE)
            || text.and_then(protection).is_some_and(|lasts| now.duration_since(started) < lasts)
    }

    /// Returns the end of a protection that is active at `now`. Returns `None` if no protection is active, if it has no end, or
    /// if the pod has not started.
    #[must_use]
    pub fn protected_until(&self, now: Timestamp) -> Option<Timestamp> {
        let lasts = protection(self.annotation(annotation::DO_NOT_DISRUPT)?)?;
        let end = self.status.start_time.as_ref()?.0.checked_add(lasts).ok()?;
        (end > now).then_some(end)
    }

    /// Returns the value of the annotation `karpenter.sh/do-not-disrupt` if it is neither `true`, `false` nor a positive
    /// duration. Such a value protects nothing. The value `false` protects nothing either, but deliberately.
    #[must_use]
    pub fn misread_do_not_disrupt(&self) -> Option<&str> {
        let text = self.annotation(annotation::DO_NOT_DISRUPT)?;
        let known = [annotation::TRUE, annotation::FALSE].contains(&text) || protection(text).is_some();
        (!known).then_some(text)
    }

    /// Returns the time until which the pod is not moved to save money: its start plus the duration in
    /// `kerf.sh/disrupt-at-most-once-per`. A moved pod starts anew, so pods need no record, and a restart of the controller
    /// loses nothing.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a duration of 0 or more.
    pub fn rests_until(&self) -> Result<Option<Timestamp>, InvalidSpan> {
        let Some(text) = self.annotation(annotation::DISRUPT_AT_MOST_ONCE_PER) else { return Ok(None) };
        let period = SignedDuration::from_nanos(span(text)?);
        let started = self.status.start_time.as_ref().or(self.metadata.creation_timestamp.as_ref());
        Ok(started.and_then(|at| at.0.checked_add(period).ok()))
    }
}

/// Returns the duration for which a text protects.
fn protection(text: &str) -> Option<SignedDuration> {
    nanos(text).ok().filter(|nanos| *nanos > 0).map(SignedDuration::from_nanos)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value, started: Option<&str>) -> Pod {
        let status = started.map_or_else(|| json!({}), |at| json!({"startTime": at}));
        let metadata = json!({"name": "web", "creationTimestamp": "2026-01-01T11:00:00Z", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Rows: annotation, start of the pod, protection at noon, end of the protection, and true if the value is reported as
    /// invalid.
    #[test]
    fn do_not_disrupt_protects_for_true_or_a_duration() {
        let rows = [
            ("true", Some("11:00"), true, None, false),
            ("false", Some("11:00"), false, None, false),
            ("2h", Some("11:00"), true, Some("13:00"), false),
            ("1h", Some("11:00"), false, None, false),
            ("2h", None, true, None, false),
            // A clock that was set back: the pod starts in an hour.
            ("2h", Some("13:00"), true, Some("15:00"), false),
            ("-4h", Some("11:00"), false, None, true),
            ("-4h", Some("20:00"), false, None, true),
            ("0s", Some("11:00"), false, None, true),
            ("soon", None, false, None, true),
            ("True", Some("11:00"), false, None, true),
            ("4", Some("11:00"), false, None, true),
            ("", Some("11:00"), false, None, true),
        ];
        let time = |time: &str| format!("2026-01-01T{time}:00Z");
        for (text, started, protects, until, reported) in rows {
            let pod = pod(json!({"karpenter.sh/do-not-disrupt": text}), started.map(time).as_deref());
            let now = at("2026-01-01T12:00:00Z");
            assert_eq!(pod.is_do_not_disrupt(now), protects, "{text} {started:?}");
            assert_eq!(pod.protected_until(now), until.map(|it| at(&time(it))), "{text} {started:?}");
            assert_eq!(pod.misread_do_not_disrupt(), reported.then_some(text), "{text}");
        }
        assert_eq!(pod(json!({}), None).misread_do_not_disrupt(), None);
    }

    #[test]
    fn rests_until_adds_the_duration_to_the_start() {
        let rests = |text: &str, started| pod(json!({"kerf.sh/disrupt-at-most-once-per": text}), started).rests_until();
        let started = Some("2026-01-01T11:30:00Z");
        assert_eq!(rests("1h", started), Ok(Some(at("2026-01-01T12:30:00Z"))));
        assert_eq!(
            rests("1h", None),
            Ok(Some(at("2026-01-01T12:00:00Z"))),
            "who has not started counts from its making"
        );
        assert_eq!(rests("0s", started), Ok(Some(at("2026-01-01T11:30:00Z"))));
        for text in ["-4h", "often", "Never"] {
            assert_eq!(rests(text, started), Err(InvalidSpan { text: text.to_owned() }));
        }
        assert_eq!(pod(json!({}), started).rests_until(), Ok(None));
    }
}
