//! What an operator does to one execution: priority, hold, revoke.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

pub fn a_changed_priority_changes_the_order(lab: &mut Lab) {
    let ids = lab.submit_all((0..3).map(|_| work()));
    assert_eq!(lab.ok(prioritise(ids[2], 2000)), PriorityChanged { before: 1000 });
    lab.ok(prioritise(ids[0], 10));
    assert_eq!(lab.claimed_ids(up_to(1000)), [ids[2], ids[1], ids[0]]);
}

pub fn a_priority_changed_back_gives_the_old_place_back(lab: &mut Lab) {
    let ids = lab.submit_all((0..3).map(|_| work()));
    lab.ok(prioritise(ids[0], 0));
    lab.ok(prioritise(ids[0], 1000));
    assert_eq!(lab.claimed_ids(up_to(1000)), ids);
}

pub fn a_priority_can_be_changed_in_every_open_state_and_counts_afterwards(lab: &mut Lab) {
    for status in open_states() {
        let id = lab.bring(status, work());
        lab.ok(prioritise(id, 8000));
        let view = lab.get(id);
        assert_eq!((view.status, view.priority), (status, 8000));
        lab.ok(force_cancel(id));
    }
    let ordinary = lab.submit(work());
    let lease = lab.lease(work());
    lab.ok(prioritise(lease.id(), 8000));
    lab.ok(release(&lease));
    assert_eq!(lab.claimed_ids(up_to(1000)), [lease.id(), ordinary]);
}

pub fn a_priority_that_stays_the_same_is_no_change(lab: &mut Lab) {
    let id = lab.submit(work());
    let before = lab.snapshot();
    assert_eq!(lab.ok(prioritise(id, 1000)), PriorityChanged { before: 1000 });
    assert_eq!(lab.snapshot(), before);
}

pub fn the_priority_of_ended_work_can_not_be_changed(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        assert_eq!(lab.refused(prioritise(id, 1)).code(), Code::AlreadyTerminal);
    }
}

pub fn a_change_of_priority_is_told_with_both_values(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.ok(prioritise(id, 5));
    let event = lab.events(of_kinds([EventKind::PriorityChanged])).remove(0);
    let data = event.data.unwrap();
    assert_eq!((&data["before"], &data["priority"]), (&1000.into(), &5.into()));
}

pub fn held_work_is_not_claimable_and_comes_back_unchanged(lab: &mut Lab) {
    for status in [Status::Waiting, Status::Resumable, Status::Delayed] {
        let id = lab.bring(status, work());
        let before = lab.get(id);
        assert_eq!(lab.ok(hold(id)), HoldOutcome::Done);
        assert_eq!((lab.status(id), lab.get(id).held), (status, true));
        assert!(lab.nothing_to_claim());
        assert_eq!(lab.ok(unhold(id)), HoldOutcome::Done);
        assert_eq!(lab.get(id), before);
        lab.ok(Cancel::new(id));
    }
}

pub fn time_goes_on_for_held_work(lab: &mut Lab) {
    let sleeper = lab.submit(work().delay(secs(10)));
    let doomed = lab.submit(work().deadline_at(lab.now() + secs(20)));
    lab.ok(hold(sleeper));
    lab.ok(hold(doomed));
    lab.advance(secs(10));
    assert_eq!((lab.status(sleeper), lab.get(sleeper).held), (Status::Waiting, true));
    lab.advance(secs(10));
    assert_eq!((lab.status(doomed), lab.get(doomed).held), (Status::Expired, false));
}

pub fn holding_twice_is_holding_once(lab: &mut Lab) {
    let id = lab.submit(work());
    assert_eq!(lab.ok(unhold(id)), HoldOutcome::Already);
    lab.ok(hold(id));
    let before = lab.snapshot();
    assert_eq!(lab.ok(hold(id)), HoldOutcome::Already);
    assert_eq!(lab.snapshot(), before);
    lab.ok(unhold(id));
    use EventKind::{Held, Submitted, Unheld};
    assert_eq!(lab.history(id), [Submitted, Held, Unheld]);
}

pub fn active_work_can_not_be_held(lab: &mut Lab) {
    let id = lab.bring(Status::Active, work());
    let error = lab.refused(hold(id));
    assert_eq!(error.code(), Code::WrongState);
    assert!(error.message().contains("revoke"), "{error}");
}

pub fn ended_work_can_neither_be_held_nor_unheld(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        assert_eq!(lab.refused(hold(id)).code(), Code::AlreadyTerminal);
        assert_eq!(lab.refused(unhold(id)).code(), Code::AlreadyTerminal);
    }
}

pub fn revoked_work_is_claimable_at_once(lab: &mut Lab) {
    let lease = lab.lease(work());
    let outcome = lab.ok(RevokeLease::new(lease.id()));
    let status = Status::Waiting;
    assert_eq!(outcome, RevokeOutcome::Revoked { worker: "w".into(), status });
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.retries, view.reclaims), (status, 0, 0));
    assert_eq!(lab.claim("other").attempt, 2);
}

pub fn a_revoke_may_expect_a_worker(lab: &mut Lab) {
    let lease = lab.lease(work());
    let expect =
        |worker: &str| RevokeLease { worker: Some(worker.into()), ..RevokeLease::new(lease.id()) };
    let before = lab.snapshot();
    let why = NothingToRevoke::OtherWorker { worker: "w".into() };
    assert_eq!(lab.ok(expect("other")), RevokeOutcome::NothingToRevoke { why });
    assert_eq!(lab.snapshot(), before);
    assert!(matches!(lab.ok(expect("w")), RevokeOutcome::Revoked { .. }));
}

pub fn a_revoke_may_expect_a_lease(lab: &mut Lab) {
    let old = lab.lease(work());
    lab.ok(release(&old));
    let new = lab.take(old.id());
    let expect = |lease: &Leased| RevokeLease {
        epoch: Some(lease.lease.epoch),
        ..RevokeLease::new(lease.id())
    };
    let why = NothingToRevoke::OtherLease { epoch: new.lease.epoch };
    assert_eq!(lab.ok(expect(&old)), RevokeOutcome::NothingToRevoke { why });
    lab.ok(progress(&new));
    assert!(matches!(lab.ok(expect(&new)), RevokeOutcome::Revoked { .. }));
}

pub fn what_nobody_owns_can_not_be_revoked(lab: &mut Lab) {
    for status in STATES {
        if matches!(status, Status::Active | Status::Granted) {
            continue;
        }
        let id = lab.bring(status, work());
        let before = lab.snapshot();
        let why = NothingToRevoke::NotOwned { status };
        assert_eq!(lab.ok(RevokeLease::new(id)), RevokeOutcome::NothingToRevoke { why });
        assert_eq!(lab.snapshot(), before);
    }
}

pub fn a_revoke_is_told_with_who_and_why(lab: &mut Lab) {
    let lease = lab.lease(work());
    let reason = Some("stuck".into());
    lab.ok(RevokeLease { reason, by: "ann".into(), ..RevokeLease::new(lease.id()) });
    let event = lab.events(of_kinds([EventKind::Revoked])).remove(0);
    assert_eq!(event.worker.as_deref(), Some("w"));
    let data = event.data.unwrap();
    assert_eq!((&data["reason"], &data["by"]), (&"stuck".into(), &"ann".into()));
}

pub fn what_does_not_exist_is_not_found(lab: &mut Lab) {
    lab.submit(work());
    let nobody = id(1);
    assert_eq!(lab.refused(prioritise(nobody, 1)).code(), Code::NotFound);
    assert_eq!(lab.refused(hold(nobody)).code(), Code::NotFound);
    assert_eq!(lab.refused(unhold(nobody)).code(), Code::NotFound);
    assert_eq!(lab.refused(RevokeLease::new(nobody)).code(), Code::NotFound);
    assert_eq!(lab.refused(replay(nobody)).code(), Code::NotFound);
    assert_eq!(lab.refused(delete(nobody)).code(), Code::NotFound);
    assert_eq!(lab.refused(set_tags(nobody, [])).code(), Code::NotFound);
}
