//! Ending a flow before its members are through.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

/// Done, running, ready, delayed and blocked members.
fn mixed(lab: &mut Lab) -> (Graph, Leased) {
    let nodes = [
        node("a"),
        node("b"),
        node("c"),
        NewNode::new("d", work().delay(hours(1))),
        waits("e", After::all(["b"])),
        waits("f", After::all([Upstream::new("b").done()])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.complete(graph["a"]);
    let lease = lab.take(graph["b"]);
    (graph, lease)
}

pub fn a_cancel_of_all_stops_everything_at_once(lab: &mut Lab) {
    let (graph, lease) = mixed(lab);
    let granted = lab.reserve(graph["c"]);
    let cancel = CancelFlow { reason: Some("wrong data".into()), ..CancelFlow::new(graph.id) };
    let answer = lab.ok(cancel);
    assert_eq!((answer.status, answer.repeated), (FlowStatus::Cancelled, false));
    assert_eq!(answer.extent, Extent { stopped: 5, running: 0, finished: 1 });
    assert_eq!(answer.members, ["b", "c", "d", "e", "f"].map(|name| graph[name]));
    let told = "a:completed b:cancelled c:cancelled d:cancelled e:cancelled f:cancelled";
    assert_eq!(lab.states(graph.id), told);
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Cancelled);
    lab.lost(redeem(&granted));
    let end = lab.end(graph["f"]);
    assert_eq!(
        (end.reason, end.message.as_deref()),
        (EndReason::FlowCancelled, Some("wrong data"))
    );
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.completed), (FlowStatus::Cancelled, 1));
}

pub fn a_cancel_of_what_is_pending_lets_what_started_run_on(lab: &mut Lab) {
    let (graph, lease) = mixed(lab);
    let answer = lab.ok(cancel_flow(graph.id, CancelScope::Pending));
    assert_eq!(answer.status, FlowStatus::Cancelling);
    assert_eq!(answer.extent, Extent { stopped: 4, running: 1, finished: 1 });
    let told = "a:completed b:active c:cancelled d:cancelled e:cancelled f:cancelled";
    assert_eq!(lab.states(graph.id), told);
    lab.ok(retry_after(&lease, secs(5)));
    assert_eq!(lab.status(graph["b"]), Status::Delayed, "it has started and may be retried");
    lab.recount(graph.id);
    lab.advance(secs(5));
    let lease = lab.claim("w");
    lab.ok(complete(&lease));
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.completed), (FlowStatus::Cancelled, 2));
}

pub fn a_cancel_that_lets_runners_finish_stops_everything_else(lab: &mut Lab) {
    let (graph, lease) = mixed(lab);
    let answer = lab.ok(cancel_flow(graph.id, CancelScope::RunningFinish));
    assert_eq!(answer.extent, Extent { stopped: 4, running: 1, finished: 1 });
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Cancelling);
    assert!(lab.nothing_to_claim());
    lab.ok(renew(&lease));
    lab.ok(complete(&lease));
    let told = "a:completed b:completed c:cancelled d:cancelled e:cancelled f:cancelled";
    assert_eq!(lab.states(graph.id), told);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn a_runner_that_does_not_finish_gets_no_other_attempt(lab: &mut Lab) {
    type Act = fn(&mut Lab, &Leased);
    let cases: [(&str, Act); 8] = [
        ("retry", |lab, lease| {
            assert_eq!(lab.ok(retry_after(lease, secs(1))), FailOutcome::Cancelled);
            assert_eq!(lab.ok(retry_after(lease, secs(1))), FailOutcome::Cancelled);
        }),
        ("release", |lab, lease| {
            assert_eq!(lab.ok(release(lease)), ReleaseOutcome::Cancelled);
        }),
        ("delay", |lab, lease| {
            assert_eq!(lab.ok(delay(lease, secs(1))), DelayOutcome::Cancelled);
        }),
        ("expiry", |lab, _| lab.advance(secs(30))),
        ("revoke", |lab, lease| lab.run(RevokeLease::new(lease.id()))),
        ("acknowledge", |lab, lease| lab.run(acknowledge(lease))),
        ("worker gone", |lab, _| {
            lab.ok(RegisterWorker::new("pool", "w"));
            lab.ok(mark_dead("w"));
            lab.settle();
        }),
        ("cancel", |lab, lease| lab.run(force_cancel(lease.id()))),
    ];
    for (how, act) in cases {
        let (graph, lease) = mixed(lab);
        lab.ok(cancel_flow(graph.id, CancelScope::RunningFinish));
        act(lab, &lease);
        assert_eq!(lab.status(graph["b"]), Status::Cancelled, "{how}");
        assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled, "{how}");
        lab.ok(delete_flow(graph.id));
    }
}

pub fn a_runner_may_fail_for_good_in_a_flow_that_is_being_closed(lab: &mut Lab) {
    for scope in [CancelScope::RunningFinish, CancelScope::Pending] {
        let (graph, lease) = mixed(lab);
        lab.ok(cancel_flow(graph.id, scope));
        lab.ok(fail(&lease, Failure::permanent("broken")));
        assert_eq!(lab.status(graph["b"]), Status::Failed);
        assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
        lab.ok(replay_flow(graph.id, []));
        lab.recount(graph.id);
    }
}

pub fn a_grace_gives_workers_time_to_stop(lab: &mut Lab) {
    let nodes = || flow(["a", "b", "c"].map(node));
    let graph = lab.plant(nodes());
    let (a, b) = (lab.take(graph["a"]), lab.take(graph["b"]));
    let cancel = CancelFlow { grace: secs(10), ..CancelFlow::new(graph.id) };
    let answer = lab.ok(cancel);
    assert_eq!(answer.status, FlowStatus::Cancelling);
    assert_eq!(answer.extent, Extent { stopped: 1, running: 2, finished: 0 });
    let Renewal::Renewed { cancel, .. } = &lab.ok(renew(&a)).leases[0] else { panic!("renewed") };
    assert_eq!(cancel.as_ref().map(|cancel| cancel.force_at), Some(lab.now() + secs(10)));
    lab.ok(acknowledge(&a));
    assert_eq!(lab.states(graph.id), "a:cancelled b:active c:cancelled");
    lab.advance(secs(10));
    lab.lost(complete(&b));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
    let graph = lab.plant(nodes());
    let won = lab.take(graph["a"]);
    lab.ok(CancelFlow { grace: secs(10), ..CancelFlow::new(graph.id) });
    lab.ok(complete(&won));
    assert_eq!(lab.states(graph.id), "a:completed b:cancelled c:cancelled");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn a_second_cancel_answers_the_stored_verdict(lab: &mut Lab) {
    let (graph, lease) = mixed(lab);
    let first = CancelFlow {
        reason: Some("first".into()),
        by: "ann".into(),
        ..cancel_flow(graph.id, CancelScope::RunningFinish)
    };
    let answer = lab.ok(first);
    let at = lab.now();
    lab.pass(secs(1));
    let second = CancelFlow { reason: Some("second".into()), ..CancelFlow::new(graph.id) };
    let again = lab.ok(second.clone());
    let expected = FlowCancelled { repeated: true, ..answer };
    assert_eq!(again, expected);
    assert_eq!((again.reason.as_deref(), again.by.as_str(), again.at), (Some("first"), "ann", at));
    lab.ok(complete(&lease));
    let late = lab.ok(second);
    assert_eq!(late, FlowCancelled { status: FlowStatus::Cancelled, ..expected });
    lab.recount(graph.id);
}

pub fn a_flow_that_ended_otherwise_can_not_be_cancelled(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]));
    lab.complete(graph["a"]);
    let error = lab.refused(CancelFlow::new(graph.id));
    assert_eq!(error.code(), Code::AlreadyTerminal);
    assert_eq!(error.details(), Some(&json!({ "status": "completed" })));
    let nobody = CancelFlow::new(FlowId(id(4).0));
    assert_eq!(lab.refused(nobody).code(), Code::NotFound);
}

pub fn a_held_flow_can_be_cancelled(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).hold());
    lab.ok(CancelFlow::new(graph.id));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn a_flow_that_is_being_closed_does_not_grow(lab: &mut Lab) {
    let (graph, _lease) = mixed(lab);
    lab.ok(cancel_flow(graph.id, CancelScope::RunningFinish));
    let revision = lab.flow(graph.id).revision;
    let error = lab.refused(ExtendFlow { nodes: vec![node("x")], ..extend(graph.id, revision) });
    assert_eq!(error.code(), Code::WrongState);
    assert_eq!(lab.refused(hold_flow(graph.id)).code(), Code::WrongState);
    assert_eq!(lab.refused(replay_flow(graph.id, [])).code(), Code::WrongState);
}

pub fn a_large_flow_is_cancelled_bit_by_bit_and_nobody_slips_through(lab: &mut Lab) {
    let graph = lab.plant(flow((0..2000).map(|n| node(&format!("n{n:04}")))));
    let last = lab.take(graph["n1999"]);
    let failing = lab.take(graph["n1998"]);
    let granted = lab.reserve(graph["n1997"]);
    lab.complete(graph["n0000"]);
    let answer = lab.ok(CancelFlow::new(graph.id));
    assert_eq!(answer.extent, Extent { stopped: 1999, running: 0, finished: 1 });
    assert_eq!(answer.members.len(), 1000);
    assert_eq!(answer.status, FlowStatus::Cancelling);
    assert!(lab.flow(graph.id).settling);
    assert!(lab.ok(up_to(1000)).is_empty(), "nothing that is to be stopped is handed out");
    let refused = lab.ok(by_id(graph["n1900"], "w"));
    assert!(matches!(refused, ClaimedExecution::Refused { .. }), "{refused:?}");
    assert_eq!(lab.lost(redeem(&granted)), LeaseLost::Cancelled);
    assert_eq!(lab.lost(complete(&last)), LeaseLost::Cancelled);
    assert_eq!(lab.ok(fail(&failing, Failure::permanent("x"))), FailOutcome::Cancelled);
    lab.reopen();
    lab.settle();
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.cancelled), (FlowStatus::Cancelled, 1999));
    assert_eq!(lab.ok(CancelFlow::new(graph.id)).extent, answer.extent);
}

pub fn all_members_of_a_large_flow_past_its_deadline_expire(lab: &mut Lab) {
    let nodes = (0..1200).map(|n| node(&format!("n{n:04}")));
    let graph = lab.plant(flow(nodes).deadline(secs(20)));
    let last = lab.take(graph["n1199"]);
    lab.pass(secs(20));
    lab.tick();
    assert!(lab.flow(graph.id).settling, "its last member was not looked at yet");
    lab.ok(fail(&last, Failure::transient("broken")));
    assert_eq!(lab.status(last.id()), Status::Expired);
    lab.settle();
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.expired), (FlowStatus::Expired, 1200));
}

pub fn cancel_and_completion_in_one_transaction_agree(lab: &mut Lab) {
    let (graph, lease) = mixed(lab);
    let mut one = lab.call(CancelFlow::new(graph.id));
    let mut two = lab.call(complete(&lease));
    lab.batch(&mut [&mut one, &mut two]);
    assert!(one.into_answer().is_ok());
    assert!(two.into_answer().is_err());
    lab.recount(graph.id);
    let (graph, lease) = mixed(lab);
    let mut one = lab.call(complete(&lease));
    let mut two = lab.call(CancelFlow::new(graph.id));
    lab.batch(&mut [&mut one, &mut two]);
    assert!(one.into_answer().is_ok());
    let extent = two.into_answer().expect("cancelled").extent;
    assert_eq!(extent, Extent { stopped: 4, running: 0, finished: 2 });
    lab.recount(graph.id);
}

pub fn a_member_cancelled_by_an_operator_fails_the_flow(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("b")]));
    lab.ok(Cancel::new(graph["a"]));
    lab.complete(graph["b"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn a_cancelled_member_that_waited_is_not_decided_any_more(lab: &mut Lab) {
    let nodes = [node("a"), node("b"), waits("t", After::any(["a", "b"]))];
    let graph = lab.plant(flow(nodes));
    lab.ok(Cancel::new(graph["t"]));
    assert_eq!(lab.node(graph.id, "t").join.and_then(|join| join.verdict), Some(Verdict::Moot));
    lab.complete(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:completed b:waiting t:cancelled");
    lab.complete(graph["b"]);
    lab.recount(graph.id);
}

pub fn a_large_failure_closes_a_flow_bit_by_bit(lab: &mut Lab) {
    let others = (0..1500).map(|n| node(&format!("n{n:04}")));
    let graph = lab.plant(flow([node("bad")].into_iter().chain(others)).cancel_rest_on_failure());
    lab.fail(graph["bad"]);
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Cancelling);
    assert!(lab.ok(up_to(1000)).is_empty());
    lab.settle();
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.cancelled), (FlowStatus::Failed, 1500));
}
