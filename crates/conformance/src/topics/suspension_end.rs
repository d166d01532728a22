//! Waits that end without their signals: by an operator, or with the execution.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

pub fn an_operator_lets_it_go_on_whatever_it_waits_for(lab: &mut Lab) {
    for condition in [Condition::at("door"), Condition::Operator, Condition::signal()] {
        let (id, tickets) = lab.suspended(condition);
        lab.pass(secs(1));
        let reason = Some("settled by phone".to_owned());
        let call = Resume { by: "ann".into(), reason: reason.clone(), ..Resume::new(id) };
        assert_eq!(lab.ok(call), Resumed { status: Status::Resumable });
        if let [ticket] = &tickets[..] {
            assert_eq!(why_closed(&lab.refused(signal_by(id, ticket, "late"))), "resumed");
        }
        let (lease, resumption) = lab.resumption(id);
        assert_eq!((lease.attempt, lease.resumed), (1, true));
        let by = EndedBy::Operator { by: "ann".into(), reason };
        assert_eq!(resumption.end, SuspensionEnd { at: lab.now(), by });
        assert_eq!(resumption.signals, []);
        lab.ok(complete(&lease));
    }
}

pub fn an_operator_may_let_it_go_on_later(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    let call = Resume { delay: secs(9), ..Resume::new(id) };
    assert_eq!(lab.ok(call.clone()), Resumed { status: Status::Delayed });
    assert_eq!(lab.doors(id), "door:resumed", "no signal counts from now on");
    assert_eq!(lab.refused(call).code(), Code::WrongState);
    lab.advance(secs(9) - ms(1));
    assert_eq!(lab.status(id), Status::Delayed);
    lab.advance(ms(1));
    assert!(lab.take(id).resumed);
}

pub fn only_what_is_suspended_is_resumed(lab: &mut Lab) {
    for status in STATES.into_iter().filter(|status| *status != Status::Suspended) {
        let id = lab.bring(status, work());
        let code = match status.is_terminal() {
            true => Code::AlreadyTerminal,
            false => Code::WrongState,
        };
        assert_eq!(lab.refused(Resume::new(id)).code(), code, "{status}");
    }
    assert_eq!(lab.refused(Resume::new(id(9))).code(), Code::NotFound);
    let (id, _) = lab.suspended(Condition::Operator);
    let there = Resume { namespace: "there".into(), ..Resume::new(id) };
    assert_eq!(lab.refused(there).code(), Code::NotFound);
    for (field, bad) in [
        ("by", Resume { by: "two words".into(), ..Resume::new(id) }),
        ("reason", Resume { reason: Some("a\nb".into()), ..Resume::new(id) }),
        ("delay_ms", Resume { delay: days(36_500), ..Resume::new(id) }),
    ] {
        let error = lab.refused(bad);
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some(field)));
    }
}

pub fn an_old_token_does_not_touch_the_next_suspension(lab: &mut Lab) {
    for why in ["resumed", "satisfied", "timed_out"] {
        let lease = lab.lease(work());
        let id = lease.id();
        let call = |lease: &Leased| Suspend {
            timeout: Some(hours(1)),
            on_timeout: Some(OnTimeout::Resume),
            ..suspend(lease, Condition::at("door"))
        };
        let old = lab.suspend(call(&lease)).remove(0);
        match why {
            "resumed" => lab.run(Resume::new(id)),
            "satisfied" => lab.run(signal_at(id, "door", "go")),
            _ => lab.advance(hours(1)),
        }
        let lease = lab.take(id);
        let new = lab.suspend(call(&lease)).remove(0);
        assert_ne!(old.token, new.token);
        for late in [signal_by(id, &old, "late"), signal_to(id, old.id, "late")] {
            assert_eq!(why_closed(&lab.refused(late)), why);
        }
        assert_eq!(lab.status(id), Status::Suspended);
        assert_eq!(lab.deliver(signal_by(id, &new, "go")), RESUMED);
        assert_eq!(lab.resumption(id).1.suspension, 2);
    }
}

pub fn pending_waitpoints_outlive_a_resumption(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let ticket = lab.ok(create_waitpoint(&lease, "later")).ticket;
    lab.suspend(suspend(&lease, Condition::at("now")));
    lab.ok(Resume::new(id));
    assert_eq!(lab.doors(id), "later:pending now:resumed");
    let lease = lab.take(id);
    assert_eq!(lab.suspend(suspend(&lease, Condition::at("later"))), [ticket]);
}

/// Ends an execution in each way there is, whatever its state.
fn each_end(lab: &mut Lab, begin: impl Fn(&mut Lab) -> (ExecutionId, Ticket), doors: &str) {
    let ends: [fn(&mut Lab, ExecutionId); 3] = [
        |lab, id| lab.run(force_cancel(id)),
        |lab, id| lab.run(Cancel { grace: secs(0), ..Cancel::new(id) }),
        |lab, _| lab.advance(hours(1)),
    ];
    for end in ends {
        let (id, ticket) = begin(lab);
        end(lab, id);
        assert!(lab.status(id).is_terminal());
        assert_eq!(lab.doors(id), doors);
        for late in [signal_by(id, &ticket, "late"), signal_to(id, ticket.id, "late")] {
            assert_eq!(why_closed(&lab.refused(late)), "ended");
        }
        let terminal = lab.events(about(id)).iter().filter(|one| one.kind.is_terminal()).count();
        assert_eq!(terminal, 1);
        assert_eq!(lab.see(ListInbox::default()).waitpoints, []);
    }
}

pub fn the_end_of_a_suspended_execution_closes_its_waitpoints(lab: &mut Lab) {
    let begin = |lab: &mut Lab| {
        let lease = lab.lease(work().deadline_at(lab.now() + hours(1)));
        lab.ok(create_waitpoint(&lease, "other"));
        (lease.id(), lab.suspend(suspend(&lease, Condition::at("door"))).remove(0))
    };
    each_end(lab, begin, "other:ended door:ended");
    let (id, _) = begin(lab);
    lab.ok(Cancel::new(id));
    let end = lab.suspensions(id).remove(0).end.expect("it is over");
    assert_eq!(end, SuspensionEnd { at: lab.now(), by: EndedBy::Execution });
}

pub fn the_end_of_an_active_execution_closes_its_waitpoints(lab: &mut Lab) {
    let begin = |lab: &mut Lab| {
        let lease = lab.lease(work().deadline_at(lab.now() + hours(1)));
        lab.ok(Renew { ttl: Some(hours(1)), ..renew(&lease) });
        (lease.id(), lab.ok(create_waitpoint(&lease, "door")).ticket)
    };
    each_end(lab, begin, "door:ended");
    for ends in ["complete", "fail", "acknowledge"] {
        let lease = lab.lease(work());
        lab.ok(create_waitpoint(&lease, "door"));
        match ends {
            "complete" => lab.run(complete(&lease)),
            "fail" => lab.run(fail(&lease, Failure::permanent("broken"))),
            _ => lab.run(acknowledge(&lease)),
        }
        assert_eq!(lab.doors(lease.id()), "door:ended", "{ends}");
    }
}

pub fn the_end_of_a_waiting_execution_closes_its_waitpoints(lab: &mut Lab) {
    let begin = |lab: &mut Lab| {
        let lease = lab.lease(work().deadline_at(lab.now() + hours(1)));
        let ticket = lab.ok(create_waitpoint(&lease, "door")).ticket;
        lab.ok(release(&lease));
        (lease.id(), ticket)
    };
    each_end(lab, begin, "door:ended");
}

pub fn the_end_of_a_resumed_execution_changes_nothing_about_its_suspension(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    lab.ok(signal_at(id, "door", "go"));
    let before = lab.suspensions(id);
    lab.pass(secs(1));
    lab.ok(Cancel::new(id));
    assert_eq!(lab.suspensions(id), before);
    assert_eq!(lab.doors(id), "door:satisfied");
}

pub fn a_replayed_execution_waits_anew(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let old = lab.suspend(suspend(&lease, Condition::at("door"))).remove(0);
    lab.ok(Cancel::new(id));
    lab.ok(replay(id));
    assert_eq!(why_closed(&lab.refused(signal_by(id, &old, "late"))), "ended");
    let lease = lab.take(id);
    assert_eq!((lease.run, lease.resumed, lease.resumption.clone()), (2, false, None));
    let new = lab.suspend(suspend(&lease, Condition::at("door"))).remove(0);
    assert_eq!(why_closed(&lab.refused(signal_by(id, &old, "late"))), "ended");
    assert_eq!(lab.deliver(signal_by(id, &new, "go")), RESUMED);
    assert_eq!(lab.resumption(id).1.suspension, 2);
}

/// Nothing is left of an execution that waited, not even for one that takes its id.
#[track_caller]
fn leaves_nothing(lab: &mut Lab, id: ExecutionId, ticket: &Ticket) {
    assert_eq!(lab.ask(ListWaitpoints::new(id)).unwrap_err().code(), Code::NotFound);
    assert_eq!(lab.see(ListInbox::default()).waitpoints, []);
    assert_eq!(why_closed(&lab.refused(signal_by(id, ticket, "late"))), "deleted");
    lab.submit(work().id(id));
    let lease = lab.take(id);
    assert_eq!((lease.resumption.clone(), lease.steps.len()), (None, 0));
    assert_eq!(why_closed(&lab.refused(signal_by(id, ticket, "late"))), "deleted");
    assert_eq!((lab.signals(id), lab.suspensions(id)), (vec![], vec![]));
    let new = lab.suspend(suspend(&lease, Condition::at("door"))).remove(0);
    assert_eq!(why_closed(&lab.refused(signal_by(id, ticket, "late"))), "deleted");
    let effect = lab.deliver(keyed("k", signal_by(id, &new, "go")));
    assert_eq!(effect, RESUMED, "nor is a key taken");
    assert_eq!(lab.suspensions(id)[0].number, 1);
}

fn waited(lab: &mut Lab) -> (ExecutionId, Ticket) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(record_step(&lease, "one", "1"));
    let expires_in = Some(days(300));
    lab.ok(CreateWaitpoint { expires_in, ..create_waitpoint(&lease, "other") });
    let ticket = lab.suspend(suspend(&lease, Condition::at("door").named("never"))).remove(0);
    lab.ok(keyed("k", signal_by(id, &ticket, "go")));
    lab.ok(keyed("k", signal(id, "kept")));
    lab.ok(Cancel::new(id));
    (id, ticket)
}

pub fn a_deleted_execution_leaves_nothing_that_waits(lab: &mut Lab) {
    let (id, ticket) = waited(lab);
    lab.ok(delete(id));
    leaves_nothing(lab, id, &ticket);
}

pub fn an_execution_whose_time_is_over_leaves_nothing_that_waits(lab: &mut Lab) {
    let (id, ticket) = waited(lab);
    lab.advance(days(8));
    assert_eq!(lab.ask(get(id)).unwrap_err().code(), Code::NotFound);
    leaves_nothing(lab, id, &ticket);
}

pub fn a_suspended_execution_is_not_deleted(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    assert_eq!(lab.refused(delete(id)).code(), Code::WrongState);
    assert_eq!(lab.refused(replay(id)).code(), Code::WrongState);
    lab.advance(days(30));
    assert_eq!(lab.status(id), Status::Suspended, "retention is for what has ended");
}
