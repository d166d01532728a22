//! What happens because time passed.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;

pub fn work_of_a_vanished_worker_is_taken_up_by_another(lab: &mut Lab) {
    let id = lab.submit(work().input(Payload::bytes("x")));
    lab.claim("vanished");
    lab.advance(secs(30) - ms(1));
    assert!(lab.nothing_to_claim());
    lab.advance(ms(1));
    let lease = lab.claim("other");
    assert_eq!((lease.id(), lease.attempt, lease.retries), (id, 2, 0));
    assert_eq!(lease.input, Some(Payload::bytes("x")));
    lab.ok(complete(&lease));
    use EventKind::{Claimed, Completed, LeaseExpired, Submitted};
    assert_eq!(lab.history(id), [Submitted, Claimed, LeaseExpired, Claimed, Completed]);
    let lost = lab.events(of_kinds([LeaseExpired])).remove(0);
    assert_eq!(lost.worker.as_deref(), Some("vanished"));
}

pub fn work_of_a_vanished_worker_is_taken_up_after_a_restart(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.reopen();
    lab.advance(secs(30));
    assert_eq!(lab.claim("other").id(), lease.id());
}

pub fn work_that_keeps_losing_its_worker_waits_longer_each_time(lab: &mut Lab) {
    let id = lab.submit(work());
    let mut waits = Vec::new();
    for _ in 0..5 {
        lab.take(id);
        lab.advance(secs(30));
        let view = lab.get(id);
        let wait = view.due_at.map_or(0, |due| due.since(lab.now()).as_secs());
        assert_eq!(view.status == Status::Delayed, wait > 0);
        waits.push(wait);
        lab.advance(secs(wait));
    }
    assert_eq!(waits, [0, 1, 2, 4, 8]);
}

pub fn work_that_lost_its_worker_too_often_fails(lab: &mut Lab) {
    let id = lab.submit(work().policy(policy(json!({ "max_reclaims": 2 }))));
    for reclaims in 1..=2 {
        lab.take(id);
        lab.advance(secs(30));
        assert_eq!(lab.get(id).reclaims, reclaims);
        lab.advance(secs(60));
    }
    lab.take(id);
    lab.advance(secs(30));
    let end = lab.end(id);
    assert_eq!((end.outcome, end.reason), (Outcome::Failed, EndReason::MaxReclaims));
    assert_eq!(end.by.as_deref(), Some("clock"));
    assert_eq!(lab.history(id).last(), Some(&EventKind::Failed));
    assert_eq!(lab.attempts(id).len(), 3);
}

pub fn work_may_lose_its_worker_ten_times_by_default(lab: &mut Lab) {
    let id = lab.submit(work());
    for _ in 0..10 {
        lab.take(id);
        lab.advance(secs(30));
        lab.advance(secs(60));
        assert_eq!(lab.status(id), Status::Waiting);
    }
    lab.take(id);
    lab.advance(secs(30));
    assert_eq!(lab.end(id).reason, EndReason::MaxReclaims);
}

pub fn work_that_may_not_lose_its_worker_fails_the_first_time(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "max_reclaims": 0 }))));
    lab.advance(secs(30));
    assert_eq!(lab.end(lease.id()).reason, EndReason::MaxReclaims);
}

pub fn a_workers_own_call_starts_the_count_of_lost_workers_anew(lab: &mut Lab) {
    let calls: [fn(&mut Lab, &Leased); 3] = [
        |lab, lease| lab.run(retry_after(lease, secs(0))),
        |lab, lease| lab.run(delay(lease, secs(0))),
        |lab, lease| lab.run(release(lease)),
    ];
    for (n, call) in calls.into_iter().enumerate() {
        let id = lab.submit(work().policy(policy(json!({ "max_reclaims": 1 }))));
        for _ in 0..3 {
            lab.take(id);
            lab.advance(secs(30));
            assert_eq!((lab.status(id), lab.get(id).reclaims), (Status::Waiting, 1), "call {n}");
            let lease = lab.take(id);
            call(lab, &lease);
            assert_eq!(lab.get(id).reclaims, 0, "call {n}");
        }
    }
}

pub fn renewing_alone_does_not_start_the_count_of_lost_workers_anew(lab: &mut Lab) {
    let id = lab.submit(work());
    for reclaims in 1..=2 {
        let lease = lab.take(id);
        lab.pass(secs(20));
        lab.ok(renew(&lease));
        lab.advance(secs(30));
        assert_eq!(lab.get(id).reclaims, reclaims);
    }
}

pub fn a_revoke_or_a_new_registration_is_not_a_lost_worker(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.take(id);
    lab.ok(RevokeLease::new(id));
    lab.take(id);
    lab.ok(RegisterWorker::new("pool", "w"));
    assert_eq!((lab.status(id), lab.get(id).reclaims), (Status::Waiting, 0));
}

pub fn a_renewed_lease_does_not_expire(lab: &mut Lab) {
    let lease = lab.lease(work());
    for _ in 0..10 {
        lab.advance(secs(29));
        lab.ok(renew(&lease));
    }
    assert_eq!(lab.get(lease.id()).attempt, 1);
    lab.ok(complete(&lease));
}

pub fn an_attempt_that_takes_too_long_is_retried(lab: &mut Lab) {
    let retry = json!({ "jitter": false });
    let limits = json!({ "attempt_timeout_ms": 40_000, "retry": retry });
    let lease = lab.lease(work().policy(policy(limits)));
    lab.advance(secs(20));
    lab.ok(renew(&lease));
    lab.advance(secs(19));
    lab.ok(renew(&lease));
    lab.advance(ms(999));
    assert_eq!(lab.status(lease.id()), Status::Active);
    lab.advance(ms(1));
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.retries, view.reclaims), (Status::Delayed, 1, 0));
    let retry_at = Some(lab.now() + secs(1));
    assert_eq!(view.due_at, retry_at);
    assert_eq!(lab.attempts(lease.id())[0].end, Some(LeaseEnd::TimedOut { retry_at }));
    let event = lab.events(of_kinds([EventKind::Retrying])).remove(0);
    assert_eq!(event.data.unwrap()["class"], "timeout");
}

pub fn attempts_that_take_too_long_use_the_retries_up(lab: &mut Lab) {
    let limits = json!({ "attempt_timeout_ms": 5000, "retry": { "max_retries": 1 } });
    let id = lab.submit(work().policy(policy(limits)));
    lab.take(id);
    lab.advance(secs(5));
    lab.advance(secs(1));
    lab.take(id);
    lab.advance(secs(5));
    let end = lab.end(id);
    assert_eq!((end.outcome, end.reason), (Outcome::Failed, EndReason::RetriesExhausted));
    assert_eq!(end.by.as_deref(), Some("clock"));
    assert!(end.message.unwrap().contains("5000 ms"));
}

pub fn a_policy_may_choose_not_to_retry_timeouts(lab: &mut Lab) {
    let retry = json!({ "retry_on": { "classes": ["transient"] } });
    let limits = json!({ "attempt_timeout_ms": 5000, "retry": retry });
    let lease = lab.lease(work().policy(policy(limits)));
    lab.advance(secs(5));
    assert_eq!(lab.end(lease.id()).reason, EndReason::NotRetryable);
}

pub fn each_claim_has_the_whole_attempt_timeout(lab: &mut Lab) {
    let id = lab.submit(work().policy(policy(json!({ "attempt_timeout_ms": 10_000 }))));
    let lease = lab.take(id);
    lab.advance(secs(9));
    lab.ok(release(&lease));
    let lease = lab.take(id);
    lab.advance(secs(9));
    lab.ok(complete(&lease));
}

pub fn nothing_sticks(lab: &mut Lab) {
    let limits = json!({
        "attempt_timeout_ms": 20_000,
        "retry": { "max_retries": 1 },
        "suspension": { "timeout_ms": 20_000 },
    });
    for status in open_states() {
        let id = lab.bring(status, work().policy(policy(limits.clone())));
        let before = lab.get(id);
        match status {
            Status::Waiting | Status::Resumable => assert_eq!(before.due_at, None),
            Status::RateLimited => {
                assert_eq!(before.limited_by, Some(by_budget("nothing")));
                lab.ok(UpdateBudget { budget: "nothing".into(), ..revise(tokens(1)) });
                assert_eq!(lab.status(id), Status::Waiting);
            }
            _ => {
                let due = before.due_at.expect("it names when time changes it");
                lab.advance(due.since(lab.now()));
                assert_ne!(lab.status(id), status, "{status} sticks");
            }
        }
        for _ in 0..20 {
            if lab.status(id).is_terminal() {
                break;
            }
            lab.advance(hours(1));
            if matches!(lab.status(id), Status::Waiting | Status::Resumable) {
                lab.take(id);
            }
        }
        assert_eq!(lab.status(id), Status::Failed, "{status} never ends");
    }
}

pub fn everything_that_is_due_is_done_slice_by_slice(lab: &mut Lab) {
    lab.submit_all((0..25).map(|_| work().delay(secs(5))));
    lab.submit_all((0..25).map(|_| work()));
    lab.claims(Claim { lease_ttl: secs(5), ..up_to(25) });
    lab.pass(secs(5));
    let mut slices = 0;
    loop {
        let ticked = lab.ok(Tick { slice: 10 });
        slices += 1;
        if !ticked.more {
            break;
        }
        assert!(ticked.done >= 10);
    }
    assert_eq!(slices, 5);
    assert_eq!(lab.counts().of(Status::Waiting), 50);
}

pub fn a_tick_says_when_the_next_one_is_due(lab: &mut Lab) {
    lab.submit(work().delay(secs(7)));
    lab.submit(work().delay(secs(9)));
    let ticked = lab.tick();
    assert_eq!((ticked.done, ticked.more), (0, false));
    assert_eq!(ticked.next_due, Some(lab.now() + secs(7)));
    lab.pass(secs(7));
    let ticked = lab.tick();
    assert_eq!((ticked.done, ticked.next_due), (1, Some(lab.now() + secs(2))));
}

pub fn a_tick_with_nothing_due_changes_nothing(lab: &mut Lab) {
    for status in STATES {
        lab.bring(status, work());
    }
    lab.tick();
    let before = lab.snapshot();
    lab.tick();
    assert_eq!(lab.snapshot(), before);
}

pub fn time_never_runs_backwards(lab: &mut Lab) {
    let lease = lab.lease(work());
    let now = lab.now();
    lab.set_clock(now.before(hours(1)));
    assert_eq!(lab.see(GetAbout {}).now, now);
    let id = lab.submit(work());
    assert_eq!(lab.get(id).created_at, now);
    let Renewal::Renewed { expires_at, .. } = lab.ok(renew(&lease)).leases[0] else {
        panic!("the lease is held");
    };
    assert_eq!(expires_at, now + secs(30));
    lab.reopen();
    assert_eq!(lab.see(GetAbout {}).now, now);
}

pub fn a_clock_that_jumps_far_ahead_still_does_everything_once(lab: &mut Lab) {
    let sleeper = lab.submit(work().delay(secs(1)));
    let lease = lab.lease(work());
    let doomed = lab.submit(work().deadline_at(lab.now() + secs(1)));
    lab.ok(RegisterWorker::new("pool", "i"));
    lab.advance(days(3));
    assert_eq!(lab.status(sleeper), Status::Waiting);
    assert_eq!((lab.status(lease.id()), lab.get(lease.id()).reclaims), (Status::Waiting, 1));
    assert_eq!(lab.status(doomed), Status::Expired);
    assert!(lab.workers().is_empty());
}
