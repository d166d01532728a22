//! Members of flows that wait for signals.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

/// Leases a member and lets it wait at `door`.
#[track_caller]
fn suspend_member(lab: &mut Lab, id: ExecutionId) -> Ticket {
    let lease = lab.take(id);
    lab.suspend(suspend(&lease, Condition::at("door"))).remove(0)
}

/// Lets a member go on that waits at `door`.
#[track_caller]
fn go(lab: &mut Lab, id: ExecutionId) -> Leased {
    assert_eq!(lab.deliver(signal_at(id, "door", "go")), RESUMED);
    let lease = lab.take(id);
    assert!(lease.resumed);
    lease
}

pub fn a_member_that_waited_goes_on_in_its_flow(lab: &mut Lab) {
    let after = After::all(["a"]).bind("a", "came");
    let graph = lab.plant(flow([node("a"), waits("b", after)]));
    suspend_member(lab, graph["a"]);
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.open()), (FlowStatus::Open, 2));
    assert_eq!(lab.states(graph.id), "a:suspended b:waiting_children");
    lab.advance(days(1));
    let lease = go(lab, graph["a"]);
    assert_eq!(lease.node.as_deref(), Some("a"));
    assert_eq!(lab.states(graph.id), "a:active b:waiting_children");
    lab.ok(complete_with(&lease, "done"));
    let next = lab.take(graph["b"]);
    assert_eq!(next.bound["came"].result, Some(Payload::bytes("done")));
    lab.ok(complete(&next));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_member_keeps_what_it_was_handed_while_it_waits(lab: &mut Lab) {
    let after = After::all(["a"]).bind("a", "came");
    let graph = lab.plant(flow([node("a"), waits("b", after)]));
    lab.complete_with(graph["a"], "done");
    suspend_member(lab, graph["b"]);
    let lease = go(lab, graph["b"]);
    assert_eq!(lease.bound["came"].result, Some(Payload::bytes("done")));
}

pub fn a_member_that_waits_in_vain_counts_as_failed(lab: &mut Lab) {
    for on_timeout in [OnTimeout::Fail, OnTimeout::Cancel, OnTimeout::Expire] {
        let handled = After::all([Upstream::new("a").failure()]);
        let nodes = [node("a"), waits("b", After::all(["a"]))];
        for handler in [false, true] {
            let handler = handler.then(|| waits("c", handled.clone()));
            let graph = lab.plant(flow(nodes.clone().into_iter().chain(handler.clone())));
            let lease = lab.take(graph["a"]);
            let call = Suspend { timeout: Some(secs(5)), ..suspend(&lease, Condition::at("door")) };
            lab.suspend(Suspend { on_timeout: Some(on_timeout), ..call });
            lab.advance(secs(5));
            assert_eq!(lab.status(graph["b"]), Status::Skipped);
            if handler.is_some() {
                lab.complete(graph["c"]);
            }
            let expected = match handler {
                Some(_) => FlowStatus::Completed,
                None => FlowStatus::Failed,
            };
            assert_eq!(lab.recount(graph.id).status, expected, "{on_timeout:?}");
        }
    }
}

pub fn a_held_flow_keeps_a_resumed_member_back(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    suspend_member(lab, graph["a"]);
    lab.ok(hold_flow(graph.id));
    assert_eq!(lab.deliver(signal_at(graph["a"], "door", "go")), RESUMED);
    assert!(lab.nothing_to_claim());
    let refused = ClaimedExecution::Refused { why: ClaimRefusal::Held };
    assert_eq!(lab.ok(by_id(graph["a"], "w")), refused);
    assert!(lab.explain(graph["a"]).contains("held"));
    lab.ok(unhold_flow(graph.id));
    lab.settle();
    let lease = lab.claim("w");
    assert_eq!((lease.id(), lease.resumed), (graph["a"], true));
}

pub fn a_member_that_began_to_wait_in_a_held_flow_goes_on_when_that_is_unheld(lab: &mut Lab) {
    for resume_first in [true, false] {
        let graph = lab.plant(chain(["a", "b"]));
        let lease = lab.take(graph["a"]);
        lab.ok(hold_flow(graph.id));
        lab.suspend(suspend(&lease, Condition::at("door")));
        if resume_first {
            assert_eq!(lab.deliver(signal_at(graph["a"], "door", "go")), RESUMED);
            assert!(lab.nothing_to_claim());
        }
        lab.ok(unhold_flow(graph.id));
        lab.settle();
        if !resume_first {
            assert!(!lab.get(graph["a"]).held);
            assert_eq!(lab.deliver(signal_at(graph["a"], "door", "go")), RESUMED);
        }
        let lease = lab.claim("w");
        assert_eq!((lease.id(), lease.resumed), (graph["a"], true));
        lab.ok(CancelFlow::new(graph.id));
    }
}

pub fn a_cancel_of_all_stops_what_waits(lab: &mut Lab) {
    for grace in [secs(0), secs(30)] {
        let graph = lab.plant(chain(["a", "b"]));
        let ticket = suspend_member(lab, graph["a"]);
        let cancelled = lab.ok(CancelFlow { grace, ..CancelFlow::new(graph.id) });
        assert_eq!(cancelled.extent, Extent { stopped: 2, running: 0, finished: 0 });
        assert_eq!(lab.states(graph.id), "a:cancelled b:cancelled");
        assert_eq!(lab.end(graph["a"]).reason, EndReason::FlowCancelled);
        assert_eq!(lab.doors(graph["a"]), "door:ended");
        assert_eq!(why_closed(&lab.refused(signal_by(graph["a"], &ticket, "late"))), "ended");
        assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
    }
}

pub fn what_waits_does_not_run_and_is_stopped_when_only_what_runs_may_finish(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("b"), node("c")]));
    suspend_member(lab, graph["a"]);
    let active = lab.take(graph["b"]);
    lab.ok(cancel_flow(graph.id, CancelScope::RunningFinish));
    assert_eq!(lab.states(graph.id), "a:cancelled b:active c:cancelled");
    assert_eq!(lab.doors(graph["a"]), "door:ended");
    let outcome = lab.ok(suspend(&active, Condition::at("door")));
    assert_eq!(outcome, SuspendOutcome::Cancelled, "nor does it begin to wait");
    assert_eq!(lab.doors(graph["b"]), "");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn what_waits_has_started_and_goes_on_when_what_is_pending_is_cancelled(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("b"), node("c")]));
    suspend_member(lab, graph["a"]);
    let active = lab.take(graph["b"]);
    let cancelled = lab.ok(cancel_flow(graph.id, CancelScope::Pending));
    assert_eq!(cancelled.extent, Extent { stopped: 1, running: 2, finished: 0 });
    lab.suspend(suspend(&active, Condition::at("door")));
    assert_eq!(lab.states(graph.id), "a:suspended b:suspended c:cancelled");
    for name in ["a", "b"] {
        let lease = go(lab, graph[name]);
        lab.ok(complete(&lease));
    }
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
    assert_eq!(lab.states(graph.id), "a:completed b:completed c:cancelled");
}

pub fn the_deadline_of_a_flow_ends_what_waits(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).deadline(secs(60)));
    let ticket = suspend_member(lab, graph["a"]);
    lab.advance(secs(60));
    assert_eq!(lab.states(graph.id), "a:expired b:expired");
    assert_eq!(lab.end(graph["a"]).reason, EndReason::FlowDeadline);
    assert_eq!(why_closed(&lab.refused(signal_by(graph["a"], &ticket, "late"))), "ended");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Expired);
}

pub fn another_member_s_failure_stops_what_waits(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("bad")]).cancel_rest_on_failure());
    suspend_member(lab, graph["a"]);
    lab.fail(graph["bad"]);
    assert_eq!(lab.states(graph.id), "a:cancelled bad:failed");
    assert_eq!(lab.doors(graph["a"]), "door:ended");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn what_waits_and_is_not_needed_any_more_is_cancelled(lab: &mut Lab) {
    let any = After::any(["a", "b"]).cancel_rest();
    let graph = lab.plant(flow([node("a"), node("b"), waits("c", any)]));
    suspend_member(lab, graph["a"]);
    lab.complete(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:cancelled b:completed c:waiting");
    assert_eq!(lab.end(graph["a"]).reason, EndReason::NotNeeded);
    assert_eq!(lab.doors(graph["a"]), "door:ended");
}

pub fn nobody_slips_through_while_a_large_flow_is_closed(lab: &mut Lab) {
    let graph = lab.plant(flow((0..1200).map(|n| node(&format!("n{n:04}")))));
    let late = |n: usize| graph[format!("n{n:04}").as_str()];
    for n in 1190..1196 {
        suspend_member(lab, late(n));
    }
    let timed = lab.take(late(1196));
    let call = Suspend { timeout: Some(secs(5)), ..suspend(&timed, Condition::at("door")) };
    lab.suspend(Suspend { on_timeout: Some(OnTimeout::Resume), ..call });
    lab.ok(CancelFlow::new(graph.id));
    assert!(lab.flow(graph.id).settling, "its last members were not looked at yet");
    assert_eq!(lab.status(late(1190)), Status::Suspended);
    let met = lab.deliver(signal_at(late(1190), "door", "go"));
    assert_eq!(met, Effect::Recorded, "it does not go on");
    assert_eq!(lab.ok(Resume::new(late(1191))).status, Status::Cancelled);
    let after = Resume { delay: secs(5), ..Resume::new(late(1192)) };
    assert_eq!(lab.ok(after).status, Status::Cancelled);
    lab.ok(close_waitpoint(late(1193), "door"));
    assert!(lab.status(late(1193)).is_terminal());
    lab.pass(secs(5));
    let refused = lab.ok(by_id(late(1196), "w"));
    let why = ClaimRefusal::NotClaimable { status: Status::Cancelled };
    assert_eq!(refused, ClaimedExecution::Refused { why });
    for n in [1190, 1191, 1192, 1196] {
        assert_eq!(lab.end(late(n)).reason, EndReason::FlowCancelled);
        assert_eq!(lab.see(ListWaitpoints::new(late(n))).waitpoints, []);
    }
    lab.settle();
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
    assert_eq!(lab.see(ListInbox::default()).waitpoints, []);
}

pub fn nobody_slips_through_while_a_large_flow_is_held(lab: &mut Lab) {
    let graph = lab.plant(flow((0..1200).map(|n| node(&format!("n{n:04}")))));
    let last = graph["n1199"];
    suspend_member(lab, last);
    lab.ok(hold_flow(graph.id));
    assert!(lab.flow(graph.id).settling);
    assert_eq!(lab.deliver(signal_at(last, "door", "go")), RESUMED);
    assert!(lab.ok(up_to(1000)).is_empty());
    lab.settle();
    assert!(lab.ok(up_to(1000)).is_empty());
    lab.ok(unhold_flow(graph.id));
    lab.settle();
    assert!(lab.take(last).resumed);
}

pub fn a_replayed_member_waits_anew(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let old = suspend_member(lab, graph["a"]);
    lab.ok(CancelFlow::new(graph.id));
    lab.ok(replay_flow(graph.id, []));
    lab.settle();
    let new = suspend_member(lab, graph["a"]);
    assert_eq!(why_closed(&lab.refused(signal_by(graph["a"], &old, "late"))), "ended");
    assert_eq!(lab.deliver(signal_by(graph["a"], &new, "go")), RESUMED);
    lab.complete(graph["a"]);
    lab.complete(graph["b"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_deleted_flow_leaves_nothing_that_waits(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let lease = lab.take(graph["a"]);
    lab.ok(record_step(&lease, "one", "1"));
    let ticket = lab.suspend(suspend(&lease, Condition::at("door"))).remove(0);
    lab.ok(CancelFlow::new(graph.id));
    lab.ok(delete_flow(graph.id));
    lab.settle();
    assert_eq!(lab.ask(ListWaitpoints::new(graph["a"])).unwrap_err().code(), Code::NotFound);
    assert_eq!(why_closed(&lab.refused(signal_by(graph["a"], &ticket, "late"))), "deleted");
}

fn spawn(parent: &Leased, into: SpawnInto) -> Spawn {
    let (lease, step) = (parent.lease.clone(), "make".to_owned());
    Spawn { namespace: ns(), lease, step, nodes: vec![node("child")], into }
}

pub fn a_parent_waits_for_a_child_that_waits(lab: &mut Lab) {
    for into in [SpawnInto::Own, SpawnInto::New] {
        let graph = lab.plant(chain(["p", "q"]));
        let parent = lab.take(graph["p"]);
        let child = lab.ok(spawn(&parent, into)).nodes["child"];
        lab.ok(WaitChildren::new(parent.lease.clone(), [child]));
        suspend_member(lab, child);
        lab.advance(hours(1));
        assert_eq!(lab.status(graph["p"]), Status::WaitingChildren);
        let lease = go(lab, child);
        lab.ok(complete_with(&lease, "done"));
        let parent = lab.take(graph["p"]);
        assert!(parent.resumed);
        assert_eq!(parent.bound["child"].result, Some(Payload::bytes("done")));
        let early = lab.ok(signal(graph["p"], "go"));
        assert_eq!(early.effect, Effect::Buffered);
        lab.already_satisfied(suspend(&parent, Condition::signal()));
        lab.ok(complete(&parent));
        assert_eq!(lab.status(graph["q"]), Status::Waiting);
        lab.ok(CancelFlow::new(graph.id));
    }
}

pub fn the_end_of_a_parent_cancels_a_child_that_waits(lab: &mut Lab) {
    let parent = lab.lease(work());
    let child = lab.ok(spawn(&parent, SpawnInto::Own)).nodes["child"];
    suspend_member(lab, child);
    lab.ok(complete(&parent));
    lab.settle();
    assert_eq!(lab.end(child).reason, EndReason::ParentEnded);
    assert_eq!(lab.doors(child), "door:ended");
}

pub fn a_suspended_parent_s_children_go_on(lab: &mut Lab) {
    let parent = lab.lease(work());
    let child = lab.ok(spawn(&parent, SpawnInto::Own)).nodes["child"];
    lab.suspend(suspend(&parent, Condition::at("door")));
    lab.complete(child);
    assert_eq!(lab.status(parent.id()), Status::Suspended);
    let lease = go(lab, parent.id());
    let outcome = lab.ok(WaitChildren::new(lease.lease.clone(), [child]));
    assert!(matches!(outcome, WaitChildrenOutcome::Ready { .. }), "{outcome:?}");
}
