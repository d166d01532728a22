//! Places for signals: created, closed, expired.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

/// Creates a waitpoint that closes by itself.
fn expiring(leased: &Leased, key: &str, seconds: u64) -> CreateWaitpoint {
    CreateWaitpoint { expires_in: Some(secs(seconds)), ..create_waitpoint(leased, key) }
}

/// What became of an execution's waitpoints, as the log tells it.
#[track_caller]
fn closings(lab: &mut Lab, id: ExecutionId) -> Vec<String> {
    let kinds = vec![EventKind::WaitpointClosed];
    let told = lab.events(EventFilter { kinds, ..about(id) });
    let text = |event: &Event, field: &str| {
        let data = event.data.as_ref().and_then(|data| data.get(field)?.as_str());
        data.unwrap_or_default().to_owned()
    };
    told.iter().map(|one| format!("{}:{}", text(one, "key"), text(one, "why"))).collect()
}

pub fn creating_an_open_waitpoint_again_returns_it_with_its_token(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(expiring(&lease, "door", 60));
    assert!(!first.repeated);
    assert_eq!(first.ticket.key, "door");
    assert_eq!(first.ticket.expires_at, Some(lab.now() + secs(60)));
    lab.pass(secs(5));
    let before = lab.snapshot();
    for again in [create_waitpoint(&lease, "door"), expiring(&lease, "door", 999)] {
        let again = lab.ok(again);
        assert_eq!((again.ticket, again.repeated), (first.ticket.clone(), true));
    }
    assert_eq!(lab.snapshot(), before);
    lab.ok(release(&lease));
    let lease = lab.take(lease.id());
    assert_eq!(lab.ok(create_waitpoint(&lease, "door")).ticket, first.ticket);
}

pub fn a_waitpoint_without_a_key_gets_one_of_its_own(lab: &mut Lab) {
    let lease = lab.lease(work());
    let nameless = || CreateWaitpoint { key: None, ..create_waitpoint(&lease, "") };
    let [one, other] = [lab.ok(nameless()).ticket, lab.ok(nameless()).ticket];
    assert_eq!(one.key, format!("wp:{}", one.id));
    assert_ne!((&one.key, &one.token), (&other.key, &other.token));
    lab.suspend(suspend(&lease, Condition::at(one.key.as_str())));
    assert_eq!(lab.deliver(signal_by(lease.id(), &one, "go")), RESUMED);
}

pub fn a_closed_key_may_be_used_again(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(create_waitpoint(&lease, "door")).ticket;
    lab.ok(close_waitpoint(lease.id(), "door"));
    let second = lab.ok(create_waitpoint(&lease, "door"));
    assert!(!second.repeated);
    assert_ne!(first.token, second.ticket.token);
    assert_eq!(why_closed(&lab.refused(signal_by(lease.id(), &first, "x"))), "by_hand");
    assert_eq!(lab.deliver(signal_by(lease.id(), &second.ticket, "x")), Effect::Buffered);
    assert_eq!(lab.doors(lease.id()), "door:by_hand door:pending");
}

pub fn bad_waitpoints_are_refused(lab: &mut Lab) {
    let lease = lab.lease(work());
    for bad in ["", "two words", "-dash", "ü", &"x".repeat(129)] {
        let error = lab.refused(create_waitpoint(&lease, bad));
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("key")));
    }
    for bad in [secs(0), days(36_500)] {
        let call = CreateWaitpoint { expires_in: Some(bad), ..create_waitpoint(&lease, "door") };
        let error = lab.refused(call);
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("expires_in_ms")));
    }
    let there = CreateWaitpoint { namespace: "there".into(), ..create_waitpoint(&lease, "door") };
    assert_eq!(lab.refused(there).code(), Code::NotFound);
}

pub fn a_waitpoint_expires_exactly_at_its_time(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(expiring(&lease, "door", 5)).ticket;
    lab.pass(secs(5) - ms(1));
    lab.tick();
    assert_eq!(lab.doors(id), "door:pending");
    assert_eq!(lab.deliver(signal_by(id, &ticket, "early")), Effect::Buffered);
    lab.pass(ms(1));
    for late in
        [signal_by(id, &ticket, "x"), signal_at(id, "door", "x"), signal_to(id, ticket.id, "x")]
    {
        assert_eq!(why_closed(&lab.refused(late)), "expired", "before the clock noticed");
    }
    assert_eq!(lab.tick().done, 1);
    assert_eq!(lab.doors(id), "door:expired");
    assert_eq!(lab.waitpoints(id)[0].state, closed(lab.now(), CloseReason::Expired));
    assert_eq!(why_closed(&lab.refused(signal_by(id, &ticket, "x"))), "expired");
    assert_eq!(closings(lab, id), ["door:expired"]);
    assert_eq!(lab.status(id), Status::Active, "nothing else happens");
}

fn closed(at: Timestamp, why: CloseReason) -> WaitpointState {
    WaitpointState::Closed { at, why }
}

pub fn an_expired_waitpoint_gives_way_before_the_clock_noticed(lab: &mut Lab) {
    for how in ["create", "suspend"] {
        let lease = lab.lease(work());
        let id = lease.id();
        let first = lab.ok(expiring(&lease, "door", 5)).ticket;
        lab.pass(secs(5));
        let second = match how {
            "create" => lab.ok(create_waitpoint(&lease, "door")).ticket,
            _ => lab.suspend(suspend(&lease, Condition::at("door"))).remove(0),
        };
        assert_ne!(first.id, second.id, "{how}");
        let state = if how == "create" { "pending" } else { "active" };
        assert_eq!(lab.doors(id), format!("door:expired door:{state}"));
        lab.advance(secs(5));
        assert_eq!(closings(lab, id), ["door:expired"], "the clock finds nothing to do");
        assert_eq!(lab.doors(id), format!("door:expired door:{state}"));
    }
}

pub fn a_closed_waitpoint_does_not_expire(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    for key in ["a", "b", "c"] {
        lab.ok(expiring(&lease, key, 5));
    }
    lab.suspend(suspend(&lease, Condition::at("a")));
    lab.ok(signal_at(id, "a", "go"));
    lab.ok(close_waitpoint(id, "b"));
    lab.ok(Cancel::new(id));
    lab.pass(secs(5));
    assert_eq!(lab.tick().done, 0, "nothing is left to do");
    assert_eq!(closings(lab, id), ["a:satisfied", "b:by_hand", "c:ended"]);
}

pub fn a_waitpoint_that_was_adopted_still_expires(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(expiring(&lease, "door", 5)).ticket;
    let tickets = lab.suspend(suspend(&lease, Condition::at("door")));
    assert_eq!(tickets, [ticket]);
    lab.reopen();
    lab.advance(secs(5) - ms(1));
    assert_eq!(lab.status(id), Status::Suspended);
    lab.advance(ms(1));
    assert_eq!(lab.end(id).reason, EndReason::SuspensionTimeout);
    assert_eq!(closings(lab, id), ["door:expired"]);
}

/// What becomes of a suspension that can not be satisfied any more.
#[track_caller]
fn hopeless(lab: &mut Lab, end: impl Fn(&mut Lab, ExecutionId)) {
    for (on_timeout, status) in [
        (OnTimeout::Fail, Status::Failed),
        (OnTimeout::Cancel, Status::Cancelled),
        (OnTimeout::Expire, Status::Expired),
        (OnTimeout::Resume, Status::Resumable),
        (OnTimeout::Escalate, Status::Suspended),
    ] {
        let lease = lab.lease(work());
        let id = lease.id();
        lab.ok(expiring(&lease, "door", 5));
        let both = Condition::all([Condition::at("door"), Condition::at("back")]);
        let call = Suspend { timeout: Some(hours(1)), ..suspend(&lease, both) };
        lab.suspend(Suspend { on_timeout: Some(on_timeout), ..call });
        lab.ok(saying("kept", signal_at(id, "back", "x")));
        end(lab, id);
        assert_eq!(lab.status(id), status, "{on_timeout:?}");
        if status.is_terminal() {
            assert_eq!(lab.end(id).reason, EndReason::SuspensionTimeout);
        }
        match on_timeout {
            OnTimeout::Resume => {
                let (lease, resumption) = lab.resumption(id);
                assert_eq!(told(&resumption.signals), "x:kept timeout:");
                assert_eq!(resumption.end.by, EndedBy::Timeout);
                lab.ok(complete(&lease));
            }
            OnTimeout::Escalate => {
                assert_eq!(lab.get(id).due_at, None);
                assert!(lab.explain(id).contains("operator"), "{}", lab.explain(id));
                lab.ok(Resume::new(id));
                lab.ok(Cancel::new(id));
            }
            OnTimeout::Fail | OnTimeout::Cancel | OnTimeout::Expire => {}
        }
    }
}

pub fn an_expired_waitpoint_that_makes_a_wait_hopeless_ends_it(lab: &mut Lab) {
    hopeless(lab, |lab, _| lab.advance(secs(5)));
}

pub fn a_closed_waitpoint_that_makes_a_wait_hopeless_ends_it(lab: &mut Lab) {
    hopeless(lab, |lab, id| lab.run(close_waitpoint(id, "door")));
}

pub fn a_wait_that_can_do_without_a_closed_waitpoint_goes_on(lab: &mut Lab) {
    let (id, tickets) = lab.suspended(Condition::any([
        Condition::at("a"),
        Condition::count(2, Distinct::Waitpoints, ["b", "c", "d"]),
    ]));
    let close = |lab: &mut Lab, key| lab.ok(close_waitpoint(id, key));
    close(lab, "a");
    close(lab, "b");
    assert_eq!(lab.status(id), Status::Suspended);
    assert_eq!(lab.deliver(signal_by(id, &tickets[2], "x")), Effect::Recorded);
    close(lab, "c");
    assert_eq!(lab.status(id), Status::Suspended, "what it was closed after counts");
    assert_eq!(lab.deliver(signal_by(id, &tickets[3], "x")), RESUMED);
    assert_eq!(lab.doors(id), "a:by_hand b:by_hand c:by_hand d:satisfied");
}

pub fn a_wait_for_the_execution_itself_or_an_operator_needs_no_waitpoint(lab: &mut Lab) {
    for other in [Condition::signal(), Condition::Operator] {
        let (id, _) = lab.suspended(Condition::any([Condition::at("a"), other]));
        lab.ok(close_waitpoint(id, "a"));
        assert_eq!(lab.status(id), Status::Suspended);
    }
}

pub fn a_waitpoint_closes_once_by_its_key_or_its_id(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "door")).ticket;
    let reason = Some("moved".to_owned());
    let close = CloseWaitpoint { reason: reason.clone(), ..close_waitpoint(id, "door") };
    assert_eq!(lab.ok(close.clone()), CloseWaitpointOutcome::Closed);
    let at = lab.now();
    lab.pass(secs(9));
    assert_eq!(lab.refused(close).code(), Code::NotFound, "no open one has that key");
    let again = lab.ok(close_waitpoint_by_id(id, ticket.id));
    let why = CloseReason::ByHand { by: "ops".into(), reason };
    assert_eq!(again, CloseWaitpointOutcome::AlreadyClosed { at, why: why.clone() });
    assert_eq!(lab.waitpoints(id)[0].state, closed(at, why));
    assert_eq!(closings(lab, id), ["door:by_hand"]);
    let other = lab.ok(create_waitpoint(&lease, "back")).ticket;
    assert_eq!(lab.ok(close_waitpoint_by_id(id, other.id)), CloseWaitpointOutcome::Closed);
    lab.ok(complete(&lease));
    let again = lab.ok(close_waitpoint_by_id(id, other.id));
    assert!(matches!(again, CloseWaitpointOutcome::AlreadyClosed { .. }));
}

pub fn only_what_is_there_is_closed(lab: &mut Lab) {
    let (mine, tickets) = lab.suspended(Condition::at("door"));
    let (other, _) = lab.suspended(Condition::at("door"));
    let not_found = |lab: &mut Lab, close| {
        assert_eq!(lab.refused(close).code(), Code::NotFound);
    };
    not_found(lab, close_waitpoint(mine, "back"));
    not_found(lab, close_waitpoint_by_id(other, tickets[0].id));
    not_found(lab, close_waitpoint(id(9), "door"));
    let there = CloseWaitpoint { namespace: "there".into(), ..close_waitpoint(mine, "door") };
    not_found(lab, there);
    let never = lab.submit(work());
    not_found(lab, close_waitpoint(never, "door"));
    let nobody = CloseWaitpoint { by: String::new(), ..close_waitpoint(mine, "door") };
    assert_eq!(lab.refused(nobody).field(), Some("by"));
    let reason = Some("two\nlines".to_owned());
    let wordy = CloseWaitpoint { reason, ..close_waitpoint(mine, "door") };
    assert_eq!(lab.refused(wordy).field(), Some("reason"));
}

pub fn an_execution_has_at_most_two_hundred_open_waitpoints(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let mut calls: Vec<_> =
        (0..199).map(|n| lab.call(create_waitpoint(&lease, &format!("w{n}")))).collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
    lab.batch(&mut jobs);
    let two = Condition::all([Condition::at("x"), Condition::at("y")]);
    let full = |lab: &mut Lab, error: Error| {
        assert_eq!(error.code(), Code::TooLarge);
        assert!(error.message().contains("200"), "{error}");
        assert_eq!(lab.see(list_waitpoints(id)).waitpoints.len(), 199);
    };
    let error = lab.apply(suspend(&lease, two.clone())).unwrap_err();
    full(lab, error);
    lab.ok(create_waitpoint(&lease, "last"));
    let error = lab.apply(create_waitpoint(&lease, "one more")).unwrap_err();
    assert_eq!(error.code(), Code::InvalidInput);
    let error = lab.apply(create_waitpoint(&lease, "more")).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    lab.ok(create_waitpoint(&lease, "last"));
    lab.ok(close_waitpoint(id, "last"));
    lab.ok(close_waitpoint(id, "w0"));
    let error = lab.apply(suspend(&lease, Condition::all([two.clone(), Condition::at("z")])));
    assert_eq!(error.unwrap_err().code(), Code::TooLarge);
    let named = Condition::any([two, Condition::at("w1")]);
    assert_eq!(lab.suspend(suspend(&lease, named)).len(), 3, "what exists needs no room");
}

pub fn losing_the_lease_leaves_pending_waitpoints_open(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(release(&lease));
    let lease = lab.take(id);
    lab.ok(retry_after(&lease, secs(0)));
    lab.take(id);
    lab.ok(RevokeLease::new(id));
    lab.take(id);
    lab.advance(secs(30));
    let lease = lab.take(id);
    lab.ok(delay(&lease, secs(0)));
    assert_eq!(lab.doors(id), "door:pending");
    assert_eq!(lab.deliver(signal_at(id, "door", "x")), Effect::Buffered);
}
