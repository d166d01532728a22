//! What happens when what was waited for does not come in time.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

const ENDS: [(OnTimeout, Status); 3] = [
    (OnTimeout::Fail, Status::Failed),
    (OnTimeout::Cancel, Status::Cancelled),
    (OnTimeout::Expire, Status::Expired),
];

fn timed(leased: &Leased, seconds: u64, on_timeout: OnTimeout, condition: Condition) -> Suspend {
    let timeout = Some(secs(seconds));
    Suspend { timeout, on_timeout: Some(on_timeout), ..suspend(leased, condition) }
}

/// Something that waits at a door for a minute.
#[track_caller]
fn waiting(lab: &mut Lab, on_timeout: OnTimeout) -> (ExecutionId, Ticket) {
    let lease = lab.lease(work());
    let tickets = lab.suspend(timed(&lease, 60, on_timeout, Condition::at("door")));
    (lease.id(), tickets[0].clone())
}

#[track_caller]
fn ends_of(lab: &mut Lab, id: ExecutionId) -> usize {
    lab.events(about(id)).iter().filter(|event| event.kind.is_terminal()).count()
}

pub fn what_does_not_come_in_time_ends_the_execution(lab: &mut Lab) {
    for (on_timeout, status) in ENDS {
        let (id, ticket) = waiting(lab, on_timeout);
        lab.advance(secs(60) - ms(1));
        assert_eq!(lab.status(id), Status::Suspended);
        lab.advance(ms(1));
        let end = lab.end(id);
        assert_eq!((Status::from(end.outcome), end.reason), (status, EndReason::SuspensionTimeout));
        assert_eq!(end.by.as_deref(), Some("clock"));
        assert_eq!(end.message.as_deref(), Some("it waited in vain for a signal at door"));
        assert_eq!(lab.get(id).retries, 0, "it is not retried");
        assert_eq!(ends_of(lab, id), 1);
        assert_eq!(lab.doors(id), "door:timed_out");
        assert_eq!(why_closed(&lab.refused(signal_by(id, &ticket, "late"))), "timed_out");
        assert_eq!(lab.refused(signal(id, "late")).code(), Code::AlreadyTerminal);
        let suspension = lab.suspensions(id).remove(0);
        let by = EndedBy::Timeout;
        assert_eq!(suspension.end, Some(SuspensionEnd { at: lab.now(), by }));
        lab.advance(hours(1));
        assert_eq!(ends_of(lab, id), 1);
    }
}

pub fn without_another_wish_it_fails(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(5)), ..suspend(&lease, Condition::at("door")) });
    lab.advance(secs(5));
    assert_eq!(lab.status(lease.id()), Status::Failed);
}

pub fn what_goes_on_after_its_time_is_told_so(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let both = Condition::all([Condition::at("a"), Condition::at("b")]);
    let tickets = lab.suspend(timed(&lease, 60, OnTimeout::Resume, both));
    lab.ok(saying("half", signal_by(id, &tickets[0], "x")));
    lab.advance(secs(60));
    assert_eq!(lab.status(id), Status::Resumable);
    assert_eq!(lab.doors(id), "a:timed_out b:timed_out");
    assert_eq!(why_closed(&lab.refused(signal_by(id, &tickets[1], "late"))), "timed_out");
    let (lease, resumption) = lab.resumption(id);
    assert_eq!((lease.attempt, lease.resumed), (1, true));
    assert_eq!(told(&resumption.signals), "x:half timeout:");
    assert_eq!(resumption.end.by, EndedBy::Timeout);
    let timeout = &resumption.signals[1];
    assert_eq!((timeout.source.as_str(), timeout.at), ("clock", lab.now()));
    assert_eq!((timeout.waitpoint.as_deref(), timeout.suspension), (None, Some(1)));
    assert_eq!(ends_of(lab, id), 0);
    lab.ok(complete(&lease));
}

pub fn what_is_passed_on_stays_until_someone_decides(lab: &mut Lab) {
    for decision in ["signal", "operator", "cancel"] {
        let lease = lab.lease(work());
        let id = lease.id();
        let call = timed(&lease, 60, OnTimeout::Escalate, Condition::at("door"));
        let ticket = lab.suspend(Suspend { note: Some("ask bob".into()), ..call }).remove(0);
        lab.advance(secs(60));
        let view = lab.get(id);
        assert_eq!((view.status, view.due_at), (Status::Suspended, None));
        assert_eq!(view.axes.blocking_reason, Blocking::PausedByOperator);
        assert_eq!(lab.suspensions(id)[0].escalated_at, Some(lab.now()));
        let said = lab.explain(id);
        for word in ["waiting_for_operator_review", "an operator has to", "ask bob", "at door"] {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
        lab.advance(days(5));
        assert_eq!((lab.status(id), lab.doors(id).as_str()), (Status::Suspended, "door:active"));
        let escalations =
            lab.history(id).iter().filter(|kind| **kind == EventKind::Escalated).count();
        assert_eq!(escalations, 1);
        match decision {
            "signal" => assert_eq!(lab.deliver(signal_by(id, &ticket, "go")), RESUMED),
            "operator" => assert_eq!(lab.ok(Resume::new(id)).status, Status::Resumable),
            _ => assert_eq!(lab.ok(Cancel::new(id)), CancelOutcome::Cancelled),
        }
        assert_eq!(lab.status(id).is_terminal(), decision == "cancel");
        lab.apply(Cancel::new(id)).ok();
    }
}

pub fn what_is_passed_on_still_has_its_deadline(lab: &mut Lab) {
    let lease = lab.lease(work().deadline_at(lab.now() + secs(90)));
    lab.suspend(timed(&lease, 60, OnTimeout::Escalate, Condition::at("door")));
    lab.advance(secs(60));
    assert_eq!(lab.get(lease.id()).due_at, Some(lab.now() + secs(30)));
    lab.advance(secs(30));
    assert_eq!(lab.end(lease.id()).reason, EndReason::Deadline);
}

pub fn a_deadline_before_its_time_wins(lab: &mut Lab) {
    let lease = lab.lease(work().deadline_at(lab.now() + secs(60)));
    lab.suspend(timed(&lease, 60, OnTimeout::Resume, Condition::at("door")));
    lab.advance(secs(60));
    let end = lab.end(lease.id());
    assert_eq!((end.outcome, end.reason), (Outcome::Expired, EndReason::Deadline));
    assert_eq!(lab.doors(lease.id()), "door:ended");
}

pub fn a_signal_that_comes_before_the_clock_noticed_wins(lab: &mut Lab) {
    for on_timeout in [OnTimeout::Fail, OnTimeout::Resume, OnTimeout::Escalate] {
        let (id, ticket) = waiting(lab, on_timeout);
        lab.pass(secs(60));
        assert_eq!(lab.deliver(signal_by(id, &ticket, "go")), RESUMED);
        lab.advance(secs(60));
        assert_eq!((lab.status(id), ends_of(lab, id)), (Status::Resumable, 0));
        assert_eq!(told(&lab.resumption(id).1.signals), "go:");
        assert_eq!(lab.doors(id), "door:satisfied");
    }
}

/// Lets a signal and the clock meet in one transaction, in either order.
#[track_caller]
fn race(lab: &mut Lab, signal_first: bool, on_timeout: OnTimeout) -> (ExecutionId, Result<Effect>) {
    let (id, ticket) = waiting(lab, on_timeout);
    lab.pass(secs(60));
    let mut signal = lab.call(signal_by(id, &ticket, "go"));
    let mut tick = lab.call(Tick::default());
    match signal_first {
        true => lab.batch(&mut [&mut signal, &mut tick]),
        false => lab.batch(&mut [&mut tick, &mut signal]),
    };
    tick.into_answer().expect("the clock ticks");
    (id, signal.into_answer().map(|delivered| delivered.effect))
}

pub fn of_a_signal_and_a_timeout_in_one_transaction_the_first_wins(lab: &mut Lab) {
    for (on_timeout, status) in ENDS {
        let (id, effect) = race(lab, true, on_timeout);
        assert_eq!((effect.unwrap(), ends_of(lab, id)), (RESUMED, 0));
        assert_eq!(lab.doors(id), "door:satisfied");
        let (id, effect) = race(lab, false, on_timeout);
        assert_eq!(why_closed(&effect.unwrap_err()), "timed_out");
        assert_eq!((lab.status(id), ends_of(lab, id)), (status, 1));
        assert_eq!(lab.doors(id), "door:timed_out");
        assert_eq!(lab.signals(id), []);
    }
    let (id, effect) = race(lab, false, OnTimeout::Resume);
    assert_eq!(why_closed(&effect.unwrap_err()), "timed_out");
    assert_eq!(told(&lab.resumption(id).1.signals), "timeout:");
    let (id, effect) = race(lab, false, OnTimeout::Escalate);
    assert_eq!(effect.unwrap(), RESUMED, "what was passed on still takes signals");
    assert_eq!(told(&lab.resumption(id).1.signals), "go:");
}

pub fn a_claim_by_id_does_what_is_due_on_the_spot(lab: &mut Lab) {
    let (id, _) = waiting(lab, OnTimeout::Resume);
    lab.pass(secs(60));
    let (lease, resumption) = lab.resumption(id);
    assert!(lease.resumed);
    assert_eq!(told(&resumption.signals), "timeout:");
    let (id, _) = waiting(lab, OnTimeout::Fail);
    lab.pass(secs(60));
    let refused = lab.ok(by_id(id, "w"));
    let why = ClaimRefusal::NotClaimable { status: Status::Failed };
    assert_eq!(refused, ClaimedExecution::Refused { why });
}

pub fn what_waits_only_for_its_time_goes_on_then(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "suspension": { "on_timeout": "fail" } }))));
    let call = Suspend { timeout: Some(secs(5)), ..suspend(&lease, Condition::Timeout) };
    assert!(lab.suspend(call).is_empty());
    assert!(lab.explain(lease.id()).contains("waits for its time"));
    lab.advance(secs(5));
    let (_, resumption) = lab.resumption(lease.id());
    assert_eq!(resumption.end.by, EndedBy::Timeout);
    for (on_timeout, status) in ENDS {
        let lease = lab.lease(work());
        lab.suspend(timed(&lease, 5, on_timeout, Condition::Timeout));
        lab.advance(secs(5));
        assert_eq!(lab.status(lease.id()), status, "unless it is to end then");
    }
}

pub fn what_waits_for_a_signal_or_its_time_goes_on_then(lab: &mut Lab) {
    let either = || Condition::any([Condition::at("door"), Condition::Timeout]);
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(5)), ..suspend(&lease, either()) });
    lab.advance(secs(5));
    assert_eq!(told(&lab.resumption(lease.id()).1.signals), "timeout:");
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(5)), ..suspend(&lease, either()) });
    assert_eq!(lab.deliver(signal_at(lease.id(), "door", "go")), RESUMED);
    let lease = lab.lease(work());
    lab.suspend(timed(&lease, 5, OnTimeout::Fail, either()));
    lab.advance(secs(5));
    assert_eq!(lab.status(lease.id()), Status::Failed, "unless it is to end then");
}

pub fn what_waits_for_a_signal_and_its_time_needs_both(lab: &mut Lab) {
    let both = || Condition::all([Condition::at("door"), Condition::Timeout]);
    for on_timeout in [OnTimeout::Fail, OnTimeout::Cancel, OnTimeout::Escalate] {
        let lease = lab.lease(work());
        lab.suspend(timed(&lease, 5, on_timeout, both()));
        assert_eq!(lab.deliver(signal_at(lease.id(), "door", "go")), Effect::Recorded);
        lab.advance(secs(5));
        let (lease, resumption) = lab.resumption(lease.id());
        assert_eq!(told(&resumption.signals), "go: timeout:");
        lab.ok(complete(&lease));
        let lease = lab.lease(work());
        lab.suspend(timed(&lease, 5, on_timeout, both()));
        lab.advance(secs(5));
        assert_ne!(lab.status(lease.id()), Status::Resumable, "the signal is missing");
    }
}

pub fn other_waitpoints_close_when_the_execution_ends(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "other"));
    lab.suspend(timed(&lease, 5, OnTimeout::Fail, Condition::at("door")));
    lab.advance(secs(5));
    assert_eq!(lab.doors(lease.id()), "other:ended door:timed_out");
}

pub fn a_long_condition_does_not_make_the_reason_too_long(lab: &mut Lab) {
    let long = |n: usize| format!("{}{n}", "d".repeat(100));
    let lease = lab.lease(work());
    let many = Condition::all((0..50).map(|n| Condition::at(long(n))));
    lab.suspend(timed(&lease, 5, OnTimeout::Fail, many));
    lab.advance(secs(5));
    let message = lab.end(lease.id()).message.expect("it says what it waited for");
    assert!((900..=1024).contains(&message.len()) && message.ends_with('…'), "{message}");
}

pub fn many_time_out_at_once(lab: &mut Lab) {
    let leases = (0..300).map(|_| work());
    lab.submit_all(leases);
    for lease in lab.claims(up_to(300)) {
        lab.suspend(timed(&lease, 5, OnTimeout::Resume, Condition::at("door")));
    }
    lab.advance(secs(5));
    assert_eq!(lab.counts().of(Status::Resumable), 300);
    assert!(lab.claims(up_to(300)).iter().all(|lease| {
        let came = lease.resumption.as_ref().map(|one| told(&one.signals));
        lease.resumed && came.as_deref() == Some("timeout:")
    }));
    assert_eq!(lab.see(ListInbox::default()).waitpoints, []);
}

pub fn time_passes_for_what_waits_while_nobody_looks(lab: &mut Lab) {
    let (id, _) = waiting(lab, OnTimeout::Fail);
    lab.pass(days(3));
    lab.reopen();
    lab.settle();
    assert_eq!(lab.end(id).reason, EndReason::SuspensionTimeout);
}
