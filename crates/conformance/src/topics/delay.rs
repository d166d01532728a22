//! Going on later, and giving work back.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

pub fn a_sleep_continues_the_same_attempt_under_a_new_lease(lab: &mut Lab) {
    let lease = lab.lease(work());
    let until = lab.now() + secs(60);
    assert_eq!(lab.ok(delay(&lease, secs(60))), DelayOutcome::Delayed { until });
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.due_at, view.worker), (Status::Delayed, Some(until), None));
    lab.advance(ms(59_999));
    assert!(lab.nothing_to_claim());
    lab.advance(ms(1));
    assert_eq!(lab.status(lease.id()), Status::Resumable);
    let next = lab.claim("other");
    assert_eq!((next.attempt, next.retries, next.resumed), (1, 0, true));
    assert!(next.lease.epoch > lease.lease.epoch);
}

pub fn a_sleep_may_name_the_moment_it_ends(lab: &mut Lab) {
    let lease = lab.lease(work());
    let until = lab.now() + secs(9);
    let sleep = Delay { until: Some(until), duration: None, ..delay(&lease, secs(0)) };
    assert_eq!(lab.ok(sleep), DelayOutcome::Delayed { until });
    lab.advance(secs(9));
    assert_eq!(lab.status(lease.id()), Status::Resumable);
}

pub fn a_sleep_that_is_over_already_is_resumable_at_once(lab: &mut Lab) {
    let lease = lab.lease(work());
    let past = Some(lab.now().before(secs(1)));
    lab.ok(Delay { until: past, duration: None, ..delay(&lease, secs(0)) });
    assert_eq!(lab.status(lease.id()), Status::Resumable);
    assert!(lab.claim("w").resumed);
}

pub fn a_sleep_needs_exactly_one_time(lab: &mut Lab) {
    let lease = lab.lease(work());
    let none = Delay { duration: None, ..delay(&lease, secs(1)) };
    let both = Delay { until: Some(lab.now()), ..delay(&lease, secs(1)) };
    for bad in [none, both] {
        let error = lab.refused(bad);
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("until")));
    }
}

pub fn an_attempt_that_slept_is_listed_once_for_each_lease(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(delay(&lease, secs(0)));
    let lease = lab.claim("other");
    lab.ok(complete(&lease));
    let attempts = lab.attempts(lease.id());
    let short: Vec<_> = attempts.iter().map(|one| (one.attempt, one.worker.as_str())).collect();
    assert_eq!(short, [(1, "w"), (1, "other")]);
    assert_eq!(attempts[0].end, Some(LeaseEnd::Delayed { until: lab.now() }));
}

pub fn a_resumed_attempt_that_loses_its_worker_is_over(lab: &mut Lab) {
    let id = lab.bring(Status::Resumable, work());
    assert_eq!(lab.take(id).attempt, 1);
    lab.advance(secs(30));
    assert_eq!(lab.status(id), Status::Waiting);
    let lease = lab.take(id);
    assert_eq!((lease.attempt, lease.resumed), (2, false));
}

pub fn a_sleep_ends_in_a_paused_lane_too(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(delay(&lease, secs(5)));
    lab.ok(pause("default"));
    lab.advance(secs(5));
    assert_eq!(lab.status(lease.id()), Status::Resumable);
    assert!(lab.nothing_to_claim());
    lab.ok(resume("default"));
    assert!(lab.claim("w").resumed);
}

pub fn a_sleep_beyond_the_deadline_ends_with_it(lab: &mut Lab) {
    let lease = lab.lease(work().deadline_at(lab.now() + secs(10)));
    lab.ok(delay(&lease, hours(1)));
    lab.advance(secs(10));
    assert_eq!(lab.status(lease.id()), Status::Expired);
}

pub fn sleeping_does_not_count_towards_the_attempt_timeout(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "attempt_timeout_ms": 10_000 }))));
    lab.pass(secs(9));
    lab.ok(delay(&lease, hours(1)));
    lab.advance(hours(1));
    let lease = lab.claim("w");
    lab.advance(secs(9));
    lab.ok(complete(&lease));
}

pub fn a_release_ends_the_attempt_and_gives_the_work_to_another(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert_eq!(lab.ok(release(&lease)), ReleaseOutcome::Released);
    assert_eq!(lab.status(lease.id()), Status::Waiting);
    let next = lab.claim("other");
    assert_eq!((next.attempt, next.retries, next.resumed), (2, 0, false));
    use EventKind::{Claimed, Released, Submitted};
    assert_eq!(lab.history(lease.id()), [Submitted, Claimed, Released, Claimed]);
}
