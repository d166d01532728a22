//! Stopping work.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

/// A lease whose holder was asked to stop.
fn asked_to_stop(lab: &mut Lab) -> Leased {
    let lease = lab.lease(work());
    lab.ok(Cancel { reason: Some("too dear".into()), by: "ann".into(), ..Cancel::new(lease.id()) });
    lease
}

#[track_caller]
fn is_cancelled_by_ann(lab: &mut Lab, id: ExecutionId, acknowledged: bool) {
    assert_eq!(
        lab.end(id),
        End {
            outcome: Outcome::Cancelled,
            reason: EndReason::Cancelled,
            message: Some("too dear".into()),
            by: Some("ann".into()),
        }
    );
    let last = lab.attempts(id).pop().unwrap();
    assert_eq!(last.end, Some(LeaseEnd::Cancelled { acknowledged }));
    let events = lab.history(id);
    assert_eq!(events.iter().filter(|kind| kind.is_terminal()).count(), 1);
}

pub fn work_that_nobody_does_is_cancelled_at_once(lab: &mut Lab) {
    for status in open_states().filter(|status| *status != Status::Active) {
        let id = lab.bring(status, work());
        assert_eq!(lab.ok(Cancel::new(id)), CancelOutcome::Cancelled, "{status}");
        assert_eq!(lab.status(id), Status::Cancelled);
        lab.advance(hours(2));
        assert_eq!(lab.status(id), Status::Cancelled);
    }
    assert!(lab.nothing_to_claim());
}

pub fn held_work_is_cancelled_at_once_and_held_no_more(lab: &mut Lab) {
    let id = lab.submit(work().hold());
    lab.ok(Cancel::new(id));
    assert_eq!((lab.status(id), lab.get(id).held), (Status::Cancelled, false));
}

pub fn a_worker_sees_the_request_when_it_renews(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    let asked_at = lab.now();
    let request = CancelRequest {
        reason: Some("too dear".into()),
        by: "ann".into(),
        requested_at: asked_at,
        force_at: asked_at + secs(30),
    };
    assert_eq!(lab.status(lease.id()), Status::Active);
    assert_eq!(lab.get(lease.id()).cancel, Some(request.clone()));
    lab.pass(secs(1));
    let Renewal::Renewed { cancel, .. } = lab.ok(renew(&lease)).leases.remove(0) else {
        panic!("the lease is still held");
    };
    assert_eq!(cancel, Some(request));
}

pub fn a_cancel_is_honoured_by_an_acknowledgement(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    assert_eq!(lab.ok(acknowledge(&lease)).status, Status::Cancelled);
    is_cancelled_by_ann(lab, lease.id(), true);
}

pub fn a_cancel_is_honoured_by_a_failure(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    let outcome = lab.ok(fail(&lease, Failure::transient("interrupted")));
    assert_eq!(outcome, FailOutcome::Cancelled);
    is_cancelled_by_ann(lab, lease.id(), true);
}

pub fn a_cancel_is_honoured_by_a_release(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    assert_eq!(lab.ok(release(&lease)), ReleaseOutcome::Cancelled);
    is_cancelled_by_ann(lab, lease.id(), true);
}

pub fn a_cancel_is_honoured_by_a_sleep(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    assert_eq!(lab.ok(delay(&lease, hours(1))), DelayOutcome::Cancelled);
    is_cancelled_by_ann(lab, lease.id(), true);
}

pub fn a_cancel_is_forced_after_its_grace(lab: &mut Lab) {
    let lease = lab.lease(work());
    let cancel = Cancel {
        grace: secs(5),
        reason: Some("too dear".into()),
        by: "ann".into(),
        ..Cancel::new(lease.id())
    };
    let force_at = lab.now() + secs(5);
    assert_eq!(lab.ok(cancel), CancelOutcome::Cancelling { force_at });
    lab.advance(ms(4999));
    assert_eq!(lab.status(lease.id()), Status::Active);
    lab.advance(ms(1));
    is_cancelled_by_ann(lab, lease.id(), false);
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Cancelled);
}

pub fn renewing_does_not_put_the_grace_off(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    for _ in 0..3 {
        lab.advance(secs(9));
        lab.ok(renew(&lease));
    }
    lab.advance(secs(3));
    is_cancelled_by_ann(lab, lease.id(), false);
}

pub fn a_cancel_is_done_when_the_lease_ends(lab: &mut Lab) {
    let lease = lab.lease(work());
    let cancel = Cancel { grace: hours(1), ..Cancel::new(lease.id()) };
    lab.ok(Cancel { reason: Some("too dear".into()), by: "ann".into(), ..cancel });
    lab.advance(secs(30));
    is_cancelled_by_ann(lab, lease.id(), false);
}

pub fn a_cancel_is_done_when_the_attempt_times_out(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "attempt_timeout_ms": 5000 }))));
    let cancel = Cancel { reason: Some("too dear".into()), ..Cancel::new(lease.id()) };
    lab.ok(Cancel { by: "ann".into(), ..cancel });
    lab.advance(secs(5));
    is_cancelled_by_ann(lab, lease.id(), false);
}

pub fn a_cancel_is_done_when_the_lease_is_revoked(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    let revoked = lab.ok(RevokeLease::new(lease.id()));
    let status = Status::Cancelled;
    assert_eq!(revoked, RevokeOutcome::Revoked { worker: "w".into(), status });
    is_cancelled_by_ann(lab, lease.id(), false);
}

pub fn a_cancel_is_done_when_the_worker_is_gone(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    let lease = asked_to_stop(lab);
    lab.ok(mark_dead("w"));
    is_cancelled_by_ann(lab, lease.id(), false);
}

pub fn a_forced_cancel_does_not_wait(lab: &mut Lab) {
    let forced = lab.lease(work());
    assert_eq!(lab.ok(force_cancel(forced.id())), CancelOutcome::Cancelled);
    let no_grace = lab.lease(work());
    let cancel = Cancel { grace: secs(0), ..Cancel::new(no_grace.id()) };
    assert_eq!(lab.ok(cancel), CancelOutcome::Cancelled);
    for lease in [forced, no_grace] {
        assert_eq!(lab.status(lease.id()), Status::Cancelled);
        assert_eq!(lab.lost(complete(&lease)), LeaseLost::Cancelled);
    }
}

pub fn force_may_follow_a_request(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    assert_eq!(lab.ok(force_cancel(lease.id())), CancelOutcome::Cancelled);
    assert_eq!(lab.status(lease.id()), Status::Cancelled);
}

pub fn complete_wins_over_a_requested_cancel(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    let result = Payload::bytes("done anyway");
    lab.ok(Complete { result: result.clone(), ..complete(&lease) });
    assert_eq!(lab.status(lease.id()), Status::Completed);
    assert_eq!(lab.see(result_of(lease.id())).result, Some(result));
}

pub fn cancelling_twice_is_cancelling_once(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.ok(Cancel::new(id));
    let before = lab.snapshot();
    assert_eq!(lab.ok(Cancel::new(id)), CancelOutcome::Cancelled);
    assert_eq!(lab.ok(force_cancel(id)), CancelOutcome::Cancelled);
    assert_eq!(lab.snapshot(), before);
}

pub fn asking_twice_keeps_the_first_request(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    let force_at = lab.now() + secs(30);
    lab.pass(secs(10));
    let before = lab.snapshot();
    let again = Cancel { reason: Some("other".into()), ..Cancel::new(lease.id()) };
    assert_eq!(lab.ok(again), CancelOutcome::Cancelling { force_at });
    assert_eq!(lab.snapshot(), before);
}

pub fn what_ended_otherwise_is_already_terminal(lab: &mut Lab) {
    for status in ended_states().filter(|status| *status != Status::Cancelled) {
        let id = lab.bring(status, work());
        for cancel in [Cancel::new(id), force_cancel(id)] {
            let error = lab.refused(cancel);
            assert_eq!(error.code(), Code::AlreadyTerminal);
            assert_eq!(error.details().unwrap()["status"], status.as_str());
        }
    }
}

pub fn a_worker_may_cancel_its_own_work(lab: &mut Lab) {
    let lease = lab.lease(work());
    let stop = AcknowledgeCancel { reason: Some("pointless".into()), ..acknowledge(&lease) };
    assert_eq!(lab.ok(stop).status, Status::Cancelled);
    let end = lab.end(lease.id());
    assert_eq!((end.message.as_deref(), end.by.as_deref()), (Some("pointless"), Some("w")));
}

pub fn cancelling_nothing_is_not_found(lab: &mut Lab) {
    lab.submit(work());
    assert_eq!(lab.refused(Cancel::new(id(1))).code(), Code::NotFound);
}

pub fn a_request_to_stop_is_told_before_the_end(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    lab.ok(acknowledge(&lease));
    use EventKind::{CancelRequested, Cancelled, Claimed, Submitted};
    assert_eq!(lab.history(lease.id()), [Submitted, Claimed, CancelRequested, Cancelled]);
}

pub fn a_request_to_stop_survives_a_restart(lab: &mut Lab) {
    let lease = asked_to_stop(lab);
    lab.reopen();
    lab.advance(secs(30));
    is_cancelled_by_ann(lab, lease.id(), false);
}
