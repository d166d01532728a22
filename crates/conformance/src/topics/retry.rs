//! What becomes of a failed attempt.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

/// When a failed attempt of this class is retried, if it is.
fn outcome(lab: &mut Lab, new: NewExecution, failure: Failure) -> FailOutcome {
    let lease = lab.lease(new);
    lab.ok(fail(&lease, failure))
}

/// Fails an execution's attempts until it has failed, and tells how long each retry waited.
fn waits(lab: &mut Lab, new: NewExecution) -> Vec<u64> {
    let id = lab.submit(new);
    let mut waits = Vec::new();
    loop {
        let lease = lab.take(id);
        match lab.ok(fail(&lease, Failure::transient("x"))) {
            FailOutcome::Retry { at } => {
                let wait = at.since(lab.now());
                waits.push(u64::try_from(wait.as_millis()).unwrap());
                lab.advance(wait);
            }
            FailOutcome::Failed { .. } => return waits,
            FailOutcome::Cancelled => panic!("nobody cancelled it"),
        }
    }
}

pub fn a_failure_that_may_pass_is_tried_again(lab: &mut Lab) {
    use FailureClass::{Infrastructure, Timeout, Transient};
    for class in [Transient, Infrastructure, Timeout] {
        let lease = lab.lease(work());
        let FailOutcome::Retry { at } = lab.ok(fail(&lease, failure(class))) else {
            panic!("{class:?} was not retried");
        };
        let view = lab.get(lease.id());
        assert_eq!((view.status, view.due_at, view.retries), (Status::Delayed, Some(at), 1));
        lab.advance(at.since(lab.now()));
        assert_eq!(lab.take(lease.id()).attempt, 2);
    }
}

pub fn a_permanent_failure_is_not_tried_again(lab: &mut Lab) {
    let lease = lab.lease(work());
    let outcome = lab.ok(fail(&lease, Failure::permanent("no such address")));
    assert_eq!(outcome, FailOutcome::Failed { reason: EndReason::Permanent });
    assert_eq!(
        lab.end(lease.id()),
        End {
            outcome: Outcome::Failed,
            reason: EndReason::Permanent,
            message: Some("no such address".into()),
            by: Some("w".into()),
        }
    );
}

pub fn waits_double_and_are_shortened_to_no_less_than_half(lab: &mut Lab) {
    let mut seen = Vec::new();
    for _ in 0..20 {
        let waits = waits(lab, work());
        assert_eq!(waits.len(), 3);
        for (wait, full) in waits.iter().zip([1000, 2000, 4000]) {
            assert!((full / 2..=full).contains(wait), "{wait} of {full}");
        }
        seen.push(waits);
    }
    seen.dedup();
    assert!(seen.len() > 10, "the waits do not vary: {seen:?}");
}

pub fn waits_are_exact_without_jitter(lab: &mut Lab) {
    let retry = json!({ "max_retries": 8, "jitter": false });
    let full = waits(lab, work().policy(policy(json!({ "retry": retry }))));
    assert_eq!(full, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
}

pub fn the_backoff_is_a_policy(lab: &mut Lab) {
    let fixed = json!({ "type": "fixed", "delay_ms": 250 });
    let retry = json!({ "max_retries": 3, "jitter": false, "backoff": fixed });
    let new = work().policy(policy(json!({ "retry": retry })));
    assert_eq!(waits(lab, new), [250, 250, 250]);
    let steep = json!({ "type": "exponential", "initial_ms": 10, "factor": 10.0, "max_ms": 5000 });
    let retry = json!({ "max_retries": 4, "jitter": false, "backoff": steep });
    let new = work().policy(policy(json!({ "retry": retry })));
    assert_eq!(waits(lab, new), [10, 100, 1000, 5000]);
}

pub fn retry_after_wins_over_the_backoff(lab: &mut Lab) {
    let lease = lab.lease(work());
    let at = lab.now() + secs(77);
    assert_eq!(lab.ok(retry_after(&lease, secs(77))), FailOutcome::Retry { at });
    assert_eq!(lab.get(lease.id()).due_at, Some(at));
}

pub fn a_retry_after_no_time_is_claimable_at_once(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(retry_after(&lease, secs(0)));
    assert_eq!(lab.status(lease.id()), Status::Waiting);
    assert_eq!(lab.claim("w").attempt, 2);
}

pub fn retry_after_does_not_grant_more_retries(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "retry": { "max_retries": 0 } }))));
    let outcome = lab.ok(retry_after(&lease, secs(1)));
    assert_eq!(outcome, FailOutcome::Failed { reason: EndReason::RetriesExhausted });
}

pub fn the_last_retry_that_fails_ends_it(lab: &mut Lab) {
    let id = lab.submit(work().policy(policy(json!({ "retry": { "max_retries": 2 } }))));
    for retries in 0..2 {
        let lease = lab.take(id);
        assert_eq!(lease.retries, retries);
        lab.ok(retry_after(&lease, secs(0)));
    }
    let lease = lab.take(id);
    let outcome = lab.ok(fail(&lease, Failure::transient("still busy")));
    assert_eq!(outcome, FailOutcome::Failed { reason: EndReason::RetriesExhausted });
    let end = lab.end(id);
    assert_eq!((end.outcome, end.message.as_deref()), (Outcome::Failed, Some("still busy")));
    assert_eq!((lab.get(id).attempt, lab.get(id).retries), (3, 2));
}

pub fn a_policy_may_list_the_classes_and_categories_it_retries(lab: &mut Lab) {
    let on = json!({ "classes": ["infrastructure"], "categories": ["busy"] });
    let picky = || work().policy(policy(json!({ "retry": { "retry_on": on.clone() } })));
    let not = FailOutcome::Failed { reason: EndReason::NotRetryable };
    assert_eq!(outcome(lab, picky(), failure(FailureClass::Transient)), not);
    let retried = outcome(lab, picky(), failure(FailureClass::Infrastructure));
    assert!(matches!(retried, FailOutcome::Retry { .. }));
    let busy = Failure { category: Some("busy".into()), ..failure(FailureClass::Transient) };
    assert!(matches!(outcome(lab, picky(), busy), FailOutcome::Retry { .. }));
    let hopeless = Failure { category: Some("busy".into()), ..Failure::permanent("no") };
    let permanent = FailOutcome::Failed { reason: EndReason::Permanent };
    assert_eq!(outcome(lab, picky(), hopeless), permanent);
}

pub fn release_revoke_expiry_and_sleep_use_no_retry(lab: &mut Lab) {
    let id = lab.submit(work());
    let lease = lab.take(id);
    lab.ok(release(&lease));
    lab.take(id);
    lab.ok(RevokeLease::new(id));
    let lease = lab.take(id);
    lab.ok(delay(&lease, secs(0)));
    lab.take(id);
    lab.advance(secs(30));
    assert_eq!((lab.get(id).retries, lab.take(id).attempt), (0, 4));
}

pub fn every_attempt_is_in_the_history_with_its_end(lab: &mut Lab) {
    let id = lab.submit(work());
    let detail = json!({ "code": 42 });
    let busy = Failure {
        category: Some("busy".into()),
        detail: Some(detail),
        ..Failure::transient("come back")
    };
    let first = lab.take(id);
    let started = lab.now();
    lab.pass(secs(1));
    lab.ok(Fail { failure: busy.clone(), ..retry_after(&first, secs(0)) });
    let ended = lab.now();
    let second = lab.take(id);
    lab.ok(Release { reason: Some("shutting down".into()), ..release(&second) });
    lab.take(id);
    lab.ok(RevokeLease { reason: Some("slow".into()), ..RevokeLease::new(id) });
    lab.take(id);
    lab.advance(secs(30));
    let fifth = lab.take(id);
    assert_eq!(lab.attempts(id)[4].end, None);
    lab.ok(complete(&fifth));

    let attempts = lab.attempts(id);
    let numbers: Vec<_> = attempts.iter().map(|one| (one.attempt, one.run)).collect();
    assert_eq!(numbers, [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
    assert_eq!((attempts[0].claimed_at, attempts[0].ended_at), (started, Some(ended)));
    assert_eq!(attempts[0].epoch, first.lease.epoch);
    assert!(attempts.iter().all(|one| one.worker == "w" && one.ended_at.is_some()));
    let ends: Vec<_> = attempts.into_iter().map(|one| one.end.unwrap()).collect();
    let expected = [
        LeaseEnd::Failed { failure: busy, retry_at: Some(ended), reason: None },
        LeaseEnd::Released { reason: Some("shutting down".into()) },
        LeaseEnd::Revoked { reason: Some("slow".into()), by: "operator".into() },
        LeaseEnd::Expired,
        LeaseEnd::Completed,
    ];
    assert_eq!(ends, expected);
}

pub fn a_policy_is_filled_from_lane_then_namespace_then_the_built_in_one(lab: &mut Lab) {
    let space =
        defaults(json!({ "max_reclaims": 1, "max_replays": 1, "retry": { "max_retries": 1 } }));
    lab.ok(PutNamespace { namespace: ns(), defaults: space });
    let lane = defaults(json!({ "max_replays": 2, "retry": { "max_retries": 2 } }));
    lab.ok(put_lane("default", lane));
    let id = lab.submit(work().policy(policy(json!({ "retry": { "max_retries": 3 } }))));
    let policy = lab.get(id).policy;
    assert_eq!(policy.retry.max_retries(), 3);
    assert_eq!(policy.max_replays(), 2);
    assert_eq!(policy.max_reclaims(), 1);
    assert!(policy.retry.jitter());
    let elsewhere = lab.submit(work().lane("elsewhere"));
    assert_eq!(lab.get(elsewhere).policy.max_replays(), 1);
}

pub fn a_priority_is_filled_from_lane_then_namespace_then_the_built_in_one(lab: &mut Lab) {
    let with = |priority| Defaults { priority: Some(priority), ..Defaults::default() };
    let priority = |lab: &mut Lab, new| {
        let id = lab.submit(new);
        lab.get(id).priority
    };
    assert_eq!(priority(lab, work()), 1000);
    lab.ok(PutNamespace { namespace: ns(), defaults: with(2000) });
    assert_eq!(priority(lab, work()), 2000);
    lab.ok(put_lane("default", with(3000)));
    assert_eq!(priority(lab, work()), 3000);
    assert_eq!(priority(lab, work().priority(0)), 0);
}

pub fn a_policy_is_frozen_when_it_is_submitted(lab: &mut Lab) {
    lab.ok(put_lane("default", defaults(json!({ "retry": { "max_retries": 0 } }))));
    let before = lab.submit(work());
    lab.ok(put_lane("default", defaults(json!({ "retry": { "max_retries": 9 } }))));
    lab.reopen();
    let lease = lab.take(before);
    let outcome = lab.ok(fail(&lease, Failure::transient("x")));
    assert_eq!(outcome, FailOutcome::Failed { reason: EndReason::RetriesExhausted });
}

pub fn fallbacks_are_handed_out_by_the_retries_used(lab: &mut Lab) {
    let fallbacks = json!([{ "model": "small" }, { "provider": "b", "timeout_ms": 1500 }]);
    let id = lab.submit(work().policy(policy(json!({ "fallbacks": fallbacks }))));
    let mut given = Vec::new();
    for _ in 0..4 {
        let lease = lab.take(id);
        lab.ok(release(&lease));
        let lease = lab.take(id);
        given.push(lease.fallback.clone());
        lab.ok(retry_after(&lease, secs(0)));
    }
    let small = Fallback { model: Some("small".into()), ..Fallback::default() };
    let other =
        Fallback { provider: Some("b".into()), timeout: Some(ms(1500)), ..Fallback::default() };
    assert_eq!(given, [None, Some(small), Some(other.clone()), Some(other)]);
}

pub fn a_retry_is_told_as_one_event(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(retry_after(&lease, secs(5)));
    lab.advance(secs(5));
    use EventKind::{BecameReady, Claimed, Retrying, Submitted};
    assert_eq!(lab.history(lease.id()), [Submitted, Claimed, Retrying, BecameReady]);
    let event = lab.events(about(lease.id())).remove(2);
    assert_eq!((event.worker.as_deref(), event.attempt), (Some("w"), Some(1)));
    let data = event.data.unwrap();
    assert_eq!((&data["retries"], &data["class"]), (&json!(1), &json!("transient")));
}
