//! Table tests of schedules. Rows about cron have the results of robfig/cron, Karpenter's library. Rows about time zones are
//! Kerf's own.

use super::*;

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns the first minute of the schedule after a time. Checks every minute: slow and simple.
fn next(schedule: &Schedule, zone: &TimeZone, after: &str) -> String {
    let mut now = at(after);
    for _ in 0..60 * 24 * 400 {
        now += minutes(1);
        if schedule.is_open(minutes(1), zone, now) {
            return now.to_string();
        }
    }
    "none".to_owned()
}

#[test]
fn schedule_matches_the_minutes_of_robfig_cron() {
    // 2026-01-01 is a Thursday.
    let rows = [
        ("* * * * *", "2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z"),
        ("0 9 * * *", "2026-01-01T12:00:00Z", "2026-01-02T09:00:00Z"),
        ("0/15 * * * *", "2026-01-01T12:01:00Z", "2026-01-01T12:15:00Z"),
        ("5/20 * * * *", "2026-01-01T12:45:00Z", "2026-01-01T13:05:00Z"),
        ("20-35/15 * * * *", "2026-01-01T12:20:00Z", "2026-01-01T12:35:00Z"),
        ("*/7 * * * *", "2026-01-01T12:56:00Z", "2026-01-01T13:00:00Z"),
        ("0 0 * * mon-fri", "2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 * * MON,Wed", "2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z"),
        ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 * feb *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"),
        // Day and weekday are alternatives if both are restricted, also by a step.
        ("0 0 13 * fri", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-10T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 */10 * sun", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 * * */6", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"),
        // Only one of them counts if the other is `*`.
        ("0 0 */1 * fri", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 ? * fri", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 1,* * fri", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
        // Unusual forms that robfig/cron accepts: empty entries, a range after a star, signs, zeros, extra space.
        ("0,,30 * * * *", "2026-01-01T12:00:00Z", "2026-01-01T12:30:00Z"),
        ("*-5 12 * * *", "2026-01-01T12:30:00Z", "2026-01-01T12:31:00Z"),
        ("+5 007 * * *", "2026-01-01T00:00:00Z", "2026-01-01T07:05:00Z"),
        ("  0\t9  * * *  ", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@annually", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-01T12:00:00Z", "2026-01-02T00:00:00Z"),
        (" @hourly ", "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"),
    ];
    for (text, after, expected) in rows {
        let schedule = Schedule::read(text).unwrap();
        assert_eq!(next(&schedule, &TimeZone::UTC, after), expected, "{text} after {after}");
    }
}

#[test]
fn schedule_read_refuses_invalid_text_with_a_hint() {
    let rows = [
        ("", "write five fields"),
        ("@reboot", "write five fields"),
        ("@every 1h", "write five fields"),
        ("@Daily", "write five fields"),
        ("* * * *", "write five fields"),
        ("0 * * * * *", "write five fields"),
        ("TZ=UTC 0 9 * * *", "write five fields"),
        ("60 * * * *", "\"60\" is not the minute of a schedule: write 0 to 59"),
        ("* 24 * * *", "is not the hour"),
        ("* * 0 * *", "is not the day of the month of a schedule: write 1 to 31"),
        ("* * * 13 *", "is not the month"),
        ("* * * * 7", "\"7\" is not the day of the week of a schedule: write 0 to 6, where sunday is 0"),
        ("* * * * 1-7", "write 0 to 6, where sunday is 0"),
        ("* * * * sun-sat-sun", "is not the day of the week"),
        ("* * * * sat-sun", "is not the day of the week of a schedule: write sat,sun, since a range"),
        ("* * * * fri-mon,wed", "write fri-sat,sun-mon,wed,"),
        ("* * * * 5-1", "write 5-6,0-1,"),
        ("* 22-6 * * *", "write 22-23,0-6,"),
        ("jan * * * *", "is not the minute"),
        ("30-20 * * * *", "is not the minute of a schedule: write 30-59,0-20,"),
        ("*/0 * * * *", "is not the minute"),
        ("*/2/2 * * * *", "is not the minute"),
        ("*/x * * * *", "is not the minute"),
        ("-5 * * * *", "is not the minute"),
        (", * * * *", "is not the minute"),
        ("0 0 L * *", "is not the day of the month"),
        ("0 0 30 feb *", "never matches"),
        ("0 0 31 4,6,9,11 ?", "never matches"),
    ];
    for (text, expected) in rows {
        let error = Schedule::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(Schedule::read("0 0 29 2 *").is_ok() && Schedule::read("0 0 31 2 sun").is_ok());
}

#[test]
fn is_open_is_true_from_the_start_for_the_duration() {
    let rows = [
        ("0 9 * * *", 60, "2026-01-01T08:59:59.999Z", false),
        ("0 9 * * *", 60, "2026-01-01T09:00:00Z", true),
        ("0 9 * * *", 60, "2026-01-01T09:59:59.999Z", true),
        ("0 9 * * *", 60, "2026-01-01T10:00:00Z", false),
        ("0 9 * * *", 0, "2026-01-01T09:00:00Z", false),
        // Across midnight, and longer than the period.
        ("0 22 * * *", 240, "2026-01-02T01:59:00Z", true),
        ("0 22 * * *", 240, "2026-01-02T02:00:00Z", false),
        ("@daily", 24 * 60, "2026-01-01T23:59:00Z", true),
        ("@hourly", 90, "2026-01-01T12:59:00Z", true),
        ("0 0 29 2 *", 60, "2026-02-28T00:30:00Z", false),
        ("0 0 29 2 *", 60 * 24 * 366 * 4, "2026-02-28T00:30:00Z", true),
        ("@yearly", i64::MAX / 60, "2026-01-01T12:00:00Z", true),
    ];
    for (text, lasts, now, expected) in rows {
        let schedule = Schedule::read(text).unwrap();
        assert_eq!(
            schedule.is_open(minutes(lasts), &TimeZone::UTC, at(now)),
            expected,
            "{text} for {lasts} m at {now}"
        );
    }
}

#[test]
fn is_open_follows_local_time_across_clock_changes() {
    // In Berlin, 02:00 to 03:00 is skipped on March 29 and occurs twice on October 25.
    let rows = [
        ("Europe/Berlin", "0 9 * * *", "2026-01-10T00:00:00Z", "2026-01-10T08:00:00Z"),
        ("Europe/Berlin", "0 9 * * *", "2026-07-10T00:00:00Z", "2026-07-10T07:00:00Z"),
        ("europe/berlin", "30 2 29 3 *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
        ("Europe/Berlin", "30 2 25 10 *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("Asia/Kolkata", "@daily", "2026-01-01T12:00:00Z", "2026-01-01T18:30:00Z"),
        ("Pacific/Kiritimati", "0 0 * * sun", "2026-01-01T12:00:00Z", "2026-01-03T10:00:00Z"),
        ("UTC", "@daily", "2026-01-01T12:00:00Z", "2026-01-02T00:00:00Z"),
    ];
    for (name, text, after, expected) in rows {
        let zone = zone(name).unwrap();
        let schedule = Schedule::read(text).unwrap();
        assert_eq!(next(&schedule, &zone, after), expected, "{text} in {name} after {after}");
    }
    for name in ["", "Mars/Olympus", "+02:00", "/etc/localtime"] {
        assert!(zone(name).unwrap_err().to_string().contains(&format!("{name:?}")));
    }
}
