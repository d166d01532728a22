//! Beginning to wait: a lease ends, and nobody owns the execution until something lets it go on.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

/// The paths of everything that is wrong with a call.
fn paths(error: &Error) -> Vec<String> {
    error.violations().into_iter().map(|one| one.field).collect()
}

#[track_caller]
fn invalid(lab: &mut Lab, suspend: Suspend, field: &str, words: &[&str]) {
    let error = lab.refused(suspend);
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some(field)), "{error}");
    for word in words {
        assert!(error.message().contains(word), "`{word}` is not in: {error}");
    }
}

pub fn a_suspended_execution_holds_nothing(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    let lease = lab.lease(work());
    let other = lab.submit(work());
    assert!(lab.nothing_to_claim(), "the lane is full");
    let outcome = lab.ok(suspend(&lease, Condition::at("door")));
    let SuspendOutcome::Suspended { suspension, until, waitpoints } = outcome else {
        panic!("not suspended: {outcome:?}");
    };
    assert_eq!((suspension, until, waitpoints.len()), (1, None, 1));
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.attempt), (Status::Suspended, 1));
    assert_eq!((view.worker, view.owned_until, view.due_at), (None, None, None));
    assert!(view.epoch > lease.lease.epoch);
    assert_eq!(lab.claim("other").id(), other, "the slot came back");
    lab.ok(cap("default", 9));
    assert!(lab.nothing_to_claim());
    lab.advance(days(365));
    assert_eq!(lab.status(lease.id()), Status::Suspended, "it waits for ever");
}

pub fn suspending_ends_the_count_of_lost_workers(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.take(id);
    lab.advance(secs(30));
    assert_eq!(lab.get(id).reclaims, 1);
    let lease = lab.take(id);
    lab.suspend(suspend(&lease, Condition::at("door")));
    assert_eq!((lab.get(id).reclaims, lab.get(id).attempt), (0, 2));
}

pub fn the_time_of_an_attempt_stands_still_while_it_waits(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "attempt_timeout_ms": 10_000 }))));
    lab.advance(secs(9));
    lab.suspend(suspend(&lease, Condition::at("door")));
    lab.advance(hours(1));
    lab.ok(signal_at(lease.id(), "door", "go"));
    let lease = lab.take(lease.id());
    lab.advance(secs(9));
    lab.ok(complete(&lease));
}

pub fn a_repeated_suspend_is_answered_the_same_for_ever(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "back"));
    let call = Suspend {
        timeout: Some(hours(1)),
        ..suspend(&lease, Condition::all([Condition::at("door"), Condition::at("back")]))
    };
    let first = lab.ok(call.clone());
    let SuspendOutcome::Suspended { waitpoints, .. } = &first else { panic!("{first:?}") };
    assert_eq!(waitpoints.len(), 2);
    let again = |lab: &mut Lab| {
        let before = lab.snapshot();
        assert_eq!(lab.ok(call.clone()), first);
        let other = Suspend { note: Some("x".into()), ..suspend(&lease, Condition::Operator) };
        assert_eq!(lab.ok(other), first, "the first arguments win");
        assert_eq!(lab.snapshot(), before);
    };
    again(lab);
    lab.ok(signal_at(lease.id(), "door", "go"));
    again(lab);
    lab.ok(signal_at(lease.id(), "back", "go"));
    again(lab);
    let second = lab.take(lease.id());
    again(lab);
    let next = lab.suspend(suspend(&second, Condition::at("door")));
    assert_ne!(next[0].token, waitpoints[0].token);
    again(lab);
    lab.ok(Cancel::new(lease.id()));
    again(lab);
    lab.ok(replay(lease.id()));
    lab.reopen();
    again(lab);
}

pub fn suspending_when_asked_to_stop_ends_cancelled(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(Cancel::new(lease.id()));
    let call = suspend(&lease, Condition::at("door"));
    assert_eq!(lab.ok(call.clone()), SuspendOutcome::Cancelled);
    assert_eq!(lab.status(lease.id()), Status::Cancelled);
    assert_eq!(lab.doors(lease.id()), "door:ended");
    assert_eq!(lab.suspensions(lease.id()), []);
    let before = lab.snapshot();
    assert_eq!(lab.ok(call), SuspendOutcome::Cancelled);
    assert_eq!(lab.snapshot(), before);
}

pub fn a_cancel_wins_over_signals_that_have_come(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(signal_at(lease.id(), "door", "go"));
    lab.ok(Cancel::new(lease.id()));
    assert_eq!(lab.ok(suspend(&lease, Condition::at("door"))), SuspendOutcome::Cancelled);
    assert_eq!(lab.signals(lease.id())[0].suspension, None);
}

pub fn everything_wrong_with_a_suspend_is_listed(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(signal_at(lease.id(), "door", "go"));
    let deep = |part| Condition::all([part]);
    let call = Suspend {
        note: Some("two\nlines".into()),
        key: Some("x".repeat(257)),
        timeout: Some(days(36_500)),
        until: Some(lab.now().before(hours(1))),
        ..suspend(
            &lease,
            Condition::any([
                Condition::all([]),
                Condition::count(0, Distinct::Signals, ["door"]),
                Condition::count(3, Distinct::Waitpoints, ["door", "back"]),
                Condition::at("not a name"),
                deep(deep(deep(Condition::at("door")))),
                Condition::at("door").named(""),
            ]),
        )
    };
    let error = lab.refused(call);
    let of = |place: &str| format!("condition.of[{place}]");
    let expected = [of("0"), of("1"), of("2"), of("3"), of("4].of[0].of[0].of[0"), of("5")];
    let found = paths(&error);
    assert_eq!(found[..6], expected, "{error}");
    assert_eq!(found[6..], ["note", "key", "until", "timeout_ms", "until"], "{error}");
    lab.ok(complete(&lease));
}

pub fn conditions_are_limited(lab: &mut Lab) {
    let lease = lab.lease(work());
    let doors = |count: usize| (0..count).map(|n| Condition::at(format!("d{n}")));
    let of = |parts: usize| Condition::all((0..parts).map(|_| Condition::at("door")));
    invalid(lab, suspend(&lease, of(200)), "condition", &["201", "200"]);
    let many = (0..201).map(|n| format!("d{n}")).collect::<Vec<_>>();
    let count = Condition::count(1, Distinct::Signals, many);
    let error = lab.refused(suspend(&lease, count));
    assert!(error.message().contains("201"), "{error}");
    for count in [
        Condition::count(10_001, Distinct::Signals, ["a"]),
        Condition::count(1001, Distinct::Sources, ["a"]),
        Condition::approval("a", 1001),
    ] {
        invalid(lab, suspend(&lease, count), "condition", &[]);
    }
    assert_eq!(lab.suspend(suspend(&lease, Condition::any(doors(199)))).len(), 199);
}

pub fn a_time_in_the_past_is_refused_unless_clocks_may_differ_by_so_much(lab: &mut Lab) {
    let lease = lab.lease(work());
    let until = |at| Suspend { until: Some(at), ..suspend(&lease, Condition::at("door")) };
    let long_ago = lab.now().before(secs(600));
    invalid(lab, until(long_ago), "until", &["past"]);
    let just_now = lab.now().before(secs(600) - ms(1));
    lab.suspend(until(just_now));
    assert_eq!(lab.get(lease.id()).due_at, Some(just_now));
    lab.settle();
    assert_eq!(lab.status(lease.id()), Status::Failed);
}

pub fn either_a_time_or_a_duration_is_given(lab: &mut Lab) {
    let lease = lab.lease(work());
    let until = Some(lab.now() + secs(5));
    let timed = Suspend { until, ..suspend(&lease, Condition::at("door")) };
    let both = Suspend { timeout: Some(secs(5)), ..timed.clone() };
    invalid(lab, both, "until", &["timeout_ms"]);
    for bad in [secs(0), days(36_500)] {
        let bad = Suspend { until: None, timeout: Some(bad), ..timed.clone() };
        invalid(lab, bad, "timeout_ms", &["not"]);
    }
    let SuspendOutcome::Suspended { until: told, .. } = lab.ok(timed) else { panic!() };
    assert_eq!((told, lab.get(lease.id()).due_at), (until, until));
}

pub fn what_waits_for_its_time_needs_to_be_given_one(lab: &mut Lab) {
    let lease = lab.lease(work());
    for condition in [
        Condition::Timeout,
        Condition::any([Condition::at("door"), Condition::Timeout]),
        Condition::all([Condition::any([Condition::Operator, Condition::Timeout])]),
    ] {
        invalid(lab, suspend(&lease, condition), "condition", &["timeout_ms"]);
    }
    let timed = lab.lease(work().policy(policy(json!({ "suspension": { "timeout_ms": 5000 } }))));
    lab.suspend(suspend(&timed, Condition::Timeout));
    assert_eq!(lab.get(timed.id()).due_at, Some(lab.now() + secs(5)));
}

pub fn the_policy_says_for_how_long_and_what_then(lab: &mut Lab) {
    let limits = json!({ "suspension": { "timeout_ms": 5000, "on_timeout": "cancel" } });
    let new = || work().policy(policy(limits.clone()));
    let lease = lab.lease(new());
    lab.suspend(suspend(&lease, Condition::at("door")));
    let own = lab.lease(new());
    let longer = Suspend { timeout: Some(secs(9)), ..suspend(&own, Condition::at("door")) };
    lab.suspend(Suspend { on_timeout: Some(OnTimeout::Expire), ..longer });
    lab.advance(secs(5));
    assert_eq!(lab.status(lease.id()), Status::Cancelled);
    assert_eq!(lab.status(own.id()), Status::Suspended, "what the call says wins");
    lab.advance(secs(4));
    assert_eq!(lab.status(own.id()), Status::Expired);
}

pub fn lane_and_namespace_fill_in_for_how_long_and_what_then(lab: &mut Lab) {
    let namespace = json!({ "suspension": { "timeout_ms": 9000, "on_timeout": "cancel" } });
    lab.ok(PutNamespace { namespace: ns(), defaults: defaults(namespace) });
    lab.ok(put_lane("fast", defaults(json!({ "suspension": { "timeout_ms": 5000 } }))));
    let lease = lab.lease(work().lane("fast"));
    let slow = lab.lease(work());
    for lease in [&lease, &slow] {
        lab.suspend(suspend(lease, Condition::at("door")));
    }
    lab.advance(secs(5));
    assert_eq!(lab.status(lease.id()), Status::Cancelled, "time of the lane, rest from above");
    lab.advance(secs(4));
    assert_eq!(lab.status(slow.id()), Status::Cancelled);
}

pub fn what_waits_without_end_is_not_failed_by_its_policy(lab: &mut Lab) {
    let limits = json!({ "suspension": { "on_timeout": "cancel" } });
    let lease = lab.lease(work().policy(policy(limits)));
    lab.suspend(suspend(&lease, Condition::at("door")));
    lab.advance(days(300));
    assert_eq!(lab.status(lease.id()), Status::Suspended);
}

pub fn tokens_are_answered_in_the_order_of_the_condition(lab: &mut Lab) {
    let lease = lab.lease(work());
    let early = lab.ok(create_waitpoint(&lease, "c")).ticket;
    let other = lab.ok(create_waitpoint(&lease, "other")).ticket;
    let condition = Condition::all([
        Condition::at("b"),
        Condition::count(1, Distinct::Waitpoints, ["c", "a", "b"]),
        Condition::signal(),
        Condition::at("b").named("again"),
    ]);
    let tickets = lab.suspend(suspend(&lease, condition));
    let keys: Vec<_> = tickets.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["b", "c", "a"], "each once");
    assert_eq!(tickets[1], early, "what exists is kept with its token");
    assert_eq!(lab.doors(lease.id()), "c:active other:pending b:active a:active");
    let mut tokens: Vec<_> = tickets.iter().map(|one| one.token.as_str()).collect();
    tokens.push(other.token.as_str());
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 4, "each has its own");
}

pub fn suspensions_are_numbered_over_all_runs(lab: &mut Lab) {
    let id = lab.submit(work());
    for round in 0..3 {
        let lease = lab.take(id);
        let call = Suspend {
            reason: SuspendReason::WaitingForToolResult,
            note: Some(format!("round {round}")),
            timeout: Some(hours(1)),
            ..suspend(&lease, Condition::at("door"))
        };
        lab.suspend(Suspend { key: Some(format!("k{round}")), ..call });
        lab.ok(match round {
            0 => signal_at(id, "door", "go"),
            _ => signal(id, "unheard"),
        });
        if round == 1 {
            lab.ok(Cancel::new(id));
            lab.ok(replay(id));
        }
    }
    let all = lab.suspensions(id);
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.number, one.run, one.terms.attempt, one.key.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(told, [(1, 1, 1, "k0"), (2, 1, 1, "k1"), (3, 2, 2, "k2")]);
    let last = all.last().expect("there are three");
    assert_eq!(last.terms.reason, SuspendReason::WaitingForToolResult);
    assert_eq!(last.terms.note.as_deref(), Some("round 2"));
    assert_eq!(last.terms.began_at, lab.now());
    assert_eq!(last.terms.timeout_at, Some(lab.now() + hours(1)));
    assert_eq!(last.waits_for.as_deref(), Some("a signal at door"));
    let ends: Vec<_> = all.iter().map(|one| one.end.as_ref().map(|end| &end.by)).collect();
    let signal = lab.signals(id)[0].id;
    assert_eq!(ends, [Some(&EndedBy::Signal { signal }), Some(&EndedBy::Execution), None]);
    let page = lab.see(ListSuspensions { limit: 2, ..list_suspensions(id) });
    assert_eq!((page.suspensions.as_slice(), page.next), (&all[..2], Some(2)));
    let page = lab.see(ListSuspensions { after: 2, limit: 2, ..list_suspensions(id) });
    assert_eq!((page.suspensions.as_slice(), page.next), (&all[2..], None));
}

pub fn what_is_not_there_is_not_suspended(lab: &mut Lab) {
    let lease = lab.lease(work());
    let there = Suspend { namespace: "there".into(), ..suspend(&lease, Condition::Operator) };
    assert_eq!(lab.refused(there).code(), Code::NotFound);
    let mut unknown = suspend(&lease, Condition::Operator);
    unknown.lease.execution = id(9);
    assert_eq!(lab.refused(unknown).code(), Code::NotFound);
}

pub fn a_suspension_survives_a_restart(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(record_step(&lease, "one", "1"));
    let condition = Condition::all([Condition::at("a"), Condition::at("b")]);
    let timed = Suspend { timeout: Some(hours(1)), ..suspend(&lease, condition) };
    let tickets = lab.suspend(timed);
    lab.ok(saying("first", signal_by(lease.id(), &tickets[0], "go")));
    let before = lab.snapshot();
    lab.reopen();
    assert_eq!(lab.snapshot(), before);
    let effect = lab.deliver(saying("second", signal_by(lease.id(), &tickets[1], "go")));
    assert_eq!(effect, Effect::Resumed { status: Status::Resumable });
    lab.reopen();
    let (lease, resumption) = lab.resumption(lease.id());
    assert_eq!(told(&resumption.signals), "go:first go:second");
    assert_eq!(lease.steps.len(), 1);
}
