//! Running ended work again.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

pub fn work_that_ended_in_any_way_can_be_replayed(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        let expected = Replayed { status: Status::Waiting, run: 2 };
        assert_eq!(lab.ok(replay(id)), expected, "{status}");
        let lease = lab.claim("w");
        assert_eq!((lease.id(), lease.run), (id, 2));
        lab.ok(complete(&lease));
        assert_eq!(lab.status(id), Status::Completed);
    }
}

pub fn only_ended_work_can_be_replayed(lab: &mut Lab) {
    for status in open_states() {
        let id = lab.bring(status, work());
        let error = lab.refused(replay(id));
        assert_eq!(error.code(), Code::WrongState);
        assert!(error.message().contains(status.as_str()), "{error}");
    }
}

pub fn work_is_replayed_as_often_as_its_policy_allows(lab: &mut Lab) {
    let limited = |max: u32| work().policy(policy(json!({ "max_replays": max })));
    for max in [0, 1, 3] {
        let id = lab.bring(Status::Failed, limited(max));
        for run in 2..max + 2 {
            assert_eq!(lab.ok(replay(id)).run, run);
            lab.ok(Cancel::new(id));
        }
        let error = lab.refused(replay(id));
        assert_eq!(error.code(), Code::WrongState);
        assert!(error.message().contains(&format!("{max} times")), "{error}");
    }
    let usual = lab.bring(Status::Failed, work());
    for _ in 0..10 {
        lab.ok(replay(usual));
        lab.ok(Cancel::new(usual));
    }
    lab.refused(replay(usual));
}

pub fn a_new_run_begins_with_nothing_used(lab: &mut Lab) {
    let id = lab.submit(work().policy(policy(json!({ "max_reclaims": 2 }))));
    let lease = lab.take(id);
    lab.ok(progress(&lease));
    lab.ok(retry_after(&lease, secs(0)));
    lab.take(id);
    lab.advance(secs(30));
    lab.take(id);
    lab.advance(secs(30));
    let before = lab.get(id);
    assert_eq!((before.retries, before.reclaims), (1, 2));
    lab.ok(Cancel::new(id));
    lab.ok(replay(id));
    let view = lab.get(id);
    assert_eq!((view.retries, view.reclaims, view.run), (0, 0, 2));
    assert_eq!((view.progress, view.end), (None, None));
    let lease = lab.take(id);
    assert_eq!((lease.retries, lease.run), (0, 2));
}

pub fn a_replay_forgets_the_result(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(Complete { result: Payload::bytes("old"), ..complete(&lease) });
    lab.ok(replay(lease.id()));
    assert_eq!(lab.see(result_of(lease.id())).result, None);
    let lease = lab.claim("w");
    lab.ok(complete(&lease));
    assert_eq!(lab.see(result_of(lease.id())).result, Some(Payload::default()));
}

pub fn attempts_are_numbered_on_through_replays(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(retry_after(&lease, secs(0)));
    let lease = lab.claim("w");
    lab.ok(complete(&lease));
    lab.ok(replay(lease.id()));
    let lease = lab.claim("w");
    assert_eq!(lease.attempt, 3);
    lab.ok(complete(&lease));
    let attempts = lab.attempts(lease.id());
    let short: Vec<_> = attempts.iter().map(|one| (one.run, one.attempt)).collect();
    assert_eq!(short, [(1, 1), (1, 2), (2, 3)]);
}

pub fn a_replay_begins_a_new_attempt_although_the_old_one_slept(lab: &mut Lab) {
    let id = lab.bring(Status::Resumable, work());
    lab.ok(Cancel::new(id));
    lab.ok(replay(id));
    let lease = lab.claim("w");
    assert_eq!((lease.attempt, lease.resumed), (2, false));
}

pub fn every_replay_has_as_much_time_as_the_first_run(lab: &mut Lab) {
    let from_policy = lab.submit(work().policy(policy(json!({ "deadline_ms": 100_000 }))));
    let absolute = lab.submit(work().deadline_at(lab.now() + secs(100)));
    for id in [from_policy, absolute] {
        for _ in 0..3 {
            lab.advance(hours(1));
            assert_eq!(lab.status(id), Status::Expired);
            lab.ok(replay(id));
            assert_eq!(lab.get(id).deadline_at, Some(lab.now() + secs(100)));
        }
        lab.ok(Cancel::new(id));
    }
}

pub fn each_run_that_ended_has_one_terminal_event(lab: &mut Lab) {
    let id = lab.bring(Status::Completed, work());
    lab.ok(replay(id));
    lab.ok(Cancel::new(id));
    lab.ok(replay(id));
    let lease = lab.take(id);
    lab.ok(fail(&lease, Failure::permanent("x")));
    lab.ok(fail(&lease, Failure::permanent("x")));
    let ends: Vec<_> = lab.history(id).into_iter().filter(|kind| kind.is_terminal()).collect();
    assert_eq!(ends, [EventKind::Completed, EventKind::Cancelled, EventKind::Failed]);
}

pub fn a_replay_is_told_with_what_it_follows(lab: &mut Lab) {
    let id = lab.bring(Status::Failed, work());
    lab.ok(replay(id));
    let event = lab.events(of_kinds([EventKind::Replayed])).remove(0);
    assert_eq!(event.data, Some(json!({ "ended": "failed", "run": 2 })));
}

pub fn replayed_work_is_not_removed_by_the_retention_of_its_former_end(lab: &mut Lab) {
    let id = lab.bring(Status::Completed, work().policy(policy(json!({ "retention_ms": 5000 }))));
    lab.ok(replay(id));
    lab.advance(days(30));
    assert_eq!(lab.status(id), Status::Waiting);
}
