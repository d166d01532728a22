//! A signal that is sent again under its key is the one that was sent before.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

#[track_caller]
fn is_duplicate(lab: &mut Lab, signal: DeliverSignal, of: Delivered) {
    let before = lab.snapshot();
    let again = lab.ok(signal);
    assert_eq!((again.signal, again.effect), (of.signal, Effect::Duplicate));
    assert_eq!(lab.snapshot(), before, "a duplicate changes nothing");
}

/// Suspends, delivers a signal that lets the execution go on, and repeats it in every situation
/// that follows.
#[track_caller]
fn is_duplicate_for_ever(
    lab: &mut Lab,
    condition: &Condition,
    signal: impl Fn(ExecutionId, &[Ticket]) -> DeliverSignal,
) {
    let (id, tickets) = lab.suspended(condition.clone());
    let signal = || signal(id, &tickets);
    let first = lab.ok(signal());
    assert_eq!(first.effect, RESUMED);
    is_duplicate(lab, signal(), first);
    let lease = lab.take(id);
    is_duplicate(lab, signal(), first);
    lab.suspend(suspend(&lease, condition.clone()));
    is_duplicate(lab, signal(), first);
    assert_eq!(lab.status(id), Status::Suspended, "it does not satisfy the next one");
    is_duplicate(lab, DeliverSignal { name: "other".into(), ..signal() }, first);
    lab.reopen();
    lab.ok(Cancel::new(id));
    is_duplicate(lab, signal(), first);
    lab.ok(replay(id));
    is_duplicate(lab, signal(), first);
}

pub fn a_repeated_signal_to_the_execution_is_a_duplicate_for_ever(lab: &mut Lab) {
    is_duplicate_for_ever(lab, &Condition::signal(), |id, _| keyed("k", signal(id, "go")));
}

pub fn a_repeated_signal_to_a_waitpoint_by_key_is_a_duplicate_for_ever(lab: &mut Lab) {
    let condition = Condition::at("door");
    is_duplicate_for_ever(lab, &condition, |id, _| keyed("k", signal_at(id, "door", "go")));
}

pub fn a_repeated_signal_to_a_waitpoint_by_id_is_a_duplicate_for_ever(lab: &mut Lab) {
    let condition = Condition::at("door");
    is_duplicate_for_ever(lab, &condition, |id, all| keyed("k", signal_to(id, all[0].id, "go")));
}

pub fn a_repeated_signal_by_token_is_a_duplicate_for_ever(lab: &mut Lab) {
    let condition = Condition::at("door");
    is_duplicate_for_ever(lab, &condition, |id, all| keyed("k", signal_by(id, &all[0], "go")));
}

pub fn recorded_ignored_and_kept_signals_are_known_by_their_keys_too(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(create_waitpoint(&lease, "door"));
    let early = keyed("early", signal_at(id, "door", "x"));
    let kept = lab.ok(early.clone());
    assert_eq!(kept.effect, Effect::Buffered);
    is_duplicate(lab, early.clone(), kept);
    let condition = Condition::all([
        Condition::count(2, Distinct::Signals, ["door"]).named("x"),
        Condition::signal().named("y"),
    ]);
    lab.suspend(suspend(&lease, condition));
    is_duplicate(lab, early, kept);
    for (signal, effect) in [
        (signal_at(id, "door", "other"), Effect::Ignored { why: Offered::OtherName }),
        (signal(id, "other"), Effect::Buffered),
        (signal(id, "y"), Effect::Recorded),
    ] {
        let signal = keyed(&format!("{effect:?}"), signal);
        let first = lab.ok(signal.clone());
        assert_eq!(first.effect, effect);
        is_duplicate(lab, signal, first);
    }
    assert_eq!(lab.status(id), Status::Suspended);
}

pub fn the_bearer_of_a_token_can_not_take_the_names_of_others(lab: &mut Lab) {
    let keys = ["a", "b"];
    let (id, tickets) = lab.suspended(Condition::all(keys.map(Condition::at)));
    let guess = format!("{}/k", tickets[1].id);
    for key in ["k", "/k", &guess] {
        lab.ok(keyed(key, signal_by(id, &tickets[0], "shadow")));
    }
    let effect = lab.deliver(keyed("k", signal_by(id, &tickets[1], "go")));
    assert_eq!(effect, RESUMED, "the other bearer's key is its own");
    let (id, tickets) = lab.suspended(Condition::count(2, Distinct::Sources, ["a"]));
    lab.ok(keyed("k", signal_by(id, &tickets[0], "shadow")));
    assert_eq!(lab.deliver(keyed("k", signal_at(id, "a", "go"))), RESUMED);
}

pub fn with_authority_a_key_names_one_signal_of_the_execution(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::all(["a", "b"].map(Condition::at)));
    let first = lab.ok(keyed("k", signal_at(id, "a", "go")));
    assert_eq!(first.effect, Effect::Recorded);
    is_duplicate(lab, keyed("k", signal_at(id, "b", "go")), first);
    is_duplicate(lab, keyed("k", signal_to(id, tickets[1].id, "go")), first);
    is_duplicate(lab, keyed("k", signal(id, "go")), first);
    is_duplicate(lab, keyed("k", from("ann", signal(id, "go"))), first);
}

pub fn a_key_belongs_to_its_execution(lab: &mut Lab) {
    let (one, _) = lab.suspended(Condition::signal());
    let (other, _) = lab.suspended(Condition::signal());
    assert_eq!(lab.deliver(keyed("k", signal(one, "go"))), RESUMED);
    assert_eq!(lab.deliver(keyed("k", signal(other, "go"))), RESUMED);
}

pub fn signals_of_one_transaction_share_their_keys(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::count(2, Distinct::Signals, ["door"]));
    let mut first = lab.call(keyed("k", signal_at(id, "door", "go")));
    let mut again = lab.call(keyed("k", signal_at(id, "door", "go")));
    let mut other = lab.call(keyed("l", signal_at(id, "door", "go")));
    let mut late = lab.call(keyed("k", signal_at(id, "door", "go")));
    lab.batch(&mut [&mut first, &mut again, &mut other, &mut late]);
    let first = first.into_answer().unwrap();
    assert_eq!(first.effect, Effect::Recorded);
    for again in [again, late] {
        let again = again.into_answer().unwrap();
        assert_eq!((again.signal, again.effect), (first.signal, Effect::Duplicate));
    }
    assert_eq!(other.into_answer().unwrap().effect, RESUMED);
}

pub fn signals_without_keys_are_all_different(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::count(2, Distinct::Signals, ["door"]));
    let first = lab.ok(signal_at(id, "door", "go"));
    let second = lab.ok(signal_at(id, "door", "go"));
    assert_ne!(first.signal, second.signal);
    assert_eq!(second.effect, RESUMED);
}
