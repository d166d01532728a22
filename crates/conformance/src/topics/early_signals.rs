//! Signals that come before anything waits for them.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

pub fn a_signal_to_an_execution_in_any_open_state_is_kept(lab: &mut Lab) {
    for status in open_states().filter(|status| *status != Status::Active) {
        let id = lab.bring(status, work());
        assert_eq!(lab.deliver(saying("early", signal(id, "go"))), Effect::Buffered, "{status}");
        assert_eq!(lab.status(id), status, "nothing else happens");
        let seen = lab.signals(id).remove(0);
        assert_eq!((seen.suspension, seen.counted, seen.waitpoint), (None, false, None));
    }
    let lease = lab.lease(work());
    let kept = lab.ok(saying("early", signal(lease.id(), "go")));
    assert_eq!(kept.effect, Effect::Buffered);
    let resumption = lab.already_satisfied(suspend(&lease, Condition::signal()));
    assert_eq!(told(&resumption.signals), "go:early");
    assert_eq!(resumption.end.by, EndedBy::Signal { signal: kept.signal });
    lab.ok(complete(&lease));
}

pub fn a_signal_to_a_waiting_execution_reaches_its_first_suspension(lab: &mut Lab) {
    let id = lab.submit(work().delay(secs(5)));
    lab.ok(saying("early", signal(id, "go")));
    lab.advance(secs(5));
    let lease = lab.take(id);
    lab.ok(RevokeLease::new(id));
    let lease = (lease.attempt == 1).then(|| lab.take(id)).expect("the first attempt");
    let resumption = lab.already_satisfied(suspend(&lease, Condition::signal().named("go")));
    assert_eq!(told(&resumption.signals), "go:early");
}

pub fn what_a_suspension_does_not_want_is_kept_for_a_later_one(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    for name in ["b", "c", "a"] {
        lab.ok(saying("early", signal(id, name)));
    }
    let resumption = lab.already_satisfied(suspend(&lease, Condition::signal().named("a")));
    assert_eq!(told(&resumption.signals), "a:early");
    lab.suspend(suspend(&lease, Condition::signal().named("d")));
    assert_eq!(lab.deliver(saying("between", signal(id, "c"))), Effect::Buffered);
    assert_eq!(lab.deliver(saying("d", signal(id, "d"))), RESUMED);
    let (lease, resumption) = lab.resumption(id);
    assert_eq!(told(&resumption.signals), "d:d");
    let resumption = lab.already_satisfied(suspend(&lease, Condition::signal().named("b")));
    assert_eq!(told(&resumption.signals), "b:early");
    lab.ok(complete(&lease));
    let taken: Vec<_> =
        lab.signals(id).iter().map(|one| (one.name.clone(), one.suspension)).collect();
    let expected = [("b", Some(3)), ("c", None), ("a", Some(1)), ("c", None), ("d", Some(2))];
    assert_eq!(taken, expected.map(|(name, number)| (name.to_owned(), number)));
}

pub fn kept_signals_are_taken_in_their_order_each_by_one_suspension(lab: &mut Lab) {
    let lease = lab.lease(work());
    for text in ["1", "2", "3"] {
        lab.ok(saying(text, signal(lease.id(), "go")));
    }
    for (number, text) in [(1, "go:1"), (2, "go:2"), (3, "go:3")] {
        let resumption = lab.already_satisfied(suspend(&lease, Condition::signal()));
        assert_eq!((resumption.suspension, told(&resumption.signals).as_str()), (number, text));
    }
    lab.suspend(suspend(&lease, Condition::signal()));
    assert_eq!(lab.status(lease.id()), Status::Suspended, "nothing is left");
}

pub fn a_kept_signal_serves_every_part_that_means_it(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(signal(lease.id(), "go"));
    let both = Condition::all([Condition::signal(), Condition::signal().named("go")]);
    assert_eq!(told(&lab.already_satisfied(suspend(&lease, both)).signals), "go:");
}

pub fn a_signal_to_a_pending_waitpoint_is_kept_and_the_lease_too(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "door")).ticket;
    let wrong = lab.deliver(saying("no", signal_by(id, &ticket, "stay")));
    let right = lab.deliver(saying("yes", signal_by(id, &ticket, "go")));
    let late = lab.deliver(saying("late", signal_by(id, &ticket, "go")));
    assert_eq!([wrong, right, late], [Effect::Buffered; 3]);
    let (status, epoch) = (lab.status(id), lab.get(id).epoch);
    assert_eq!((status, epoch), (Status::Active, lease.lease.epoch));
    let resumption = lab.already_satisfied(suspend(&lease, Condition::at("door").named("go")));
    assert_eq!(told(&resumption.signals), "stay:no go:yes go:late");
    let counted: Vec<_> = resumption.signals.iter().map(|one| one.counted).collect();
    assert_eq!(counted, [false, true, false]);
    assert_eq!((lab.status(id), lab.get(id).epoch), (Status::Active, lease.lease.epoch));
    assert_eq!(lab.doors(id), "door:satisfied");
    assert_eq!(why_closed(&lab.refused(signal_by(id, &ticket, "go"))), "satisfied");
    lab.suspend(suspend(&lease, Condition::at("door")));
    assert_eq!(lab.doors(id), "door:satisfied door:active", "the next one waits anew");
}

pub fn what_has_come_partly_is_counted_when_the_wait_begins(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "a")).ticket;
    lab.ok(saying("a", signal_by(id, &ticket, "x")));
    lab.ok(saying("itself", signal(id, "x")));
    let condition = Condition::all([
        Condition::at("a"),
        Condition::signal(),
        Condition::count(2, Distinct::Waitpoints, ["b", "c"]),
    ]);
    let tickets = lab.suspend(suspend(&lease, condition));
    assert_eq!(tickets[0], ticket);
    let waits = lab.suspensions(id)[0].waits_for.clone();
    assert_eq!(waits.as_deref(), Some("0 of 2 waitpoints: waiting for b, c"));
    assert_eq!(lab.deliver(signal_by(id, &tickets[2], "x")), Effect::Recorded);
    assert_eq!(lab.deliver(signal_by(id, &tickets[1], "x")), RESUMED);
    let (_, resumption) = lab.resumption(id);
    assert_eq!(told(&resumption.signals), "x:a x:itself x: x:");
}

pub fn a_pending_waitpoint_a_suspension_does_not_name_stays_as_it_is(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "later")).ticket;
    lab.suspend(suspend(&lease, Condition::at("now")));
    assert_eq!(lab.deliver(saying("x", signal_by(id, &ticket, "x"))), Effect::Buffered);
    lab.ok(signal_at(id, "now", "go"));
    assert_eq!(lab.doors(id), "later:pending now:satisfied");
    let (lease, resumption) = lab.resumption(id);
    assert_eq!(told(&resumption.signals), "go:");
    let resumption = lab.already_satisfied(suspend(&lease, Condition::at("later")));
    assert_eq!(told(&resumption.signals), "x:x");
}

pub fn early_signals_reach_the_next_attempt_too(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "door")).ticket;
    lab.ok(saying("early", signal_by(id, &ticket, "go")));
    lab.advance(secs(30));
    let lease = lab.take(id);
    assert_eq!(lease.attempt, 2);
    let again = lab.ok(create_waitpoint(&lease, "door"));
    assert_eq!((again.ticket, again.repeated), (ticket, true));
    let resumption = lab.already_satisfied(suspend(&lease, Condition::at("door")));
    assert_eq!(told(&resumption.signals), "go:early");
}

pub fn what_came_in_time_counts_although_its_waitpoint_has_expired_since(lab: &mut Lab) {
    for how in ["expired", "noticed by the clock"] {
        let lease = lab.lease(work());
        let id = lease.id();
        let expires_in = Some(secs(5));
        let early = CreateWaitpoint { expires_in, ..create_waitpoint(&lease, "door") };
        let ticket = lab.ok(early).ticket;
        lab.ok(saying("in time", signal_by(id, &ticket, "go")));
        match how {
            "expired" => lab.pass(secs(5)),
            _ => lab.advance(secs(5)),
        }
        lab.refused(signal_by(id, &ticket, "late"));
        let resumption = lab.already_satisfied(suspend(&lease, Condition::at("door")));
        assert_eq!(told(&resumption.signals), "go:in time", "{how}");
        lab.ok(complete(&lease));
    }
}

pub fn what_came_to_a_waitpoint_that_was_closed_by_hand_does_not_count(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let closed = lab.ok(create_waitpoint(&lease, "door")).ticket;
    lab.ok(saying("unwanted", signal_by(id, &closed, "go")));
    lab.ok(saying("unwanted", signal_at(id, "door", "go")));
    lab.ok(close_waitpoint(id, "door"));
    lab.ok(create_waitpoint(&lease, "window"));
    lab.ok(saying("wanted", signal_at(id, "window", "go")));
    let two = Condition::count(2, Distinct::Signals, ["door", "window"]);
    let tickets = lab.suspend(suspend(&lease, two));
    assert_eq!(lab.doors(id), "door:by_hand window:active door:active");
    assert_ne!(tickets[0].id, closed.id);
    assert_eq!(lab.deliver(saying("new", signal_by(id, &tickets[0], "go"))), RESUMED);
    let (lease, resumption) = lab.resumption(id);
    assert_eq!(told(&resumption.signals), "go:wanted go:new");
    lab.suspend(suspend(&lease, Condition::at("door")));
    assert_eq!(lab.signals(id).iter().filter(|one| one.suspension.is_none()).count(), 2);
}

pub fn signals_kept_in_an_earlier_run_do_not_count_in_the_next(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(signal_at(id, "door", "go"));
    lab.ok(signal(id, "go"));
    lab.ok(force_cancel(id));
    lab.ok(replay(id));
    let lease = lab.take(id);
    lab.suspend(suspend(&lease, Condition::any([Condition::at("door"), Condition::signal()])));
    assert_eq!(lab.status(id), Status::Suspended);
    assert_eq!(lab.doors(id), "door:ended door:active");
    assert_eq!(lab.deliver(signal(id, "go")), RESUMED);
}

pub fn a_suspend_that_is_satisfied_already_is_on_record(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let signal = lab.ok(signal(id, "go")).signal;
    let call = suspend_as(&lease, "k", Condition::signal());
    let first = lab.already_satisfied(call.clone());
    let before = lab.snapshot();
    assert_eq!(lab.already_satisfied(call), first, "asked again, it answers the same");
    assert_eq!(lab.snapshot(), before);
    let seen = lab.suspensions(id).remove(0);
    assert_eq!((seen.number, seen.key.as_deref()), (1, Some("k")));
    assert_eq!(seen.end, Some(SuspensionEnd { at: lab.now(), by: EndedBy::Signal { signal } }));
    assert!(!lab.history(id).contains(&EventKind::Suspended), "it never waited");
    lab.advance(secs(30));
    assert_eq!(lab.resumption(id).1, first, "the next attempt is told");
}
