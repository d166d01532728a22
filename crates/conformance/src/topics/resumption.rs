//! Going on: what the next holder of the lease is told.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

/// A worker that recorded a step, waits at a door, and gets its signal.
fn resumed(lab: &mut Lab) -> ExecutionId {
    let lease = lab.lease(work().input(Payload::bytes("input")));
    lab.ok(record_step(&lease, "ask", "asked"));
    lab.suspend(suspend(&lease, Condition::at("door").named("go")));
    let ignored = lab.deliver(saying("not you", signal_at(lease.id(), "door", "stay")));
    assert_eq!(ignored, Effect::Ignored { why: Offered::OtherName });
    assert_eq!(lab.deliver(saying("now", signal_at(lease.id(), "door", "go"))), RESUMED);
    lease.id()
}

#[track_caller]
fn goes_on(lab: &mut Lab, lease: &Leased) {
    assert_eq!((lease.attempt, lease.resumed, lease.run), (1, true, 1));
    assert_eq!(lease.input, Some(Payload::bytes("input")));
    let resumption = lease.resumption.as_ref().expect("it was suspended");
    assert_eq!((resumption.suspension, resumption.more), (1, false));
    assert_eq!(told(&resumption.signals), "stay:not you go:now");
    let counted: Vec<_> = resumption.signals.iter().map(|one| one.counted).collect();
    assert_eq!(counted, [false, true]);
    let by = EndedBy::Signal { signal: resumption.signals[1].id };
    assert_eq!((&resumption.end.by, resumption.end.at), (&by, lab.now()));
    let steps: Vec<_> = lease.steps.iter().map(|one| (one.name.as_str(), one.seq)).collect();
    assert_eq!((steps, lease.more_steps), (vec![("ask", 1)], false));
    assert_eq!(lease.steps[0].result, Some(Payload::bytes("asked")));
}

pub fn a_plain_claim_goes_on_with_the_attempt(lab: &mut Lab) {
    let id = resumed(lab);
    let epoch = lab.get(id).epoch;
    let lease = lab.claim("other");
    assert_eq!(lease.id(), id);
    assert!(lease.lease.epoch > epoch);
    goes_on(lab, &lease);
    lab.ok(complete(&lease));
    let attempts = lab.attempts(id);
    let told: Vec<_> = attempts.iter().map(|one| (one.attempt, one.end.clone())).collect();
    let suspended = Some(LeaseEnd::Suspended { suspension: 1 });
    assert_eq!(told, [(1, suspended), (1, Some(LeaseEnd::Completed))]);
}

pub fn a_claim_by_id_goes_on_with_the_attempt(lab: &mut Lab) {
    let id = resumed(lab);
    let lease = lab.take(id);
    goes_on(lab, &lease);
}

pub fn a_redeemed_grant_goes_on_with_the_attempt(lab: &mut Lab) {
    let id = resumed(lab);
    let granted = lab.reserve(id);
    let lease = lab.ok(redeem(&granted));
    goes_on(lab, &lease);
    assert_eq!(lab.ok(redeem(&granted)), lease, "also when it is asked for again");
}

pub fn a_lapsed_grant_leaves_it_to_be_resumed(lab: &mut Lab) {
    let id = resumed(lab);
    lab.reserve(id);
    lab.advance(secs(60));
    assert_eq!(lab.status(id), Status::Resumable);
    let (lease, resumption) = lab.resumption(id);
    assert!(lease.resumed);
    assert_eq!(told(&resumption.signals), "stay:not you go:now");
}

pub fn what_was_never_suspended_has_nothing_to_go_on_with(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert_eq!((lease.resumption, lease.resumed, lease.steps), (None, false, vec![]));
    let signalled = lab.submit(work());
    lab.ok(signal(signalled, "early"));
    assert_eq!(lab.take(signalled).resumption, None);
}

pub fn the_next_attempt_still_knows_what_came(lab: &mut Lab) {
    let id = resumed(lab);
    lab.take(id);
    lab.advance(secs(30));
    let (lease, resumption) = lab.resumption(id);
    assert_eq!((lease.attempt, lease.resumed), (2, false), "the worker was lost");
    assert_eq!(told(&resumption.signals), "stay:not you go:now");
    assert_eq!(lease.steps.len(), 1);
    lab.ok(retry_after(&lease, secs(0)));
    let (lease, resumption) = lab.resumption(id);
    assert_eq!((lease.attempt, lease.retries), (3, 1));
    assert_eq!(told(&resumption.signals), "stay:not you go:now");
    lab.ok(delay(&lease, secs(0)));
    let (lease, resumption) = lab.resumption(id);
    assert_eq!((lease.attempt, lease.resumed, resumption.suspension), (3, true, 1));
}

pub fn what_came_in_an_earlier_run_is_not_told_again(lab: &mut Lab) {
    let id = resumed(lab);
    lab.ok(Cancel::new(id));
    lab.ok(replay(id));
    let lease = lab.take(id);
    assert_eq!((lease.run, lease.resumption.clone()), (2, None));
    assert_eq!(told(&lab.see(ObserveSignals::new(id)).signals), "stay:not you go:now");
}

pub fn what_is_resumed_keeps_its_place(lab: &mut Lab) {
    let first = lab.lease(work());
    lab.suspend(suspend(&first, Condition::at("door")));
    let second = lab.submit(work());
    let urgent = lab.submit(work().priority(2000));
    lab.advance(hours(1));
    lab.ok(signal_at(first.id(), "door", "go"));
    assert_eq!(lab.claimed_ids(up_to(9)), [urgent, first.id(), second]);
}

pub fn suspending_again_under_its_key_does_not_wait_again(lab: &mut Lab) {
    let condition = || Condition::at("door");
    let lease = lab.lease(work());
    let tickets = lab.suspend(suspend_as(&lease, "approval", condition()));
    lab.ok(saying("yes", signal_by(lease.id(), &tickets[0], "go")));
    let lease = lab.take(lease.id());
    let call = suspend_as(&lease, "approval", condition());
    let before = lab.snapshot();
    let resumption = lab.already_satisfied(call.clone());
    assert_eq!(Some(&resumption), lease.resumption.as_ref());
    assert_eq!(resumption.key.as_deref(), Some("approval"));
    assert_eq!(told(&resumption.signals), "go:yes");
    assert_eq!(lab.already_satisfied(call.clone()), resumption);
    let other = Suspend { timeout: Some(secs(1)), note: Some("other".into()), ..call };
    assert_eq!(lab.already_satisfied(other), resumption, "only the condition must be the same");
    assert_eq!(lab.snapshot(), before, "the lease is held on");
    lab.advance(secs(30));
    let lease = lab.take(lease.id());
    assert_eq!(lease.attempt, 2);
    assert_eq!(lab.already_satisfied(suspend_as(&lease, "approval", condition())), resumption);
    let tickets = lab.suspend(suspend_as(&lease, "second", condition()));
    lab.ok(saying("yes again", signal_by(lease.id(), &tickets[0], "go")));
    let lease = lab.take(lease.id());
    assert_eq!(lab.already_satisfied(suspend_as(&lease, "approval", condition())), resumption);
    let second = lab.already_satisfied(suspend_as(&lease, "second", condition()));
    assert_eq!((told(&second.signals).as_str(), second.suspension), ("go:yes again", 2));
    lab.ok(complete(&lease));
}

pub fn whatever_ended_a_suspension_its_key_does_not_wait_again(lab: &mut Lab) {
    for by in ["operator", "timeout", "early signal"] {
        let lease = lab.lease(work());
        let id = lease.id();
        let call = |lease: &Leased| Suspend {
            timeout: Some(secs(9)),
            on_timeout: Some(OnTimeout::Resume),
            ..suspend_as(lease, "k", Condition::signal())
        };
        let first = match by {
            "early signal" => {
                lab.ok(saying("hm", signal(id, "go")));
                lab.already_satisfied(call(&lease))
            }
            by => {
                lab.suspend(call(&lease));
                match by {
                    "operator" => lab.run(Resume::new(id)),
                    _ => lab.advance(secs(9)),
                }
                lab.resumption(id).1
            }
        };
        if by == "early signal" {
            lab.advance(secs(30));
            lab.take(id);
        }
        lab.ok(RevokeLease::new(id));
        let lease = lab.take(id);
        assert_eq!(lab.already_satisfied(call(&lease)), first, "{by}");
        lab.ok(complete(&lease));
    }
}

pub fn another_condition_under_a_used_key_is_a_conflict(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.suspend(suspend_as(&lease, "k", Condition::at("door")));
    lab.ok(signal_at(lease.id(), "door", "go"));
    let lease = lab.take(lease.id());
    let error = lab.refused(suspend_as(&lease, "k", Condition::at("back")));
    assert_eq!((error.code(), error.field()), (Code::IdempotencyConflict, Some("key")));
    lab.ok(complete(&lease));
}

pub fn a_key_waits_again_in_a_new_run(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.suspend(suspend_as(&lease, "k", Condition::at("door")));
    lab.ok(signal_at(lease.id(), "door", "go"));
    lab.ok(Cancel::new(lease.id()));
    lab.ok(replay(lease.id()));
    let lease = lab.take(lease.id());
    let second = lab.suspend(suspend_as(&lease, "k", Condition::at("back")));
    assert_ne!(first[0].id, second[0].id);
    assert_eq!(lab.status(lease.id()), Status::Suspended);
    assert_eq!(why_closed(&lab.refused(signal_by(lease.id(), &first[0], "go"))), "satisfied");
    assert_eq!(lab.deliver(signal_by(lease.id(), &second[0], "go")), RESUMED);
}

pub fn a_key_belongs_to_its_execution(lab: &mut Lab) {
    let tickets: Vec<_> = (0..2)
        .map(|_| {
            let lease = lab.lease(work());
            (lease.id(), lab.suspend(suspend_as(&lease, "k", Condition::at("door"))))
        })
        .collect();
    let [(one, first), (other, second)] = &tickets[..] else { panic!() };
    assert_ne!(first[0].token, second[0].token);
    assert_eq!(lab.deliver(signal_by(*one, &first[0], "go")), RESUMED);
    assert_eq!(lab.status(*other), Status::Suspended);
}

pub fn payloads_that_do_not_fit_are_read_page_by_page(lab: &mut Lab) {
    lab.settings.limits = Limits { payload_bytes: 10, batch_bytes: 25 };
    let count = Condition::count(4, Distinct::Signals, ["door"]);
    let (id, _) = lab.suspended(count);
    for n in 0..4 {
        lab.ok(saying(&format!("payload {n}!"), signal_at(id, "door", "part")));
    }
    let (lease, resumption) = lab.resumption(id);
    let has: Vec<_> = resumption.signals.iter().map(|one| one.payload.is_some()).collect();
    assert_eq!(has, [true, true, false, false], "two of ten bytes fit into 25");
    assert!(resumption.signals.iter().all(|one| one.size == 10));
    assert!(!resumption.more);
    let rest = lab.see(ObserveSignals { after: 2, ..ObserveSignals::new(id) });
    assert_eq!(told(&rest.signals), "part:payload 2! part:payload 3!");
    let first = lab.see(ObserveSignals { limit: 2, ..ObserveSignals::new(id) });
    assert_eq!(
        (told(&first.signals).as_str(), first.next),
        ("part:payload 0! part:payload 1!", Some(2))
    );
    lab.ok(complete(&lease));
}

pub fn signals_beyond_a_page_are_observed(lab: &mut Lab) {
    let count = Condition::count(1005, Distinct::Signals, ["door"]);
    let (id, _) = lab.suspended(count);
    let mut calls: Vec<_> =
        (0..1005).map(|n| lab.call(saying(&n.to_string(), signal_at(id, "door", "x")))).collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    lab.batch(&mut jobs);
    let (_, resumption) = lab.resumption(id);
    assert_eq!((resumption.signals.len(), resumption.more), (1000, true));
    let rest = lab.see(ObserveSignals { after: 1000, ..ObserveSignals::new(id) });
    assert_eq!(
        (told(&rest.signals).as_str(), rest.next),
        ("x:1000 x:1001 x:1002 x:1003 x:1004", None)
    );
}

pub fn each_suspension_is_observed_on_its_own(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert_eq!(lab.see(ObserveSignals::new(lease.id())), SignalPage::default());
    for text in ["first", "second"] {
        let lease = match text {
            "first" => lease.clone(),
            _ => lab.take(lease.id()),
        };
        lab.suspend(suspend(&lease, Condition::at("door").named("go")));
        lab.ok(saying(text, signal_at(lease.id(), "door", "no")));
        lab.ok(saying(text, signal_at(lease.id(), "door", "go")));
    }
    let of = |suspension| ObserveSignals { suspension, ..ObserveSignals::new(lease.id()) };
    assert_eq!(told(&lab.see(of(Some(1))).signals), "no:first go:first");
    assert_eq!(told(&lab.see(of(Some(2))).signals), "no:second go:second");
    assert_eq!(told(&lab.see(of(None)).signals), "no:second go:second");
    assert_eq!(lab.ask(of(Some(3))).unwrap_err().code(), Code::NotFound);
    assert_eq!(lab.ask(ObserveSignals::new(id(9))).unwrap_err().code(), Code::NotFound);
}

pub fn a_signal_kept_back_delays_what_it_lets_go_on(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    let late = DeliverSignal { resume_delay: secs(9), ..signal_at(id, "door", "go") };
    assert_eq!(lab.deliver(late), Effect::Resumed { status: Status::Delayed });
    assert!(lab.nothing_to_claim());
    let view = lab.get(id);
    assert_eq!(view.due_at, Some(lab.now() + secs(9)));
    assert_eq!(view.axes.blocking_reason, Blocking::WaitingForResumeDelay);
    assert!(lab.explain(id).contains("resumed to go on at"), "{}", lab.explain(id));
    lab.advance(secs(9) - ms(1));
    assert_eq!(lab.status(id), Status::Delayed);
    lab.advance(ms(1));
    let (lease, resumption) = lab.resumption(id);
    assert_eq!((lease.attempt, lease.resumed), (1, true));
    assert_eq!(told(&resumption.signals), "go:");
}

pub fn a_delay_of_a_signal_that_does_not_let_go_on_is_nothing(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::count(2, Distinct::Signals, ["door"]));
    let late = DeliverSignal { resume_delay: hours(9), ..signal_at(id, "door", "one") };
    assert_eq!(lab.deliver(late), Effect::Recorded);
    assert_eq!(lab.deliver(signal_at(id, "door", "two")), RESUMED);
}
