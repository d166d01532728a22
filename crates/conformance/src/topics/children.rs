//! Work that a running execution makes, and waits for.

use std::collections::BTreeMap;

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

fn spawn(parent: &Leased, nodes: impl IntoIterator<Item = NewNode>) -> Spawn {
    Spawn {
        namespace: ns(),
        lease: parent.lease.clone(),
        step: "make".into(),
        nodes: nodes.into_iter().collect(),
        into: SpawnInto::Own,
    }
}

fn wait<const N: usize>(parent: &Leased, children: &Spawned, names: [&str; N]) -> WaitChildren {
    WaitChildren::new(parent.lease.clone(), names.map(|name| children.nodes[name]))
}

/// A parent that stands alone and waits for `a` and `b`.
fn waiting(lab: &mut Lab) -> (ExecutionId, Spawned) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    assert_eq!(lab.ok(wait(&parent, &made, ["a", "b"])), WaitChildrenOutcome::Waiting);
    (parent.id(), made)
}

/// What was handed over, by name: how it ended, and its result.
fn results(bound: &BTreeMap<String, Bound>) -> Vec<(&str, Status, Option<Payload>)> {
    let told = bound.iter().map(|(name, one)| (name.as_str(), one.status, one.result.clone()));
    told.collect()
}

pub fn a_parent_waits_without_a_lease_and_wakes_with_results(lab: &mut Lab) {
    let (parent, made) = waiting(lab);
    let view = lab.get(parent);
    assert_eq!((view.status, view.worker), (Status::WaitingChildren, None));
    let said = lab.explain(parent);
    assert!(said.contains("what it has made") && said.contains("needs all 2"), "{said}");
    lab.advance(days(1));
    lab.complete_with(made.nodes["a"], "1");
    assert_eq!(lab.status(parent), Status::WaitingChildren);
    lab.complete_with(made.nodes["b"], "2");
    assert_eq!(lab.status(parent), Status::Resumable);
    let lease = lab.take(parent);
    assert_eq!((lease.attempt, lease.resumed), (1, true), "the attempt goes on");
    let result = |text: &str| Some(Payload::bytes(text.to_owned()));
    let expected = [("a", Status::Completed, result("1")), ("b", Status::Completed, result("2"))];
    assert_eq!(results(&lease.bound), expected);
    lab.ok(complete(&lease));
    assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
    assert_eq!(lab.flow(made.flow).parent, Some(parent));
    assert_eq!(lab.get(made.nodes["a"]).parent, Some(parent));
}

pub fn a_member_makes_work_in_its_own_flow(lab: &mut Lab) {
    let graph = lab.plant(flow([node("p"), node("x"), waits("z", After::all(["p"]))]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a"), waits("b", After::all(["a", "x"]))]));
    assert_eq!((made.flow, made.repeated), (graph.id, false));
    let view = lab.recount(graph.id);
    assert_eq!((view.counts.nodes, view.counts.edges, view.revision), (5, 3, 8));
    lab.ok(wait(&parent, &made, ["a", "b"]));
    lab.recount(graph.id);
    lab.complete(made.nodes["a"]);
    lab.complete(graph["x"]);
    lab.complete(made.nodes["b"]);
    lab.complete(graph["p"]);
    assert_eq!(lab.status(graph["z"]), Status::Waiting);
    lab.complete(graph["z"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
    let draw = DrawFlow { namespace: ns(), flow: graph.id, drawing: Drawing::Data };
    let drawn = lab.see(draw).nodes;
    let level = |name: &str| drawn.iter().find(|one| one.node.name == name).map(|one| one.level);
    assert_eq!((level("p"), level("b"), level("z")), (Some(0), Some(1), Some(1)));
}

pub fn a_member_may_make_a_flow_of_its_own(lab: &mut Lab) {
    let graph = lab.plant(chain(["p"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(Spawn { into: SpawnInto::New, ..spawn(&parent, [node("a")]) });
    assert_ne!(made.flow, graph.id);
    assert_eq!(lab.flow(graph.id).counts.nodes, 1);
    lab.ok(wait(&parent, &made, ["a"]));
    lab.complete(made.nodes["a"]);
    assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
    lab.complete(graph["p"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_retried_parent_does_not_make_its_work_twice(lab: &mut Lab) {
    let parent = lab.lease(work());
    let first = lab.ok(spawn(&parent, [node("a"), node("b")]));
    let again = lab.ok(spawn(&parent, [node("a"), node("b")]));
    assert_eq!(again, Spawned { repeated: true, ..first.clone() });
    lab.ok(retry_after(&parent, secs(0)));
    let parent = lab.take(parent.id());
    assert_eq!(parent.attempt, 2);
    let again = lab.ok(spawn(&parent, [node("a"), node("b")]));
    assert_eq!(again, Spawned { repeated: true, ..first.clone() });
    let other = Spawn { step: "more".into(), ..spawn(&parent, [node("a")]) };
    let other = lab.ok(other);
    assert!(!other.repeated);
    assert_ne!(other.nodes["a"], first.nodes["a"]);
    assert_eq!(lab.counts().total(), 4);
}

pub fn only_the_holder_of_a_lease_makes_work_and_waits(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a")]));
    lab.ok(release(&parent));
    lab.lost(spawn(&parent, [node("b")]));
    lab.lost(wait(&parent, &made, ["a"]));
    let parent = lab.take(parent.id());
    let empty = lab.refused(spawn(&parent, []));
    assert_eq!(empty.field(), Some("nodes"));
    let bad = Spawn { step: "other".into(), ..spawn(&parent, [waits("x", After::all(["y"]))]) };
    assert_eq!(lab.refused(bad).code(), Code::InvalidInput);
    let stranger = lab.submit(work());
    let error = lab.refused(WaitChildren::new(parent.lease.clone(), [stranger]));
    assert_eq!(error.code(), Code::NotAMember);
    let error = lab.refused(WaitChildren::new(parent.lease.clone(), [id(9)]));
    assert_eq!(error.code(), Code::NotFound);
    let error = lab.refused(WaitChildren::new(parent.lease.clone(), []));
    assert_eq!(error.code(), Code::InvalidInput);
    let too_many = WaitChildren { need: Need::Count(2), ..wait(&parent, &made, ["a"]) };
    assert_eq!(lab.refused(too_many).code(), Code::InvalidInput);
}

pub fn waiting_again_under_an_ended_lease_answers_the_same(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a")]));
    let call = wait(&parent, &made, ["a"]);
    assert_eq!(lab.ok(call.clone()), WaitChildrenOutcome::Waiting);
    assert_eq!(lab.ok(call), WaitChildrenOutcome::Waiting);
    lab.lost(complete(&parent));
}

pub fn children_that_are_over_need_no_waiting(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    lab.complete_with(made.nodes["a"], "1");
    lab.fail(made.nodes["b"]);
    let call = WaitChildren { rest: Rest::Cancel, ..wait(&parent, &made, ["a", "b"]) };
    let WaitChildrenOutcome::Ready { satisfied, children } = lab.ok(call) else {
        panic!("there is nothing to wait for")
    };
    assert!(satisfied);
    let one = Some(Payload::bytes("1"));
    let expected = [("a", Status::Completed, one), ("b", Status::Failed, None)];
    assert_eq!(results(&children), expected);
    lab.ok(complete(&parent));
    lab.recount(made.flow);
}

pub fn any_or_some_children_may_do(lab: &mut Lab) {
    for (need, enough) in [(Need::Any, 1), (Need::Count(2), 2)] {
        let parent = lab.lease(work());
        let made = lab.ok(spawn(&parent, ["a", "b", "c"].map(node)));
        let call =
            WaitChildren { need, rest: Rest::Cancel, ..wait(&parent, &made, ["a", "b", "c"]) };
        lab.ok(call);
        for name in ["a", "b"].iter().take(enough) {
            assert_eq!(lab.status(parent.id()), Status::WaitingChildren);
            lab.complete(made.nodes[*name]);
        }
        assert_eq!(lab.status(parent.id()), Status::Resumable);
        assert_eq!(lab.status(made.nodes["c"]), Status::Cancelled);
        assert_eq!(lab.end(made.nodes["c"]).reason, EndReason::NotNeeded);
        let parent = lab.take(parent.id());
        assert_eq!(parent.bound.len(), 3);
        lab.ok(complete(&parent));
        lab.recount(made.flow);
    }
}

pub fn a_wait_that_is_over_at_once_cancels_its_rest_too(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    lab.complete(made.nodes["a"]);
    let call =
        WaitChildren { need: Need::Any, rest: Rest::Cancel, ..wait(&parent, &made, ["a", "b"]) };
    assert!(matches!(lab.ok(call), WaitChildrenOutcome::Ready { satisfied: true, .. }));
    assert_eq!(lab.status(made.nodes["b"]), Status::Cancelled);
    assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
}

pub fn a_wait_that_can_not_be_satisfied_wakes_the_parent_too(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    let call = WaitChildren { when: When::Success, ..wait(&parent, &made, ["a", "b"]) };
    lab.ok(call);
    lab.fail(made.nodes["a"]);
    assert_eq!(lab.status(parent.id()), Status::Resumable);
    let lease = lab.take(parent.id());
    assert_eq!(lease.bound["a"].status, Status::Failed);
    assert!(!lease.bound.contains_key("b"), "it runs on");
    assert_eq!(lab.status(made.nodes["b"]), Status::Waiting);
}

pub fn what_a_parent_waits_for_counts_as_handled(lab: &mut Lab) {
    let graph = lab.plant(chain(["p"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    lab.ok(wait(&parent, &made, ["a"]));
    lab.fail(made.nodes["a"]);
    assert_eq!(lab.recount(graph.id).counts.unhandled, 0);
    let parent = lab.take(graph["p"]);
    lab.ok(wait(&parent, &made, ["b"]));
    assert_eq!(lab.recount(graph.id).counts.unhandled, 0, "also when it waits for another");
    lab.fail(made.nodes["b"]);
    let parent = lab.take(graph["p"]);
    assert_eq!(parent.bound.keys().collect::<Vec<_>>(), ["b"], "what it waited for last");
    lab.ok(wait(&parent, &made, ["a", "b"]));
    lab.recount(graph.id);
    lab.ok(complete(&parent));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
    lab.ok(replay_flow(graph.id, []));
    lab.complete(made.nodes["a"]);
    lab.complete(made.nodes["b"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_parent_keeps_what_it_was_handed_before(lab: &mut Lab) {
    let nodes = [node("up"), waits("p", After::all(["up"]).bind("up", "input"))];
    let graph = lab.plant(flow(nodes));
    lab.complete_with(graph["up"], "1");
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a")]));
    lab.ok(wait(&parent, &made, ["a"]));
    assert_eq!(lab.recount(graph.id).counts.edges, 1);
    lab.complete_with(made.nodes["a"], "2");
    let parent = lab.take(graph["p"]);
    assert_eq!(parent.bound.keys().collect::<Vec<_>>(), ["a", "input"]);
    lab.fail_lease(&parent);
    let replayed = lab.ok(replay_flow(graph.id, ["up"]));
    assert_eq!(replayed.nodes.keys().collect::<Vec<_>>(), ["p", "up"]);
    assert_eq!(lab.status(graph["p"]), Status::WaitingChildren);
    lab.complete_with(graph["up"], "3");
    let parent = lab.take(graph["p"]);
    assert_eq!(parent.bound["input"].result, Some(Payload::bytes("3")));
    lab.ok(complete(&parent));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_source_that_ends_late_is_no_child(lab: &mut Lab) {
    let first = After::any(["u1", "u2"]).run_rest();
    let graph = lab.plant(flow([node("u1"), node("u2"), waits("p", first)]));
    lab.complete(graph["u1"]);
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a")]));
    lab.ok(wait(&parent, &made, ["a"]));
    lab.complete(graph["u2"]);
    assert_eq!(lab.status(graph["p"]), Status::WaitingChildren);
    lab.complete(made.nodes["a"]);
    assert_eq!(lab.status(graph["p"]), Status::Resumable);
    lab.recount(graph.id);
}

pub fn a_replayed_child_is_waited_for_anew(lab: &mut Lab) {
    let (parent, made) = waiting(lab);
    lab.fail(made.nodes["a"]);
    lab.ok(replay(made.nodes["a"]));
    lab.complete(made.nodes["a"]);
    assert_eq!(lab.status(parent), Status::WaitingChildren, "`b` is still open");
    lab.complete(made.nodes["b"]);
    assert_eq!(lab.status(parent), Status::Resumable);
    lab.recount(made.flow);
}

pub fn a_parent_can_not_wait_for_a_child_that_waits_for_it(lab: &mut Lab) {
    let graph = lab.plant(chain(["p"]));
    let parent = lab.take(graph["p"]);
    let made =
        lab.ok(spawn(&parent, [waits("a", After::all(["p"])), waits("b", After::all(["a"]))]));
    for name in ["a", "b"] {
        let error = lab.refused(wait(&parent, &made, [name]));
        assert_eq!((error.code(), error.field()), (Code::Cycle, Some("of")));
    }
    lab.ok(complete(&parent));
    lab.complete(made.nodes["a"]);
    lab.complete(made.nodes["b"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn the_end_of_a_parent_cancels_its_children(lab: &mut Lab) {
    type Act = fn(&mut Lab, &Leased);
    let cases: [Act; 3] = [
        |lab, parent| lab.run(complete(parent)),
        |lab, parent| lab.run(fail(parent, Failure::permanent("x"))),
        |lab, parent| lab.run(force_cancel(parent.id())),
    ];
    for act in cases {
        let parent = lab.lease(work());
        let stays = NewNode::new("c", work().policy(policy(json!({ "on_parent_end": "abandon" }))));
        let made = lab.ok(spawn(&parent, [node("a"), node("b"), stays]));
        let running = lab.take(made.nodes["a"]);
        act(lab, &parent);
        lab.settle();
        assert_eq!(lab.states(made.flow), "a:cancelled b:cancelled c:waiting");
        assert_eq!(lab.end(made.nodes["b"]).reason, EndReason::ParentEnded);
        lab.lost(complete(&running));
        lab.complete(made.nodes["c"]);
        assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
    }
}

pub fn a_parent_may_end_while_it_waits(lab: &mut Lab) {
    let (parent, made) = waiting(lab);
    lab.ok(Cancel::new(parent));
    lab.settle();
    assert_eq!(lab.status(parent), Status::Cancelled);
    assert_eq!(lab.states(made.flow), "a:cancelled b:cancelled");
    lab.recount(made.flow);
    let late = lab.lease(work().deadline_at(lab.now() + secs(100)));
    let made = lab.ok(spawn(&late, [node("a")]));
    lab.ok(wait(&late, &made, ["a"]));
    lab.advance(secs(100));
    assert_eq!(lab.status(late.id()), Status::Expired);
    assert_eq!(lab.states(made.flow), "a:cancelled");
    lab.recount(made.flow);
}

pub fn a_replayed_member_takes_its_children_along(lab: &mut Lab) {
    let graph = lab.plant(chain(["p", "z"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a"), node("b")]));
    lab.complete_with(made.nodes["a"], "1");
    lab.fail_lease(&parent);
    lab.settle();
    assert_eq!(lab.states(graph.id), "a:completed b:cancelled p:failed z:skipped");
    let replayed = lab.ok(replay_flow(graph.id, ["p"]));
    assert_eq!(replayed.nodes.keys().collect::<Vec<_>>(), ["b", "p", "z"]);
    let parent = lab.take(graph["p"]);
    let again = lab.ok(spawn(&parent, [node("a"), node("b")]));
    assert!(again.repeated);
    lab.ok(wait(&parent, &again, ["a", "b"]));
    lab.complete(made.nodes["b"]);
    lab.complete(graph["p"]);
    lab.complete(graph["z"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn many_children_are_cancelled_bit_by_bit(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, (0..1200).map(|n| node(&format!("n{n:04}")))));
    lab.ok(complete(&parent));
    lab.settle();
    let view = lab.recount(made.flow);
    assert_eq!((view.counts.cancelled, view.counts.open()), (1200, 0));
}

pub fn a_cancelled_flow_stops_a_waiting_parent_and_its_children(lab: &mut Lab) {
    let graph = lab.plant(chain(["p", "z"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(spawn(&parent, [node("a")]));
    let elsewhere =
        Spawn { into: SpawnInto::New, step: "new".into(), ..spawn(&parent, [node("x")]) };
    let elsewhere = lab.ok(elsewhere);
    let of = [made.nodes["a"], elsewhere.nodes["x"]];
    lab.ok(WaitChildren::new(parent.lease.clone(), of));
    lab.ok(CancelFlow::new(graph.id));
    lab.settle();
    assert_eq!(lab.states(graph.id), "a:cancelled p:cancelled z:cancelled");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
    assert_eq!(lab.states(elsewhere.flow), "x:cancelled");
    lab.recount(elsewhere.flow);
}

pub fn a_started_parent_wakes_in_a_flow_whose_pending_work_is_cancelled(lab: &mut Lab) {
    let graph = lab.plant(chain(["p", "z"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(Spawn { into: SpawnInto::New, ..spawn(&parent, [node("a")]) });
    lab.ok(wait(&parent, &made, ["a"]));
    lab.ok(cancel_flow(graph.id, CancelScope::Pending));
    lab.complete(made.nodes["a"]);
    let parent = lab.claim("w");
    assert_eq!(parent.id(), graph["p"]);
    lab.ok(complete(&parent));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn a_parent_of_a_held_flow_wakes_when_it_is_unheld(lab: &mut Lab) {
    let graph = lab.plant(chain(["p"]));
    let parent = lab.take(graph["p"]);
    let made = lab.ok(Spawn { into: SpawnInto::New, ..spawn(&parent, [node("a")]) });
    lab.ok(wait(&parent, &made, ["a"]));
    lab.ok(hold_flow(graph.id));
    lab.complete(made.nodes["a"]);
    assert_eq!(lab.status(graph["p"]), Status::Resumable);
    assert!(lab.nothing_to_claim());
    lab.ok(unhold_flow(graph.id));
    assert_eq!(lab.claim("w").id(), graph["p"]);
}

pub fn the_flow_of_children_is_kept_as_long_as_its_parent_runs(lab: &mut Lab) {
    let parent = lab.lease(work());
    let made = lab.ok(spawn(&parent, [node("a")]));
    lab.complete_with(made.nodes["a"], "1");
    assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
    assert_eq!(lab.refused(delete_flow(made.flow)).code(), Code::InUse);
    lab.ok(delay(&parent, days(20)));
    lab.advance(days(20));
    let parent = lab.take(parent.id());
    assert!(matches!(lab.ok(wait(&parent, &made, ["a"])), WaitChildrenOutcome::Ready { .. }));
    lab.ok(complete(&parent));
    lab.advance(hours(1));
    assert!(lab.ask(get_flow(made.flow)).is_err());
}

pub fn children_and_parent_may_end_in_one_transaction(lab: &mut Lab) {
    let (parent, made) = waiting(lab);
    let (a, b) = (lab.take(made.nodes["a"]), lab.take(made.nodes["b"]));
    let (mut one, mut two) = (lab.call(complete(&a)), lab.call(complete(&b)));
    let mut three = lab.call(Cancel::new(parent));
    lab.batch(&mut [&mut one, &mut two, &mut three]);
    assert!(one.into_answer().is_ok() && two.into_answer().is_ok());
    assert!(three.into_answer().is_ok());
    lab.settle();
    assert_eq!(lab.status(parent), Status::Cancelled);
    assert_eq!(lab.recount(made.flow).status, FlowStatus::Completed);
}
