//! Signals to those who wait for them.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

fn ignored(why: Offered) -> Effect {
    Effect::Ignored { why }
}

pub fn a_signal_of_any_name_will_do_where_none_is_asked_for(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::at("door"));
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "whatever")), RESUMED);
    let view = lab.get(id);
    assert_eq!((view.status, view.attempt, view.since), (Status::Resumable, 1, lab.now()));
    assert_eq!(lab.doors(id), "door:satisfied");
}

pub fn a_signal_of_another_name_is_ignored_and_stays_on_record(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::at("door").named("go"));
    let other = lab.deliver(saying("hm", signal_by(id, &tickets[0], "Go")));
    assert_eq!(other, ignored(Offered::OtherName), "names are told apart by case");
    assert_eq!(lab.status(id), Status::Suspended);
    let seen = lab.signals(id).remove(0);
    assert_eq!((seen.suspension, seen.counted, seen.size), (Some(1), false, 2));
    assert_eq!(told(&lab.see(ObserveSignals::new(id)).signals), "Go:hm");
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "go")), RESUMED);
}

pub fn a_signal_that_says_nothing_new_is_ignored_and_stays_on_record(lab: &mut Lab) {
    let both = Condition::all([Condition::at("a"), Condition::at("b")]);
    let (id, _) = lab.suspended(both);
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), Effect::Recorded);
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), ignored(Offered::NothingNew));
    assert_eq!(lab.deliver(signal_at(id, "b", "x")), RESUMED);
    let (_, resumption) = lab.resumption(id);
    let counted: Vec<_> = resumption.signals.iter().map(|one| one.counted).collect();
    assert_eq!(counted, [true, false, true]);
}

pub fn all_of_several_need_each(lab: &mut Lab) {
    let keys = ["a", "b", "c"];
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let (id, tickets) = lab.suspended(Condition::all(keys.map(Condition::at)));
        for (place, index) in order.into_iter().enumerate() {
            let effect = lab.deliver(signal_by(id, &tickets[index], "x"));
            assert_eq!(effect, if place == 2 { RESUMED } else { Effect::Recorded });
        }
        assert_eq!(lab.doors(id), "a:satisfied b:satisfied c:satisfied");
    }
}

pub fn both_names_may_come_to_one_waitpoint(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::all(
        ["paid", "packed"].map(|name| Condition::at("door").named(name)),
    ));
    assert_eq!(tickets.len(), 1);
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "packed")), Effect::Recorded);
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "packed")), ignored(Offered::NothingNew));
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "paid")), RESUMED);
}

pub fn any_of_several_needs_one(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::any(["a", "b"].map(Condition::at)));
    assert_eq!(lab.deliver(signal_by(id, &tickets[1], "x")), RESUMED);
    assert_eq!(lab.doors(id), "a:satisfied b:satisfied");
    assert_eq!(why_closed(&lab.refused(signal_by(id, &tickets[0], "x"))), "satisfied");
}

pub fn counts_tell_apart_waitpoints_signals_and_senders(lab: &mut Lab) {
    let keys = ["a", "b"];
    let (id, _) = lab.suspended(Condition::count(2, Distinct::Waitpoints, keys));
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), Effect::Recorded);
    assert_eq!(lab.deliver(from("bob", signal_at(id, "a", "y"))), ignored(Offered::NothingNew));
    assert_eq!(lab.deliver(signal_at(id, "b", "x")), RESUMED);

    let (id, _) = lab.suspended(Condition::count(3, Distinct::Signals, keys).named("x"));
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), Effect::Recorded);
    assert_eq!(lab.deliver(signal_at(id, "a", "y")), ignored(Offered::OtherName));
    assert_eq!(lab.deliver(keyed("k", signal_at(id, "a", "x"))), Effect::Recorded);
    assert_eq!(lab.deliver(keyed("k", signal_at(id, "a", "x"))), Effect::Duplicate);
    assert_eq!(lab.deliver(signal_at(id, "b", "x")), RESUMED);

    let (id, tickets) = lab.suspended(Condition::count(3, Distinct::Sources, keys));
    assert_eq!(lab.deliver(from("ann", signal_at(id, "a", "x"))), Effect::Recorded);
    assert_eq!(lab.deliver(from("ann", signal_at(id, "b", "y"))), ignored(Offered::NothingNew));
    assert_eq!(lab.deliver(signal_by(id, &tickets[0], "x")), Effect::Recorded);
    let again = lab.deliver(signal_by(id, &tickets[0], "x"));
    assert_eq!(again, ignored(Offered::NothingNew), "one token is one sender");
    assert_eq!(lab.deliver(signal_at(id, "b", "x")), RESUMED);
}

pub fn parts_nest_four_deep(lab: &mut Lab) {
    let inner = Condition::all([
        Condition::count(2, Distinct::Signals, ["a"]),
        Condition::count(1, Distinct::Signals, ["b"]),
    ]);
    let condition =
        Condition::all([Condition::any([inner, Condition::Operator]), Condition::signal()]);
    let (id, _) = lab.suspended(condition);
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), Effect::Recorded);
    assert_eq!(lab.deliver(signal_at(id, "a", "x")), Effect::Recorded);
    assert_eq!(lab.deliver(signal(id, "x")), Effect::Recorded);
    assert_eq!(lab.status(id), Status::Suspended, "each part counts its own");
    assert_eq!(lab.deliver(signal_at(id, "b", "x")), RESUMED);
}

pub fn no_signal_does_where_an_operator_or_time_is_waited_for(lab: &mut Lab) {
    for condition in [Condition::Operator, Condition::Timeout] {
        let lease = lab.lease(work());
        lab.suspend(Suspend { timeout: Some(hours(1)), ..suspend(&lease, condition) });
        for name in ["operator", "timeout"] {
            assert_eq!(lab.deliver(signal(lease.id(), name)), Effect::Buffered);
        }
        assert_eq!(lab.status(lease.id()), Status::Suspended);
        let error = lab.refused(signal_at(lease.id(), "operator", "go"));
        assert_eq!(error.code(), Code::NotFound);
    }
}

pub fn a_signal_satisfies_only_the_execution_it_was_sent_to(lab: &mut Lab) {
    let (one, tickets) = lab.suspended(Condition::at("door"));
    let (other, _) = lab.suspended(Condition::at("door"));
    assert_eq!(lab.refused(signal_by(other, &tickets[0], "x")).code(), Code::InvalidToken);
    let error = lab.refused(signal_to(other, tickets[0].id, "x"));
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(lab.deliver(signal_to(one, tickets[0].id, "x")), RESUMED);
    assert_eq!(lab.status(other), Status::Suspended);
}

pub fn the_bytes_of_a_signal_stay_as_they_are(lab: &mut Lab) {
    let binary: Vec<u8> = (0..=255).collect();
    let payloads = [
        Payload { content_type: "image/x-all".into(), bytes: binary },
        Payload { content_type: "text/plain; charset=utf-8".into(), bytes: "ü\0".into() },
        Payload { content_type: "application/empty".into(), bytes: vec![] },
        Payload::default(),
        Payload::bytes(vec![0xff; 1 << 20]),
    ];
    let (id, tickets) = lab.suspended(Condition::count(5, Distinct::Signals, ["door"]));
    for payload in payloads.clone() {
        lab.ok(DeliverSignal { payload, ..signal_by(id, &tickets[0], "x") });
    }
    lab.reopen();
    let (_, resumption) = lab.resumption(id);
    for (signal, payload) in resumption.signals.iter().zip(&payloads) {
        assert_eq!(signal.payload.as_ref(), Some(payload));
        assert_eq!(signal.size, payload.bytes.len() as u64);
    }
    assert_eq!(lab.signals(id), resumption.signals);
}

pub fn a_signal_tells_who_sent_it_when_and_how(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::count(9, Distinct::Signals, ["door"]));
    lab.ok(signal_at(id, "door", "plain"));
    lab.pass(secs(3));
    let correlation = Some("order 7".to_owned());
    lab.ok(DeliverSignal { correlation, ..from("ann", signal_at(id, "door", "from")) });
    lab.ok(signal_by(id, &tickets[0], "token"));
    lab.ok(signal(id, "apart"));
    let seen = lab.signals(id);
    let seqs: Vec<_> = seen.iter().map(|one| one.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    let sources: Vec<_> = seen.iter().map(|one| one.source.as_str()).collect();
    let bearer = format!("token:{}", tickets[0].id);
    assert_eq!(sources, ["operator", "ann", bearer.as_str(), "operator"]);
    assert_eq!(seen[1].at, lab.now());
    assert_eq!(seen[1].correlation.as_deref(), Some("order 7"));
    let waitpoints: Vec<_> = seen.iter().map(|one| one.waitpoint.as_deref()).collect();
    assert_eq!(waitpoints, [Some("door"), Some("door"), Some("door"), None]);
    let fingerprint = lab.waitpoints(id)[0].fingerprint;
    let traces: Vec<_> = seen.iter().map(|one| one.token.as_ref()).collect();
    assert_eq!((traces[0], traces[1], traces[3]), (None, None, None));
    assert_eq!(traces[2].map(|trace| trace.fingerprint), Some(fingerprint));
    let page = lab.see(ListSignals { after: 1, limit: 2, ..list_signals(id) });
    assert_eq!((page.signals.as_slice(), page.next), (&seen[1..3], Some(3)));
}

pub fn bad_signals_are_refused(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::at("door"));
    let good = || signal_at(id, "door", "go");
    let refuses = |lab: &mut Lab, signal: DeliverSignal, code: Code, field: &str| {
        let error = lab.refused(signal);
        assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
    };
    use Code::{InvalidInput, TooLarge};
    for bad in ["", "two words", "a/b", "ü", &"x".repeat(129)] {
        let name = bad.to_owned();
        refuses(lab, DeliverSignal { name, ..good() }, InvalidInput, "name");
        refuses(lab, from(bad, good()), InvalidInput, "source");
    }
    let bearer = format!("token:{}", tickets[0].id);
    refuses(lab, from(&bearer, good()), InvalidInput, "source");
    let both = from("ann", signal_by(id, &tickets[0], "go"));
    refuses(lab, both, InvalidInput, "source");
    refuses(lab, keyed(&"x".repeat(257), good()), TooLarge, "key");
    let wordy = DeliverSignal { correlation: Some("x".repeat(257)), ..good() };
    refuses(lab, wordy, TooLarge, "correlation");
    let huge = DeliverSignal { payload: Payload::bytes(vec![0; (1 << 20) + 1]), ..good() };
    refuses(lab, huge, TooLarge, "payload");
    let late = DeliverSignal { resume_delay: days(36_500), ..good() };
    refuses(lab, late, InvalidInput, "resume_delay_ms");
    let error = lab.refused(signal_at(id, "back", "go"));
    assert_eq!(error.code(), Code::NotFound);
    let error = lab.refused(signal(super::super::fixtures::id(9), "go"));
    assert_eq!(error.code(), Code::NotFound);
    let elsewhere = DeliverSignal { namespace: "there".into(), ..good() };
    assert_eq!(lab.refused(elsewhere).code(), Code::NotFound);
    assert_eq!(lab.deliver(good()), RESUMED);
}

pub fn an_ended_execution_takes_no_signals(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        let error = lab.refused(signal(id, "late"));
        assert_eq!(error.code(), Code::AlreadyTerminal, "{status}");
        assert_eq!(lab.refused(signal_at(id, "door", "late")).code(), Code::NotFound);
    }
}

pub fn a_closed_waitpoint_takes_no_signals_and_says_why(lab: &mut Lab) {
    for why in ["satisfied", "resumed", "by_hand", "ended", "timed_out", "expired"] {
        let lease = lab.lease(work());
        let expires_in = (why == "expired").then(|| secs(30));
        lab.ok(Renew { ttl: Some(hours(1)), ..renew(&lease) });
        let early = CreateWaitpoint { expires_in, ..create_waitpoint(&lease, "door") };
        let ticket = lab.ok(early).ticket;
        let timed = Suspend { timeout: Some(secs(60)), ..suspend(&lease, Condition::at("door")) };
        lab.suspend(timed);
        let id = lease.id();
        match why {
            "satisfied" => lab.run(signal_at(id, "door", "go")),
            "resumed" => lab.run(Resume::new(id)),
            "by_hand" => lab.run(close_waitpoint(id, "door")),
            "ended" => lab.run(Cancel::new(id)),
            "timed_out" => lab.advance(secs(60)),
            _ => lab.advance(secs(30)),
        }
        for late in
            [signal_by(lease.id(), &ticket, "late"), signal_to(lease.id(), ticket.id, "late")]
        {
            assert_eq!(why_closed(&lab.refused(late)), why);
        }
        assert_eq!(lab.doors(lease.id()), format!("door:{why}"));
    }
}

pub fn a_signal_in_another_namespace_reaches_nothing(lab: &mut Lab) {
    let (mine, tickets) = lab.suspended(Condition::at("door"));
    let submitted = lab.ok(Submit { namespace: "there".into(), executions: vec![work().id(mine)] });
    assert_eq!(submitted.executions[0].id(), mine, "the same id may be used in both");
    let there = |signal: DeliverSignal| DeliverSignal { namespace: "there".into(), ..signal };
    let forged = there(signal_by(mine, &tickets[0], "go"));
    assert_eq!(lab.refused(forged).code(), Code::InvalidToken);
    assert_eq!(lab.refused(there(signal_at(mine, "door", "go"))).code(), Code::NotFound);
    assert_eq!(lab.deliver(there(signal(mine, "go"))), Effect::Buffered);
    assert_eq!(lab.status(mine), Status::Suspended);
    assert_eq!(lab.signals(mine), []);
}

pub fn an_execution_has_at_most_ten_thousand_signals(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door").named("go"));
    for batch in 0..10 {
        let count = if batch == 9 { 999 } else { 1000 };
        let mut calls: Vec<_> =
            (0..count).map(|_| lab.call(signal_at(id, "door", "spam"))).collect();
        let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
        lab.batch(&mut jobs);
        assert!(calls.into_iter().all(|call| call.into_answer().is_ok()));
    }
    let last = lab.ok(keyed("last", signal_at(id, "door", "spam")));
    let error = lab.apply(signal_at(id, "door", "go")).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    assert!(error.message().contains("10000"), "{error}");
    let error = lab.apply(signal(id, "go")).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    let again = lab.ok(keyed("last", signal_at(id, "door", "spam")));
    assert_eq!((again.signal, again.effect), (last.signal, Effect::Duplicate));
    assert_eq!(lab.status(id), Status::Suspended);
    let page = lab.see(ListSignals { after: 9999, ..list_signals(id) });
    assert_eq!((page.signals.len(), page.next), (1, None));
    lab.ok(Resume::new(id));
    assert_eq!(lab.resumption(id).1.signals.len(), 1000);
}
