//! Whoever bears a token may answer at one waitpoint until that closes, and nothing else.

use everloom_core::*;

use super::tokens::{not_valid, parts, refuse_all};
use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::waiting::*;

/// Closes the waitpoint `a` of a waiting execution in a way that its bearer can ask about.
type Close = fn(&mut Lab, &Waiting);

/// Every way in which a waitpoint closes, and what that is called.
const CLOSES: [(&str, Close); 11] = [
    ("satisfied", |lab, one| lab.run(one.signal("a", "go", "s"))),
    ("resumed", |lab, one| lab.run(Resume::new(one.id))),
    ("timed_out", |lab, _| lab.advance(hours(1))),
    ("ended", |lab, one| lab.run(Cancel::new(one.id))),
    ("by_hand", |lab, one| lab.run(close_waitpoint(one.id, "a"))),
    ("deleted", |lab, one| {
        lab.run(Cancel::new(one.id));
        lab.run(delete(one.id));
    }),
    ("satisfied", |lab, one| {
        lab.run(one.signal("a", "go", "s"));
        let leased = lab.take(one.id);
        lab.run(complete(&leased));
    }),
    ("ended", |lab, one| {
        lab.run(Cancel::new(one.id));
        lab.run(replay(one.id));
    }),
    ("resumed", |lab, one| {
        lab.run(Resume::new(one.id));
        let leased = lab.take(one.id);
        wait(lab, &leased, Condition::at("a"));
    }),
    ("deleted", |lab, one| {
        lab.run(Cancel::new(one.id));
        lab.advance(days(30));
    }),
    ("deleted", |lab, one| {
        lab.run(Cancel::new(one.id));
        lab.run(delete(one.id));
        let leased = lab.lease(work().id(one.id));
        wait(lab, &leased, Condition::at("a"));
    }),
];

fn waits_an_hour(lab: &mut Lab) -> Waiting {
    let leased = lab.lease(work());
    let wait = suspend(&leased, Condition::at("a").named("go"));
    let (timeout, on_timeout) = (Some(hours(1)), Some(OnTimeout::Fail));
    let tickets = lab.suspend(Suspend { timeout, on_timeout, ..wait });
    Waiting { id: leased.id(), tickets }
}

pub fn a_good_token_of_a_closed_waitpoint_learns_why(lab: &mut Lab) {
    for (why, close) in CLOSES {
        let one = waits_an_hour(lab);
        close(lab, &one);
        assert_eq!(closed(lab, one.bearing("a", "go")), why);
        let to = SignalTo::Token(one.token("a").clone());
        assert_eq!(closed(lab, Approve::new(one.id, to, None)), why);
    }
}

pub fn a_bad_token_learns_nothing_of_what_has_happened(lab: &mut Lab) {
    for (_, close) in CLOSES {
        let one = waits_an_hour(lab);
        let [kid, id, expiry, mac] = &parts(one.token("a"))[..] else { panic!("four parts") };
        let bad = [
            format!("{kid}.{id}.{expiry}.{}", "A".repeat(43)),
            format!("k9.{id}.{expiry}.{mac}"),
            format!("{kid}.{}.{expiry}.{mac}", "A".repeat(22)),
        ];
        close(lab, &one);
        refuse_all(lab, one.id, bad);
    }
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    let kid = parts(&early.token)[0].clone();
    let unknown = format!("{kid}.{}.0.{}", "A".repeat(22), "A".repeat(43));
    refuse_all(lab, leased.id(), [unknown.clone()]);
    lab.submit(work().id(id(5)));
    refuse_all(lab, id(5), [unknown.clone()]);
    refuse_all(lab, id(404), [unknown]);
}

pub fn a_token_dies_at_the_moment_its_waitpoint_expires(lab: &mut Lab) {
    let leased = lab.lease(work());
    let mortal = CreateWaitpoint { expires_in: Some(secs(20)), ..create_waitpoint(&leased, "a") };
    let ticket = lab.ok(mortal).ticket;
    assert_eq!(ticket.expires_at, Some(lab.now() + secs(20)));
    assert_eq!(parts(&ticket.token)[2], (lab.now() + secs(20)).as_millis().to_string());
    lab.pass(ms(19_999));
    let signal = bearing(&ticket.token, leased.id(), "x");
    assert_eq!(effect(lab, signal.clone()), Effect::Buffered);
    lab.pass(ms(1));
    // The clock has not looked yet.
    assert_eq!(closed(lab, signal.clone()), "expired");
    lab.advance(ms(0));
    assert_eq!(closed(lab, signal), "expired");
    assert_eq!(lab.signals(leased.id()).len(), 1);
}

pub fn a_retried_signal_is_a_duplicate_as_long_as_it_is_known(lab: &mut Lab) {
    let one = waits_an_hour(lab);
    let first = DeliverSignal { key: Some("k".into()), ..one.bearing("a", "go") };
    let delivered = lab.ok(first.clone());
    assert_eq!(delivered.effect, RESUMED);
    let duplicate = Delivered { signal: delivered.signal, effect: Effect::Duplicate };
    assert_eq!(lab.ok(first.clone()), duplicate);
    let leased = lab.take(one.id);
    assert_eq!(lab.ok(first.clone()), duplicate);
    let two = wait(lab, &leased, Condition::at("a"));
    assert_eq!(lab.ok(first.clone()), duplicate);
    assert_eq!(lab.status(one.id), Status::Suspended);
    assert_eq!(effect(lab, two.bearing("a", "x")), RESUMED);
    let leased = lab.take(one.id);
    lab.ok(complete(&leased));
    let before = lab.snapshot();
    assert_eq!(lab.ok(first.clone()), duplicate);
    assert_eq!(lab.snapshot(), before);
    lab.ok(delete(one.id));
    assert_eq!(closed(lab, first), "deleted");
}

pub fn a_retry_with_a_bad_token_is_no_duplicate(lab: &mut Lab) {
    let one = waits_an_hour(lab);
    let first = DeliverSignal { key: Some("k".into()), ..one.bearing("a", "go") };
    lab.ok(first.clone());
    let mut text = one.token("a").as_str().to_owned();
    text.pop();
    let bad = DeliverSignal { to: SignalTo::Token(Token::new(text)), ..first };
    assert_eq!(lab.refused(bad), not_valid());
}

pub fn an_old_token_does_not_touch_a_new_suspension(lab: &mut Lab) {
    let ends: [(&str, Close); 4] = [
        ("satisfied", |lab, one| lab.run(one.bearing("a", "go"))),
        ("resumed", |lab, one| lab.run(Resume::new(one.id))),
        ("timed_out", |lab, _| lab.advance(hours(1))),
        ("by_hand", |lab, one| {
            lab.run(close_waitpoint(one.id, "a"));
            lab.run(Resume::new(one.id));
        }),
    ];
    for (why, end) in ends {
        let leased = lab.lease(work());
        let condition = Condition::any([Condition::at("a"), Condition::Operator]);
        let first = Suspend {
            timeout: Some(hours(1)),
            on_timeout: Some(OnTimeout::Resume),
            ..suspend(&leased, condition.clone())
        };
        let old = Waiting { id: leased.id(), tickets: lab.suspend(first) };
        end(lab, &old);
        let leased = lab.take(old.id);
        let new = wait(lab, &leased, condition);
        assert_ne!(new.token("a"), old.token("a"));
        assert_ne!(new.ticket("a").id, old.ticket("a").id);
        assert_eq!(closed(lab, old.bearing("a", "go")), why);
        let to = SignalTo::Token(old.token("a").clone());
        assert_eq!(closed(lab, Reject::new(old.id, to, None)), why);
        assert_eq!(effect(lab, new.bearing("a", "x")), RESUMED);
    }
}

pub fn a_token_of_a_former_run_does_not_touch_the_next(lab: &mut Lab) {
    let one = waits_an_hour(lab);
    lab.ok(Cancel::new(one.id));
    lab.ok(replay(one.id));
    let leased = lab.take(one.id);
    let new = wait(lab, &leased, Condition::at("a"));
    assert_eq!(closed(lab, one.bearing("a", "go")), "ended");
    assert_eq!(effect(lab, new.bearing("a", "x")), RESUMED);
}

pub fn the_token_of_an_open_waitpoint_stays_the_same(lab: &mut Lab) {
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    let again = lab.ok(create_waitpoint(&leased, "a"));
    assert!(again.repeated);
    assert_eq!(again.ticket, early);
    let one = wait(lab, &leased, Condition::at("a"));
    assert_eq!(one.tickets, std::slice::from_ref(&early));
    let repeated = wait(lab, &leased, Condition::at("a"));
    assert_eq!(repeated.tickets, [early]);
}

pub fn a_bearer_is_a_source_of_its_own(lab: &mut Lab) {
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    lab.ok(bearing(&early.token, leased.id(), "x"));
    let one = wait(lab, &leased, Condition::count(3, Distinct::Sources, ["a", "b"]));
    assert_eq!(effect(lab, one.bearing("a", "x")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.bearing("b", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.signal("b", "x", "ann")), RESUMED);
    let sources: Vec<_> = lab.signals(one.id).into_iter().map(|one| one.source).collect();
    let [a, b] = ["a", "b"].map(|key| format!("token:{}", one.ticket(key).id));
    assert_eq!(sources, [a.as_str(), &a, &b, "ann"]);
}

pub fn a_bearer_can_not_name_another_source(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let own = format!("token:{}", one.ticket("a").id);
    for source in ["ann", "operator", &own] {
        let source = Some(source.to_owned());
        let error = lab.refused(DeliverSignal { source, ..one.bearing("a", "x") });
        assert_eq!(error.code(), Code::InvalidInput);
        assert!(error.message().contains("leave it out with a token"), "{error}");
    }
    let to = SignalTo::Token(one.token("a").clone());
    for error in [
        lab.refused(Approve::new(one.id, to.clone(), Some("ann"))),
        lab.refused(Reject::new(one.id, to, Some(&own))),
    ] {
        assert_eq!(error.code(), Code::InvalidInput);
    }
}

pub fn nobody_with_authority_passes_for_a_bearer(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let bearer = format!("token:{}", one.ticket("a").id);
    for source in [bearer.as_str(), "token:", "token:x"] {
        let to_waitpoint = lab.refused(one.signal("a", "x", source));
        let source = Some(source.to_owned());
        let to_execution = lab
            .refused(DeliverSignal { source: source.clone(), ..DeliverSignal::new(one.id, "x") });
        for error in [to_waitpoint, to_execution] {
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("source")));
        }
        let by = source.as_deref();
        for error in [
            lab.refused(Approve::new(one.id, at("a"), by)),
            lab.refused(Reject::new(one.id, at("a"), by)),
        ] {
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("by")));
        }
    }
    for source in ["token", "Token:x", "my-token:x"] {
        let one = waiting(lab, Condition::at("a"));
        assert_eq!(effect(lab, one.signal("a", "x", source)), RESUMED);
    }
}

pub fn a_bearers_keys_are_apart_from_everyone_elses(lab: &mut Lab) {
    let one = waiting(lab, Condition::count(9, Distinct::Signals, ["a", "b"]));
    let key = |signal: DeliverSignal, key: &str| DeliverSignal { key: Some(key.into()), ..signal };
    let a = one.ticket("a").id;
    let all = [
        key(one.bearing("a", "x"), "k"),
        key(one.bearing("b", "x"), "k"),
        key(one.signal("a", "x", "ann"), "k"),
        key(one.signal("a", "x", "ann"), &format!("{a}/k")),
        key(one.bearing("a", "x"), &format!("{a}/k")),
        key(one.signal("a", "x", "ann"), "/k"),
        key(one.bearing("a", "x"), "/k"),
    ];
    let first: Vec<_> = all.iter().map(|signal| lab.ok(signal.clone())).collect();
    assert!(first.iter().all(|one| one.effect == Effect::Recorded), "{first:?}");
    for (signal, first) in all.into_iter().zip(first) {
        let again = Delivered { signal: first.signal, effect: Effect::Duplicate };
        assert_eq!(lab.ok(signal), again);
    }
    // Among those with authority a key means the same wherever the signal goes.
    let elsewhere = key(one.signal("b", "y", "bob"), "k");
    assert_eq!(effect(lab, elsewhere), Effect::Duplicate);
}

pub fn a_bearer_may_not_say_when_the_execution_goes_on(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    let (to, resume_delay) = (SignalTo::Token(one.token("a").clone()), ms(1));
    for error in [
        lab.refused(DeliverSignal { resume_delay, ..one.bearing("a", "x") }),
        lab.refused(Approve { resume_delay, ..Approve::new(one.id, to.clone(), None) }),
        lab.refused(Reject { resume_delay, ..Reject::new(one.id, to, None) }),
    ] {
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("resume_delay_ms")));
        assert!(error.message().contains("only callers without one"), "{error}");
    }
    lab.ok(Approve { resume_delay, ..one.approve("a", "ann") });
    assert_eq!(lab.status(one.id), Status::Delayed);
}

pub fn a_bearer_can_not_use_up_the_signals_of_an_execution(lab: &mut Lab) {
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    let speak = |lab: &mut Lab, token: &Token, times: u32| {
        let bearing = bearing(token, leased.id(), "x");
        let mut calls: Vec<_> = (0..times).map(|_| lab.call(bearing.clone())).collect();
        lab.batch(&mut calls.iter_mut().map(|call| call as &mut dyn Job).collect::<Vec<_>>());
        calls.into_iter().filter_map(|call| call.into_answer().err()).collect::<Vec<_>>()
    };
    // Some while it is pending, the rest while it is waited at.
    let half = Limits::TOKEN_SIGNALS / 2;
    assert_eq!(speak(lab, &early.token, half), []);
    let keyed = DeliverSignal { key: Some("k".into()), ..bearing(&early.token, leased.id(), "x") };
    let first = lab.ok(keyed.clone()).signal;
    let condition = Condition::all([Condition::at("a").named("go"), Condition::at("b")]);
    let one = wait(lab, &leased, condition);
    lab.reopen();
    let refused = speak(lab, one.token("a"), half + 1);
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|error| error.code() == Code::TooLarge), "{refused:?}");
    assert_eq!(lab.refused(one.bearing("a", "go")).code(), Code::TooLarge);
    let again = Delivered { signal: first, effect: Effect::Duplicate };
    assert_eq!(lab.ok(keyed), again, "what was heard before is known");
    // Nobody else is kept from speaking, there or elsewhere.
    assert_eq!(effect(lab, one.signal("a", "go", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("b", "x")), RESUMED);
}

pub fn tokens_survive_a_restart(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let other = waiting(lab, Condition::at("a"));
    lab.ok(Resume::new(other.id));
    lab.reopen();
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
    assert_eq!(closed(lab, other.bearing("a", "x")), "resumed");
}
