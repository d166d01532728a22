//! Conditions: when what came is enough. That all of them mean what they say is compared with an
//! evaluator elsewhere; these are the promises in words.

use everloom_core::*;
use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::waiting::*;

/// Sends a signal named `x` from `s` to each of these waitpoints.
#[track_caller]
fn send<const N: usize>(lab: &mut Lab, one: &Waiting, keys: [&str; N]) -> Vec<Effect> {
    keys.iter().map(|key| effect(lab, one.signal(key, "x", "s"))).collect()
}

/// Refuses to wait for it, and tells where it is wrong.
#[track_caller]
fn wrong(lab: &mut Lab, condition: Condition) -> Vec<String> {
    let leased = lab.lease(work());
    let error = lab.refused(suspend(&leased, condition));
    assert_eq!(error.code(), Code::InvalidInput, "{error}");
    assert_eq!(lab.status(leased.id()), Status::Active);
    match error.field() {
        Some(field) => vec![field.to_owned()],
        None => error.violations().into_iter().map(|one| one.field).collect(),
    }
}

pub fn a_signal_must_have_the_name_that_is_waited_for(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a").named("go"));
    for name in ["Go", "go.", "g", "gone", "a"] {
        assert_eq!(effect(lab, one.signal("a", name, "s")), ignored(Offered::OtherName));
    }
    assert_eq!(effect(lab, one.signal("a", "go", "s")), RESUMED);
}

pub fn all_parts_must_come_in_any_order(lab: &mut Lab) {
    let all = Condition::all(["a", "b", "c"].map(Condition::at));
    for order in [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]] {
        let one = waiting(lab, all.clone());
        assert_eq!(send(lab, &one, order), [Effect::Recorded, Effect::Recorded, RESUMED]);
        assert_eq!(lab.doors(one.id), "a:satisfied b:satisfied c:satisfied");
    }
}

pub fn several_names_may_be_wanted_at_one_waitpoint(lab: &mut Lab) {
    let both = Condition::all(["go", "pay"].map(|name| Condition::at("a").named(name)));
    let one = waiting(lab, both);
    assert_eq!(one.tickets.len(), 1);
    assert_eq!(effect(lab, one.bearing("a", "pay")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("a", "pay")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.bearing("a", "x")), ignored(Offered::OtherName));
    assert_eq!(effect(lab, one.bearing("a", "go")), RESUMED);
}

pub fn one_of_several_parts_may_do(lab: &mut Lab) {
    let any = Condition::any([Condition::all(["a", "b"].map(Condition::at)), Condition::at("c")]);
    let one = waiting(lab, any.clone());
    assert_eq!(send(lab, &one, ["a", "c"]), [Effect::Recorded, RESUMED]);
    let one = waiting(lab, any);
    assert_eq!(send(lab, &one, ["b", "a"]), [Effect::Recorded, RESUMED]);
}

pub fn waitpoints_are_counted_once_each(lab: &mut Lab) {
    let one = waiting(lab, Condition::count(2, Distinct::Waitpoints, ["a", "b", "c"]));
    assert_eq!(effect(lab, one.signal("b", "x", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.signal("b", "y", "bob")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.signal("c", "x", "ann")), RESUMED);
}

pub fn signals_are_counted_whoever_sends_them(lab: &mut Lab) {
    let one = waiting(lab, Condition::count(3, Distinct::Signals, ["a", "b"]));
    assert_eq!(send(lab, &one, ["a", "a", "b"]), [Effect::Recorded, Effect::Recorded, RESUMED]);
    let one = waiting(lab, Condition::count(2, Distinct::Signals, ["a"]));
    let first = keyed("k", one.signal("a", "x", "s"));
    assert_eq!(effect(lab, first.clone()), Effect::Recorded);
    assert_eq!(effect(lab, first), Effect::Duplicate);
    assert_eq!(effect(lab, one.signal("a", "x", "s")), RESUMED);
}

pub fn senders_are_counted_once_each(lab: &mut Lab) {
    let one = waiting(lab, Condition::count(3, Distinct::Sources, ["a", "b"]));
    assert_eq!(effect(lab, one.signal("a", "x", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.signal("b", "y", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.bearing("a", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("a", "x")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.bearing("b", "x")), RESUMED);
}

pub fn a_count_looks_only_at_the_name_it_wants(lab: &mut Lab) {
    use Distinct::{Signals, Sources, Waitpoints};
    for distinct in [Waitpoints, Signals, Sources] {
        let one = waiting(lab, Condition::count(2, distinct, ["a", "b"]).named("yes"));
        assert_eq!(effect(lab, one.signal("a", "no", "ann")), ignored(Offered::OtherName));
        assert_eq!(effect(lab, one.signal("a", "yes", "ann")), Effect::Recorded);
        assert_eq!(effect(lab, one.signal("b", "no", "bob")), ignored(Offered::OtherName));
        assert_eq!(effect(lab, one.signal("b", "yes", "bob")), RESUMED);
    }
}

pub fn each_count_looks_at_its_own_waitpoints(lab: &mut Lab) {
    let count = |key: &str| Condition::count(2, Distinct::Signals, [key]);
    let one = waiting(lab, Condition::all([count("a"), count("b")]));
    assert_eq!(send(lab, &one, ["a", "a"]), [Effect::Recorded; 2]);
    assert_eq!(send(lab, &one, ["a", "a"]), [ignored(Offered::NothingNew); 2]);
    assert_eq!(send(lab, &one, ["b", "b"]), [Effect::Recorded, RESUMED]);
    let sources = |key: &str| Condition::count(1, Distinct::Sources, [key]);
    let one = waiting(lab, Condition::all([sources("a"), sources("b")]));
    assert_eq!(send(lab, &one, ["a", "b"]), [Effect::Recorded, RESUMED]);
}

pub fn a_signal_counts_in_every_part_that_means_it(lab: &mut Lab) {
    let one = waiting(
        lab,
        Condition::all([
            Condition::at("a"),
            Condition::at("a").named("x"),
            Condition::count(1, Distinct::Sources, ["a", "b"]),
        ]),
    );
    assert_eq!(send(lab, &one, ["a"]), [RESUMED]);
}

pub fn parts_may_be_nested_four_deep(lab: &mut Lab) {
    use Distinct::{Sources, Waitpoints};
    let deep = |leaf: Condition| Condition::all([Condition::all([Condition::all([leaf])])]);
    let one = waiting(lab, deep(Condition::count(2, Waitpoints, ["a", "b"])));
    assert_eq!(send(lab, &one, ["a", "b"]), [Effect::Recorded, RESUMED]);
    let one = waiting(
        lab,
        Condition::any([
            Condition::all([
                Condition::any([Condition::at("a"), Condition::approval("b", 1)]),
                Condition::all([Condition::at("c"), Condition::count(2, Sources, ["d"])]),
            ]),
            Condition::Operator,
        ]),
    );
    assert_eq!(send(lab, &one, ["c", "d"]), [Effect::Recorded; 2]);
    assert_eq!(effect(lab, one.bearing("d", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.approve("b", "ann")), RESUMED);
    let five = Condition::all([deep(Condition::at("a"))]);
    assert_eq!(wrong(lab, five), ["condition.of[0].of[0].of[0].of[0]"]);
}

pub fn what_came_early_counts_in_every_kind_of_part(lab: &mut Lab) {
    let leased = lab.lease(work());
    let tickets = ["a", "b"].map(|key| pending(lab, &leased, key)).into();
    let early = Waiting { id: leased.id(), tickets };
    for name in ["x", "y"] {
        assert_eq!(effect(lab, early.bearing("a", name)), Effect::Buffered);
    }
    assert_eq!(effect(lab, DeliverSignal::new(early.id, "z")), Effect::Buffered);
    assert_eq!(effect(lab, early.approve("b", "ann")), Effect::Buffered);
    let condition = Condition::all([
        Condition::count(2, Distinct::Signals, ["a"]),
        Condition::all([Condition::signal().named("z"), Condition::approval("b", 2)]),
        Condition::at("c"),
    ]);
    let one = wait(lab, &leased, condition);
    let told = "all of (1 of 2 approvals: waiting for b; a signal at c)";
    assert_eq!(waits_for(lab, one.id).unwrap(), told);
    assert_eq!(effect(lab, one.approve("b", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.approve("b", "bob")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("c", "x")), RESUMED);
}

pub fn signals_to_the_execution_and_to_its_waitpoints_are_apart(lab: &mut Lab) {
    let one = waiting(lab, Condition::all([Condition::signal().named("go"), Condition::at("a")]));
    let to_itself = |name: &str| DeliverSignal::new(one.id, name);
    assert_eq!(effect(lab, one.signal("a", "go", "s")), Effect::Recorded);
    assert_eq!(effect(lab, to_itself("stay")), Effect::Buffered);
    assert_eq!(lab.status(one.id), Status::Suspended);
    assert_eq!(effect(lab, to_itself("go")), RESUMED);
    let one = waiting(lab, Condition::at("a"));
    assert_eq!(effect(lab, DeliverSignal::new(one.id, "a")), Effect::Buffered);
}

pub fn no_signal_stands_for_an_operator(lab: &mut Lab) {
    let leased = lab.lease(work());
    let ticket = pending(lab, &leased, "a");
    wait(lab, &leased, Condition::Operator);
    let both = waiting(lab, Condition::all([Condition::Operator, Condition::at("a")]));
    for name in ["operator", "resume", "operator_only", "timeout", "approved"] {
        let to_itself = DeliverSignal::new(leased.id(), name);
        assert_eq!(effect(lab, to_itself), Effect::Buffered);
        assert_eq!(effect(lab, bearing(&ticket.token, leased.id(), name)), Effect::Buffered);
        lab.ok(both.signal("a", name, "operator"));
    }
    for id in [leased.id(), both.id] {
        assert_eq!(lab.status(id), Status::Suspended);
        lab.ok(Resume::new(id));
        assert_eq!(lab.status(id), Status::Resumable);
    }
}

pub fn no_signal_stands_for_time(lab: &mut Lab) {
    let leased = lab.lease(work());
    let error = lab.refused(suspend(&leased, Condition::Timeout));
    assert_eq!(error.field(), Some("condition"), "it needs a time to wait for");
    let timeout = Some(hours(1));
    lab.suspend(Suspend { timeout, ..suspend(&leased, Condition::Timeout) });
    for name in ["timeout", "clock", "timeout_only"] {
        let signal = DeliverSignal { source: Some("clock".into()), ..signal(leased.id(), name) };
        assert_eq!(effect(lab, signal), Effect::Buffered);
    }
    lab.advance(ms(3_599_999));
    assert_eq!(lab.status(leased.id()), Status::Suspended);
    lab.advance(ms(1));
    assert_eq!(lab.status(leased.id()), Status::Resumable);
}

pub fn what_is_wrong_with_a_condition_is_told_with_its_place(lab: &mut Lab) {
    let nothing = Vec::<String>::new();
    let of = |index: usize| format!("condition.of[{index}]");
    let found = wrong(
        lab,
        Condition::all([
            Condition::any([]),
            Condition::at("a"),
            Condition::count(0, Distinct::Sources, ["a"]),
            Condition::count(1, Distinct::Signals, nothing),
            Condition::count(3, Distinct::Waitpoints, ["a", "b", "a"]),
            Condition::count(3, Distinct::Sources, ["a"]),
            Condition::approval("a", 0),
            Condition::at("not a key").named("not a name"),
            Condition::approval("a", 1).by_role("not a role"),
        ]),
    );
    assert_eq!(found, [of(0), of(2), of(3), of(4), of(6), of(7), of(7), of(8)]);
    let at = |number: usize| Condition::at(format!("w{number}"));
    let most = Limits::OPEN_WAITPOINTS;
    assert_eq!(wrong(lab, Condition::all((0..Limits::CONDITION_PARTS).map(at))), ["condition"]);
    let keys = (0..=most).map(|number| format!("w{number}"));
    assert_eq!(wrong(lab, Condition::count(1, Distinct::Sources, keys)), ["condition"]);
    let too_many = u32::try_from(Limits::CONDITION_COUNT).unwrap() + 1;
    assert_eq!(wrong(lab, Condition::approval("a", too_many)), ["condition"]);
    assert_eq!(wrong(lab, Condition::count(too_many, Distinct::Sources, ["a"])), ["condition"]);
}

pub fn a_condition_may_wait_at_as_many_waitpoints_as_can_be_open(lab: &mut Lab) {
    let keys = (0..Limits::OPEN_WAITPOINTS).map(|number| format!("w{number:03}"));
    let most = u32::try_from(Limits::OPEN_WAITPOINTS).unwrap();
    let one = waiting(lab, Condition::count(most, Distinct::Waitpoints, keys.clone()));
    let mut calls: Vec<_> = keys.map(|key| lab.call(one.bearing(&key, "x"))).collect();
    let mut jobs: Vec<_> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    lab.batch(&mut jobs);
    let effects: Vec<_> =
        calls.into_iter().map(|call| call.into_answer().unwrap().effect).collect();
    let (last, before) = effects.split_last().unwrap();
    assert_eq!(*last, RESUMED);
    assert!(before.iter().all(|effect| *effect == Effect::Recorded));
}

pub fn what_is_missing_is_told_in_words(lab: &mut Lab) {
    let one = waiting(
        lab,
        Condition::all([
            Condition::at("finance").named("paid"),
            Condition::count(2, Distinct::Waitpoints, ["legal", "ops", "sec"]),
            Condition::any([Condition::approval("boss", 1), Condition::signal()]),
        ]),
    );
    let told = |lab: &mut Lab| {
        let words = waits_for(lab, one.id).unwrap();
        assert!(lab.explain(one.id).contains(&words));
        words
    };
    assert_eq!(
        told(lab),
        "all of (the signal `paid` at finance; 0 of 2 waitpoints: waiting for legal, ops, sec; \
         one of (0 of 1 approval: waiting for boss; a signal))"
    );
    lab.ok(one.signal("ops", "x", "s"));
    lab.ok(one.approve("boss", "ann"));
    assert_eq!(
        told(lab),
        "all of (the signal `paid` at finance; 1 of 2 waitpoints: waiting for legal, sec)"
    );
    lab.ok(one.bearing("sec", "x"));
    assert_eq!(told(lab), "the signal `paid` at finance");
    lab.ok(one.bearing("finance", "paid"));
    assert_eq!(waits_for(lab, one.id), None);
}

pub fn a_condition_reads_as_plain_json(lab: &mut Lab) {
    let text = json!({
        "when": "all",
        "of": [
            { "when": "signal" },
            { "when": "signal", "waitpoint": "a", "name": "go" },
            { "when": "approval", "waitpoint": "b" },
            {
                "when": "any",
                "of": [
                    { "when": "count", "n": 2, "distinct": "sources", "waitpoints": ["a", "b"] },
                    { "when": "operator" },
                    { "when": "timeout" },
                ],
            },
        ],
    });
    let read: Condition = serde_json::from_value(text).unwrap();
    let count = Condition::count(2, Distinct::Sources, ["a", "b"]);
    let expected = Condition::all([
        Condition::signal(),
        Condition::at("a").named("go"),
        Condition::approval("b", 1),
        Condition::any([count, Condition::Operator, Condition::Timeout]),
    ]);
    assert_eq!(read, expected);
    let leased = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(hours(1)), ..suspend(&leased, expected.clone()) });
    assert_eq!(lab.suspensions(leased.id())[0].terms.condition, expected);
    let bad = |text: Value| serde_json::from_value::<Condition>(text).is_err();
    assert!(bad(json!({ "when": "never" })));
    assert!(bad(json!({ "waitpoint": "a" })));
    assert!(bad(json!({ "when": "signal", "waitpont": "a" })));
    assert!(bad(json!({ "when": "count", "n": -1, "distinct": "sources", "waitpoints": [] })));
    assert!(bad(json!({ "when": "count", "n": 1, "distinct": "kinds", "waitpoints": [] })));
}

pub fn what_a_condition_has_seen_survives_a_restart(lab: &mut Lab) {
    let one = waiting(
        lab,
        Condition::all([
            Condition::count(2, Distinct::Sources, ["a"]),
            Condition::count(2, Distinct::Signals, ["b"]),
            Condition::approval("c", 2),
            Condition::at("d"),
        ]),
    );
    lab.ok(one.signal("a", "x", "ann"));
    lab.ok(one.signal("b", "x", "ann"));
    lab.ok(one.approve("c", "ann"));
    lab.ok(one.signal("d", "x", "ann"));
    let before = waits_for(lab, one.id);
    lab.reopen();
    assert_eq!(waits_for(lab, one.id), before);
    assert_eq!(effect(lab, one.signal("a", "x", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.approve("c", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.signal("a", "x", "bob")), Effect::Recorded);
    assert_eq!(effect(lab, one.signal("b", "x", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.approve("c", "bob")), RESUMED);
}
