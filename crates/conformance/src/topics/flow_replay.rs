//! Running what did not succeed in a flow again.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

fn names_of(replayed: &FlowReplayed) -> Vec<&str> {
    replayed.nodes.keys().map(String::as_str).collect()
}

pub fn a_failed_middle_node_runs_again_with_what_was_skipped_because_of_it(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("b", After::all(["a"]).bind_all()),
        waits("c", After::all(["b"])),
        waits("d", After::all(["c"])),
        waits("other", After::all(["a"])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.complete_with(graph["a"], "1");
    lab.fail(graph["b"]);
    lab.complete(graph["other"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(names_of(&replayed), ["b", "c", "d"]);
    assert_eq!((replayed.status, replayed.run), (FlowStatus::Open, 2));
    let told = "a:completed b:waiting c:waiting_children d:waiting_children other:completed";
    assert_eq!(lab.states(graph.id), told);
    assert_eq!((lab.get(graph["a"]).run, lab.get(graph["b"]).run), (1, 2));
    lab.recount(graph.id);
    let lease = lab.take(graph["b"]);
    assert_eq!(lease.bound["a"].result, Some(Payload::bytes("1")));
    lab.ok(complete(&lease));
    lab.complete(graph["c"]);
    lab.complete(graph["d"]);
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.run), (FlowStatus::Completed, 2));
    let ends = lab.events(about_flow(graph.id));
    let ends: Vec<_> = ends.iter().map(|one| one.kind).filter(|kind| kind.ends_flow()).collect();
    assert_eq!(ends, [EventKind::FlowFailed, EventKind::FlowCompleted]);
}

pub fn a_quorum_is_counted_anew(lab: &mut Lab) {
    let x = After::count(2, ["u1", "u2", "u3"]).run_rest();
    let graph = lab.plant(flow([node("u1"), node("u2"), node("u3"), waits("x", x)]));
    lab.fail(graph["u1"]);
    lab.fail(graph["u2"]);
    lab.complete(graph["u3"]);
    assert_eq!(lab.states(graph.id), "u1:failed u2:failed u3:completed x:skipped");
    let replayed = lab.ok(replay_flow(graph.id, ["u1"]));
    assert_eq!(names_of(&replayed), ["u1", "x"]);
    let join = lab.node(graph.id, "x").join.expect("it waits");
    assert_eq!((join.met, join.unmet, join.verdict), (1, 1, None));
    lab.complete(graph["u1"]);
    assert_eq!(lab.status(graph["x"]), Status::Waiting);
    lab.complete(graph["x"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed, "u2 has still failed");
    lab.ok(replay_flow(graph.id, []));
    lab.complete(graph["u2"]);
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.run), (FlowStatus::Completed, 3));
    assert_eq!(lab.get(graph["x"]).run, 2, "what succeeded is left alone");
}

pub fn spare_sources_run_again_only_where_they_are_needed(lab: &mut Lab) {
    let nodes = || [node("a"), node("b"), waits("t", After::any(["a", "b"]))];
    let graph = lab.plant(flow(nodes()));
    lab.complete(graph["a"]);
    lab.fail(graph["t"]);
    assert_eq!(lab.states(graph.id), "a:completed b:cancelled t:failed");
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(names_of(&replayed), ["t"]);
    assert_eq!(lab.states(graph.id), "a:completed b:cancelled t:waiting");
    lab.complete(graph["t"]);
    lab.recount(graph.id);
    let quorum = After::count(2, ["a", "b", "c"]);
    let graph = lab.plant(flow([node("a"), node("b"), node("c"), waits("t", quorum)]));
    lab.fail(graph["a"]);
    lab.fail(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:failed b:failed c:cancelled t:skipped");
    let replayed = lab.ok(replay_flow(graph.id, ["a"]));
    assert_eq!(names_of(&replayed), ["a", "c", "t"]);
    lab.complete(graph["a"]);
    lab.complete(graph["c"]);
    lab.complete(graph["t"]);
    lab.recount(graph.id);
}

pub fn a_replay_that_could_only_skip_again_is_refused(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b", "c"]));
    lab.fail(graph["a"]);
    for node in ["b", "c"] {
        let error = lab.refused(replay_flow(graph.id, [node]));
        assert_eq!(error.code(), Code::WrongState);
        assert!(error.message().contains("replay that too"), "{error}");
    }
    let replayed = lab.ok(replay_flow(graph.id, ["b", "a"]));
    assert_eq!(names_of(&replayed), ["a", "b", "c"]);
    lab.recount(graph.id);
}

pub fn what_stays_hopeless_is_left_out(lab: &mut Lab) {
    let nodes = [
        node("a"),
        node("b"),
        waits("both", After::all(["a", "b"])),
        waits("below", After::all(["both"])),
        waits("one", After::all(["a"])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.fail(graph["a"]);
    lab.fail(graph["b"]);
    let replayed = lab.ok(replay_flow(graph.id, ["a"]));
    assert_eq!(names_of(&replayed), ["a", "one"]);
    lab.complete(graph["a"]);
    lab.complete(graph["one"]);
    assert_eq!(
        lab.states(graph.id),
        "a:completed b:failed below:skipped both:skipped one:completed"
    );
    lab.recount(graph.id);
}

pub fn a_cancelled_flow_can_be_replayed_whole(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("b", After::all(["a"])),
        waits("c", After::any(["a", "b"])),
        waits("d", After::all(["b", "c"])),
    ];
    let graph = lab.plant(flow(nodes).deadline(hours(1)));
    lab.complete(graph["a"]);
    lab.take(graph["b"]);
    lab.ok(CancelFlow::new(graph.id));
    lab.advance(hours(5));
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(names_of(&replayed), ["b", "c", "d"]);
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.run, view.closing), (FlowStatus::Open, 2, None));
    assert_eq!(view.deadline_at, Some(lab.now() + hours(1)), "it has as much time as before");
    lab.complete(graph["c"]);
    lab.complete(graph["b"]);
    lab.complete(graph["d"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn an_expired_flow_can_be_replayed(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).deadline(secs(10)));
    lab.advance(secs(10));
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Expired);
    lab.ok(replay_flow(graph.id, []));
    lab.advance(secs(10));
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.run), (FlowStatus::Expired, 2));
}

pub fn a_flow_closed_by_a_failure_can_be_replayed(lab: &mut Lab) {
    let nodes = [node("a"), node("b"), waits("c", After::all(["b"]))];
    let graph = lab.plant(flow(nodes).cancel_rest_on_failure());
    lab.fail(graph["a"]);
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(names_of(&replayed), ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        lab.complete(graph[name]);
    }
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn chosen_nodes_run_again_although_they_succeeded(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    lab.complete(graph["a"]);
    lab.complete(graph["b"]);
    let error = lab.refused(replay_flow(graph.id, []));
    assert_eq!(error.code(), Code::WrongState);
    let replayed = lab.ok(replay_flow(graph.id, ["a"]));
    assert_eq!(names_of(&replayed), ["a"]);
    lab.complete(graph["a"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
    assert_eq!(lab.get(graph["b"]).run, 1);
}

pub fn a_node_of_an_open_flow_can_be_replayed(lab: &mut Lab) {
    let nodes = [node("a"), node("b"), waits("t", After::all(["a", "b"]))];
    let graph = lab.plant(flow(nodes));
    lab.complete(graph["a"]);
    let replayed = lab.ok(replay_flow(graph.id, ["a"]));
    assert_eq!((replayed.run, names_of(&replayed)), (1, vec!["a"]));
    lab.complete(graph["b"]);
    assert_eq!(lab.status(graph["t"]), Status::WaitingChildren, "it waits for `a` anew");
    lab.complete(graph["a"]);
    assert_eq!(lab.status(graph["t"]), Status::Waiting);
    lab.recount(graph.id);
}

pub fn only_ended_nodes_of_the_flow_can_be_replayed(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    assert_eq!(lab.refused(replay_flow(graph.id, ["a"])).code(), Code::WrongState);
    assert_eq!(lab.refused(replay_flow(graph.id, ["x"])).code(), Code::NotFound);
    let nowhere = replay_flow(FlowId(id(3).0), []);
    assert_eq!(lab.refused(nowhere).code(), Code::NotFound);
}

pub fn a_member_is_replayed_as_its_flow_replays_it(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    lab.fail(graph["a"]);
    assert_eq!(lab.refused(replay(graph["b"])).code(), Code::WrongState);
    let expected = Replayed { status: Status::Waiting, run: 2 };
    assert_eq!(lab.ok(replay(graph["a"])), expected);
    assert_eq!(lab.states(graph.id), "a:waiting b:waiting_children");
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.run), (FlowStatus::Open, 2));
}

pub fn members_are_replayed_as_often_as_their_policy_allows(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).policy(policy(json!({ "max_replays": 1 }))));
    lab.fail(graph["a"]);
    lab.ok(replay_flow(graph.id, []));
    lab.fail(graph["a"]);
    let error = lab.refused(replay_flow(graph.id, []));
    assert!(error.message().contains("1 times"), "{error}");
    lab.recount(graph.id);
}

pub fn a_handled_failure_runs_again_without_the_handler_that_succeeded(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("good", After::all(["a"])),
        waits("bad", After::all([Upstream::new("a").failure()])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.fail(graph["a"]);
    lab.complete(graph["bad"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(names_of(&replayed), ["a", "good"], "the handler succeeded");
    lab.complete(graph["a"]);
    lab.complete(graph["good"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_replayed_flow_is_not_removed_by_the_retention_of_its_former_end(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]).policy(policy(json!({ "retention_ms": 60_000 }))));
    lab.fail(graph["a"]);
    lab.ok(replay_flow(graph.id, []));
    lab.advance(days(10));
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Open);
    lab.complete(graph["a"]);
    lab.advance(secs(60));
    assert!(lab.ask(get_flow(graph.id)).is_err());
}

pub fn a_large_cancelled_flow_is_replayed_whole(lab: &mut Lab) {
    let below = (0..1200).map(|n| waits(&format!("n{n:04}"), After::all(["root"])));
    let graph = lab.plant(flow([node("root")].into_iter().chain(below)));
    lab.ok(CancelFlow::new(graph.id));
    lab.settle();
    lab.recount(graph.id);
    let replayed = lab.ok(replay_flow(graph.id, []));
    assert_eq!(replayed.nodes.len(), 1201);
    lab.settle();
    lab.complete(graph["root"]);
    lab.settle();
    let view = lab.recount(graph.id);
    assert_eq!((view.counts.completed, view.counts.open()), (1, 1200));
}
