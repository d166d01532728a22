//! Who may write: the holder of the current lease, and nobody else.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const CALLS: [&str; 10] = [
    "renew",
    "progress",
    "record_step",
    "create_waitpoint",
    "complete",
    "fail",
    "delay",
    "release",
    "suspend",
    "acknowledge",
];

/// Makes a worker's call; tells why the lease is lost, or that the call was accepted.
fn call(lab: &mut Lab, name: &str, lease: &Leased) -> Option<LeaseLost> {
    let refusal = match name {
        "renew" => {
            return match lab.ok(renew(lease)).leases[0] {
                Renewal::Renewed { .. } => None,
                Renewal::Lost { why } => Some(why),
            };
        }
        "progress" => lab.apply(progress(lease)).err(),
        "record_step" => lab.apply(record_step(lease, "late", "")).err(),
        "create_waitpoint" => lab.apply(create_waitpoint(lease, "late")).err(),
        "complete" => lab.apply(complete(lease)).err(),
        "fail" => lab.apply(fail(lease, Failure::transient("late"))).err(),
        "delay" => lab.apply(delay(lease, secs(1))).err(),
        "release" => lab.apply(release(lease)).err(),
        "suspend" => lab.apply(suspend(lease, Condition::at("late"))).err(),
        "acknowledge" => lab.apply(acknowledge(lease)).err(),
        other => panic!("{other} is not a call"),
    };
    refusal.map(|error| error.why_lease_lost().unwrap_or_else(|| panic!("{name}: {error}")))
}

#[track_caller]
fn can_do_nothing(lab: &mut Lab, lease: &Leased, why: LeaseLost) {
    can_only_repeat(lab, lease, "nothing", why);
}

#[track_caller]
fn can_only_repeat(lab: &mut Lab, lease: &Leased, repeatable: &str, why: LeaseLost) {
    let before = lab.snapshot();
    for name in CALLS {
        let expected = (name != repeatable).then_some(why);
        assert_eq!(call(lab, name, lease), expected, "{name}");
        assert_eq!(lab.snapshot(), before, "{name} changed something");
    }
}

pub fn an_expired_lease_can_do_nothing_even_before_the_clock_noticed(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.pass(secs(30));
    can_do_nothing(lab, &lease, LeaseLost::Expired);
}

pub fn an_expired_lease_can_do_nothing_after_its_work_was_taken_up(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.advance(secs(30));
    can_do_nothing(lab, &lease, LeaseLost::Expired);
    lab.take(lease.id());
    can_do_nothing(lab, &lease, LeaseLost::Expired);
}

pub fn a_lease_is_held_until_the_last_millisecond(lab: &mut Lab) {
    for name in CALLS {
        let lease = lab.lease(work());
        lab.pass(secs(30) - ms(1));
        assert_eq!(call(lab, name, &lease), None, "{name}");
    }
}

pub fn a_revoked_lease_can_do_nothing(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(RevokeLease::new(lease.id()));
    can_do_nothing(lab, &lease, LeaseLost::Revoked);
    lab.take(lease.id());
    can_do_nothing(lab, &lease, LeaseLost::Revoked);
}

pub fn the_lease_of_cancelled_work_can_do_nothing(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(force_cancel(lease.id()));
    can_do_nothing(lab, &lease, LeaseLost::Cancelled);
}

pub fn a_lease_from_before_its_worker_registered_again_can_do_nothing(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    let lease = lab.lease(work());
    lab.pass(ms(1));
    lab.ok(RegisterWorker::new("pool", "w"));
    can_do_nothing(lab, &lease, LeaseLost::Superseded);
    lab.take(lease.id());
    can_do_nothing(lab, &lease, LeaseLost::Superseded);
}

pub fn the_lease_of_expired_work_can_do_nothing(lab: &mut Lab) {
    let lease = lab.lease(work().deadline_at(lab.now() + secs(5)));
    lab.advance(secs(5));
    can_do_nothing(lab, &lease, LeaseLost::Expired);
}

pub fn the_lease_of_a_timed_out_attempt_can_do_nothing(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "attempt_timeout_ms": 5000 }))));
    lab.advance(secs(5));
    can_do_nothing(lab, &lease, LeaseLost::Expired);
}

pub fn a_lease_that_completed_can_only_repeat_that(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(complete(&lease));
    can_only_repeat(lab, &lease, "complete", LeaseLost::Finished);
}

pub fn a_lease_that_failed_can_only_repeat_that(lab: &mut Lab) {
    let retried = lab.lease(work());
    lab.ok(fail(&retried, Failure::transient("x")));
    can_only_repeat(lab, &retried, "fail", LeaseLost::Finished);
    let failed = lab.lease(work());
    lab.ok(fail(&failed, Failure::permanent("x")));
    can_only_repeat(lab, &failed, "fail", LeaseLost::Finished);
}

pub fn a_lease_that_slept_can_only_repeat_that(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(delay(&lease, secs(9)));
    can_only_repeat(lab, &lease, "delay", LeaseLost::Finished);
    lab.advance(secs(9));
    lab.take(lease.id());
    can_only_repeat(lab, &lease, "delay", LeaseLost::Finished);
}

pub fn a_lease_that_was_suspended_can_only_repeat_that(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(suspend(&lease, Condition::at("late")));
    can_only_repeat(lab, &lease, "suspend", LeaseLost::Finished);
    lab.ok(signal_at(lease.id(), "late", "go"));
    can_only_repeat(lab, &lease, "suspend", LeaseLost::Finished);
    lab.take(lease.id());
    can_only_repeat(lab, &lease, "suspend", LeaseLost::Finished);
}

pub fn a_lease_that_was_given_back_can_only_repeat_that(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(release(&lease));
    can_only_repeat(lab, &lease, "release", LeaseLost::Finished);
}

pub fn a_wrong_secret_is_refused_whatever_the_state(lab: &mut Lab) {
    let mut lease = lab.lease(work());
    let right = lease.clone();
    lease.lease.secret = Secret::new([0; 16]);
    can_do_nothing(lab, &lease, LeaseLost::Superseded);
    lab.ok(complete(&right));
    can_do_nothing(lab, &lease, LeaseLost::Superseded);
}

pub fn a_forged_epoch_is_refused(lab: &mut Lab) {
    let id = lab.submit(work());
    let past = lab.take(id);
    lab.ok(release(&past));
    let lease = lab.take(id);
    let epoch = lease.lease.epoch.0;
    for forged in [0, past.lease.epoch.0, epoch - 1, epoch + 1, u64::MAX >> 1] {
        let mut lease = lease.clone();
        lease.lease.epoch = Epoch(forged);
        can_do_nothing(lab, &lease, LeaseLost::Superseded);
    }
    lab.ok(complete(&lease));
}

pub fn a_lease_of_an_earlier_attempt_can_not_finish_a_later_one(lab: &mut Lab) {
    let first = lab.lease(work());
    lab.ok(retry_after(&first, secs(0)));
    let second = lab.take(first.id());
    assert_eq!(second.attempt, 2);
    can_only_repeat(lab, &first, "fail", LeaseLost::Finished);
    lab.ok(complete(&second));
    can_only_repeat(lab, &first, "fail", LeaseLost::Finished);
}

pub fn a_lease_is_unknown_in_another_namespace(lab: &mut Lab) {
    let lease = lab.lease(work());
    let there = Submit { namespace: "there".into(), executions: vec![work()] };
    lab.ok(there);
    let error = lab.refused(Complete { namespace: "there".into(), ..complete(&lease) });
    assert_eq!(error.code(), Code::NotFound);
    let renewal = lab.ok(Renew { namespace: "there".into(), ..renew(&lease) }).leases;
    assert_eq!(renewal, [Renewal::Lost { why: LeaseLost::Superseded }]);
    lab.ok(complete(&lease));
}

/// Moves an execution on as far as it goes after `lease` ended it or its attempt.
fn move_on(lab: &mut Lab, id: ExecutionId, mut look: impl FnMut(&mut Lab)) {
    look(lab);
    if !lab.status(id).is_terminal() {
        lab.advance(hours(1));
        let other = lab.take(id);
        look(lab);
        lab.ok(complete(&other));
        look(lab);
    }
    lab.ok(replay(id));
    look(lab);
    let last = lab.take(id);
    look(lab);
    lab.ok(fail(&last, Failure::permanent("no")));
    lab.reopen();
    look(lab);
}

pub fn a_repeated_complete_is_answered_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert!(!lab.ok(complete(&lease)).repeated);
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert!(lab.ok(complete(&lease)).repeated);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn a_repeated_fail_returns_the_first_retry_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(fail(&lease, Failure::transient("first")));
    assert!(matches!(first, FailOutcome::Retry { .. }));
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(fail(&lease, Failure::permanent("second"))), first);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn a_repeated_fail_returns_the_first_verdict_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(fail(&lease, Failure::permanent("first")));
    assert_eq!(first, FailOutcome::Failed { reason: EndReason::Permanent });
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(retry_after(&lease, secs(1))), first);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn a_repeated_delay_returns_the_first_time_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(delay(&lease, secs(5)));
    assert_eq!(first, DelayOutcome::Delayed { until: lab.now() + secs(5) });
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(delay(&lease, hours(5))), first);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn a_repeated_release_is_answered_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(release(&lease));
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(release(&lease)), ReleaseOutcome::Released);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn a_repeated_acknowledgement_is_answered_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(Cancel::new(lease.id()));
    lab.ok(acknowledge(&lease));
    move_on(lab, lease.id(), |lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(acknowledge(&lease)).status, Status::Cancelled);
        assert_eq!(lab.ok(fail(&lease, Failure::transient("x"))), FailOutcome::Cancelled);
        assert_eq!(lab.snapshot(), before);
    });
}

pub fn the_first_result_wins(lab: &mut Lab) {
    let lease = lab.lease(work());
    let with = |text: &str| Complete { result: Payload::bytes(text), ..complete(&lease) };
    lab.ok(with("first"));
    assert!(lab.ok(with("second")).repeated);
    assert_eq!(lab.see(result_of(lease.id())).result, Some(Payload::bytes("first")));
}

pub fn every_change_of_owner_raises_the_epoch(lab: &mut Lab) {
    let id = lab.submit(work().policy(policy(json!({ "max_reclaims": 100 }))));
    let mut last = Epoch(0);
    let mut rises = |lab: &mut Lab, what: &str| {
        let epoch = lab.get(id).epoch;
        assert!(epoch > last, "{what} left the epoch at {epoch}");
        last = epoch;
    };
    let lease = lab.take(id);
    rises(lab, "claim");
    lab.advance(secs(30));
    rises(lab, "expiry");
    lab.take(id);
    rises(lab, "claim");
    lab.ok(RevokeLease::new(id));
    rises(lab, "revoke");
    for end in ["release", "delay", "fail"] {
        let lease = lab.take(id);
        rises(lab, "claim");
        assert_eq!(call(lab, end, &lease), None);
        rises(lab, end);
        lab.advance(secs(60));
    }
    let granted = lab.reserve(id);
    rises(lab, "grant");
    lab.ok(redeem(&granted));
    rises(lab, "redeem");
    lab.ok(RegisterWorker::new("pool", "w"));
    rises(lab, "registration");
    for _ in 0..2 {
        let lease = lab.take(id);
        rises(lab, "claim");
        lab.ok(complete(&lease));
        rises(lab, "complete");
        lab.ok(replay(id));
        rises(lab, "replay");
        lab.ok(Cancel::new(id));
        rises(lab, "cancel");
        lab.ok(replay(id));
        rises(lab, "replay");
    }
    assert_eq!(call(lab, "complete", &lease), Some(LeaseLost::Expired));
}

pub fn a_renewal_prolongs_the_lease_from_now(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.pass(secs(20));
    let expires_at = lab.now() + secs(30);
    let renewed = lab.ok(renew(&lease)).leases;
    assert_eq!(renewed, [Renewal::Renewed { expires_at, cancel: None, pause: None }]);
    lab.advance(secs(29));
    assert_eq!(lab.get(lease.id()).owned_until, Some(expires_at));
    lab.ok(complete(&lease));
}

pub fn a_renewal_may_change_how_long_the_lease_lasts(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(Renew { ttl: Some(secs(5)), ..renew(&lease) });
    assert_eq!(lab.get(lease.id()).owned_until, Some(lab.now() + secs(5)));
    lab.pass(secs(1));
    lab.ok(renew(&lease));
    assert_eq!(lab.get(lease.id()).owned_until, Some(lab.now() + secs(5)));
}

pub fn renewals_are_answered_one_by_one_in_their_order(lab: &mut Lab) {
    let gone = lab.lease(work());
    lab.ok(complete(&gone));
    let revoked = lab.lease(work());
    lab.ok(RevokeLease::new(revoked.id()));
    let cancelled = lab.lease(work());
    lab.ok(Cancel::new(cancelled.id()));
    let mut unknown = lab.lease(work());
    unknown.lease.execution = id(404);
    let live = lab.lease(work());
    let leases = [&gone, &live, &revoked, &cancelled, &unknown].map(|one| one.lease.clone());
    let answers = lab.ok(Renew { leases: leases.into(), ..renew(&live) }).leases;
    let short: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Renewal::Renewed { cancel, .. } => Ok(cancel.is_some()),
            Renewal::Lost { why } => Err(*why),
        })
        .collect();
    use LeaseLost::{Finished, Revoked, Superseded};
    assert_eq!(short, [Err(Finished), Ok(false), Err(Revoked), Ok(true), Err(Superseded)]);
}

pub fn progress_is_merged_and_seen(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert_eq!(lab.get(lease.id()).progress, None);
    let none = ReportProgress { percent: None, ..progress(&lease) };
    lab.ok(none.clone());
    assert_eq!(lab.get(lease.id()).progress, None);
    lab.ok(progress(&lease));
    lab.pass(secs(1));
    lab.ok(ReportProgress { message: Some("half way".into()), ..none.clone() });
    let seen = lab.get(lease.id()).progress.unwrap();
    assert_eq!((seen.percent, seen.message.as_deref()), (Some(50), Some("half way")));
    assert_eq!(seen.at, lab.now());
    lab.ok(none);
    assert_eq!(lab.get(lease.id()).progress, Some(seen));
}

pub fn a_late_call_about_removed_work_is_not_found(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(complete(&lease));
    lab.ok(delete(lease.id()));
    assert_eq!(lab.refused(complete(&lease)).code(), Code::NotFound);
    assert_eq!(call(lab, "renew", &lease), Some(LeaseLost::Superseded));
}
