//! Looking at flows.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

pub fn a_flow_is_told_with_all_that_was_said(lab: &mut Lab) {
    let new = NewFlow {
        created_by: Some("ann".into()),
        ..chain(["a", "b"]).kind("report").key("k").tag("team", "x").deadline(hours(1))
    };
    let graph = lab.plant(new.cancel_rest_on_failure());
    let view = lab.flow(graph.id);
    assert_eq!((view.id, view.namespace.as_str()), (graph.id, DEFAULT_NAME));
    assert_eq!((view.kind.as_deref(), view.key.as_deref()), (Some("report"), Some("k")));
    assert_eq!((view.status, view.run, view.revision), (FlowStatus::Open, 1, 3));
    assert_eq!((view.created_at, view.since), (lab.now(), lab.now()));
    assert_eq!(view.created_by.as_deref(), Some("ann"));
    assert_eq!(view.deadline_at, Some(lab.now() + hours(1)));
    assert_eq!(view.on_member_failure, OnMemberFailure::CancelRest);
    assert_eq!(view.tags, tags([("team", "x")]));
    assert_eq!((view.parent, view.closing, view.settling), (None, None, false));
    let members: Vec<_> =
        view.members.iter().map(|one| (one.status, one.started, one.count)).collect();
    assert_eq!(members, [(Status::Waiting, false, 1), (Status::WaitingChildren, false, 1)]);
    lab.take(graph["a"]);
    let members = lab.flow(graph.id).members;
    assert!(members.contains(&MemberCount { status: Status::Active, started: true, count: 1 }));
}

pub fn nodes_are_listed_by_name_with_what_they_wait_for(lab: &mut Lab) {
    let of = vec![Upstream::new("a").bind("x"), Upstream::new("b").done()];
    let after = After { need: Need::Count(2), of, rest: Some(Rest::Run) };
    let graph = lab.plant(flow([node("b"), waits("t", after), node("a")]));
    lab.complete(graph["a"]);
    let nodes = lab.nodes(graph.id);
    let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "t"]);
    assert_eq!((nodes[0].kind.as_str(), &nodes[0].join), ("work", &None));
    let join = nodes[2].join.clone().expect("it waits");
    assert_eq!((join.need, join.rest), (Need::Count(2), Rest::Run));
    assert_eq!((join.sources, join.met, join.unmet, join.verdict), (2, 1, 0, None));
    let mut edges: Vec<_> =
        join.edges.iter().map(|edge| (edge.from.as_str(), edge.when, edge.satisfied)).collect();
    edges.sort_by_key(|edge| edge.0);
    assert_eq!(edges, [("a", When::Success, Some(true)), ("b", When::Done, None)]);
    assert!(join.edges.iter().any(|edge| edge.bind.as_deref() == Some("x")));
    assert!(join.edges.iter().all(|edge| edge.applied && edge.id.is_none() && !edge.child));
}

pub fn nodes_are_listed_page_by_page(lab: &mut Lab) {
    let graph = lab.plant(flow((0..5).map(|n| node(&format!("n{n}")))));
    let page = lab.see(ListNodes { limit: 2, ..ListNodes::new(graph.id) });
    assert_eq!((page.nodes.len(), page.next.as_deref()), (2, Some("n1")));
    let page = lab.see(ListNodes { after: Some("n3".into()), ..ListNodes::new(graph.id) });
    assert_eq!((page.nodes.len(), page.next), (1, None));
    let none = lab.ask(ListNodes { limit: 0, ..ListNodes::new(graph.id) });
    assert_eq!(none.expect_err("no page").code(), Code::InvalidInput);
}

pub fn flows_are_found_by_what_they_are(lab: &mut Lab) {
    let open = lab.plant(chain(["a"]).kind("x").tag("t", "1"));
    lab.pass(secs(10));
    let held = lab.plant(chain(["a"]).kind("y").hold());
    lab.pass(secs(10));
    let done = lab.plant(chain(["a"]).kind("x"));
    lab.complete(done["a"]);
    let find = |lab: &mut Lab, query: ListFlows| {
        let found = lab.see(query).flows;
        found.into_iter().map(|flow| flow.id).collect::<Vec<_>>()
    };
    let all = ListFlows::default;
    assert_eq!(find(lab, all()), [done.id, held.id, open.id]);
    let of_kind = ListFlows { kind: Some("x".into()), ..all() };
    assert_eq!(find(lab, of_kind), [done.id, open.id]);
    for (status, id) in
        [(FlowStatus::Open, open.id), (FlowStatus::Held, held.id), (FlowStatus::Completed, done.id)]
    {
        assert_eq!(find(lab, ListFlows { statuses: vec![status], ..all() }), [id]);
    }
    let tagged = ListFlows { tags: tags([("t", "1")]), ..all() };
    assert_eq!(find(lab, tagged), [open.id]);
    let (from, before) = (lab.now().before(secs(10)), lab.now());
    assert_eq!(find(lab, ListFlows { created_from: Some(from), ..all() }), [done.id, held.id]);
    let earlier = ListFlows { created_before: Some(before), ..all() };
    assert_eq!(find(lab, earlier), [held.id, open.id]);
    let elsewhere = ListFlows { namespace: "other".into(), ..all() };
    assert!(find(lab, elsewhere).is_empty());
    let first = lab.see(ListFlows { limit: 2, ..all() });
    assert_eq!(first.flows.len(), 2);
    let rest = ListFlows { limit: 2, after: first.next, ..all() };
    assert_eq!(find(lab, rest), [open.id]);
}

pub fn the_log_can_be_followed_by_flow(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    lab.plant(chain(["other"]));
    lab.submit(work());
    lab.complete(graph["a"]);
    lab.complete(graph["b"]);
    let events = lab.events(about_flow(graph.id));
    assert!(events.iter().all(|event| event.flow == Some(graph.id)));
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [
            EventKind::FlowSubmitted,
            EventKind::Submitted,
            EventKind::Submitted,
            EventKind::Claimed,
            EventKind::Completed,
            EventKind::BecameReady,
            EventKind::Claimed,
            EventKind::Completed,
            EventKind::FlowCompleted,
        ]
    );
    let done = events.last().and_then(|event| event.data.clone()).expect("counts");
    assert_eq!((&done["run"], &done["counts"]["completed"]), (&json!(1), &json!(2)));
}

pub fn events_of_a_flow_carry_its_tags(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]).tag("team", "x"));
    lab.complete(graph["a"]);
    let filter = EventFilter { tags: tags([("team", "x")]), ..EventFilter::default() };
    let kinds: Vec<_> = lab.events(filter).iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::FlowSubmitted, EventKind::FlowCompleted]);
}

pub fn a_commit_tells_which_flows_ended(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    lab.complete(graph["a"]);
    let lease = lab.take(graph["b"]);
    let mut call = lab.call(complete(&lease));
    let wakes = lab.batch(&mut [&mut call]);
    assert_eq!(wakes.ended_flows, [graph.id]);
}

pub fn explain_tells_what_a_node_waits_for(lab: &mut Lab) {
    let of = vec![Upstream::new("a"), Upstream::new("b").failure(), Upstream::new("c").done()];
    let t = waits("t", After { need: Need::Count(2), of, rest: None });
    let graph = lab.plant(flow([node("a"), node("b"), node("c"), t]));
    lab.complete(graph["a"]);
    let said = lab.explain(graph["t"]);
    assert!(said.contains("needs 2 of 3, has 1"), "{said}");
    assert!(said.contains("`b` to fail") && said.contains("`c` to be over"), "{said}");
    lab.ok(hold_flow(graph.id));
    assert!(lab.explain(graph["t"]).contains("is held"));
    lab.ok(unhold_flow(graph.id));
    lab.complete(graph["b"]);
    lab.complete(graph["c"]);
    lab.fail(graph["t"]);
    assert!(lab.explain(graph["t"]).contains("broken"));
    let skipped = lab.plant(chain(["a", "b"]));
    lab.fail(skipped["a"]);
    let said = lab.explain(skipped["b"]);
    assert!(said.contains("skipped") && said.contains("`a` failed"), "{said}");
}

pub fn a_node_can_be_explained_by_its_name(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let node = |node: &str| ExplainNode { namespace: ns(), flow: graph.id, node: node.into() };
    let by_id = lab.see(Explain { namespace: ns(), execution: graph["b"] });
    assert_eq!(lab.see(node("b")), by_id);
    assert!(by_id.blocked_by[0].contains("waiting for `a`"), "{by_id:?}");
    assert_eq!(lab.ask(node("x")).unwrap_err().code(), Code::NotFound);
}

pub fn a_brief_look_at_a_flow_does_not_count_its_members(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let whole = lab.flow(graph.id);
    assert_eq!(whole.members.iter().map(|one| one.count).sum::<u64>(), 2);
    let brief = lab.see(GetFlow { brief: true, ..get_flow(graph.id) });
    assert_eq!(brief, FlowView { members: vec![], ..whole });
}

pub fn the_state_vector_shows_blocked_and_skipped_members(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let axes = lab.get(graph["b"]).axes;
    assert_eq!(axes.lifecycle_phase, Phase::Runnable);
    assert_eq!(axes.eligibility_state, Eligibility::BlockedByDependencies);
    assert_eq!(axes.blocking_reason, Blocking::WaitingForChildren);
    assert_eq!(axes.attempt_state, Attempt::PendingFirstAttempt);
    assert_eq!(axes.public_state, Status::WaitingChildren);
    lab.fail(graph["a"]);
    let axes = lab.get(graph["b"]).axes;
    assert_eq!(
        (axes.lifecycle_phase, axes.terminal_outcome),
        (Phase::Terminal, Some(Outcome::Skipped))
    );
    assert_eq!(axes.attempt_state, Attempt::None);
}

pub fn a_flow_is_drawn_level_by_level(lab: &mut Lab) {
    let nodes = [
        node("z"),
        waits("b", After::all(["z"]).bind("z", "page")),
        waits("a", After::all([Upstream::new("b").failure()])),
        waits("c", After::any(["z", "b"]).run_rest()),
    ];
    let graph = lab.plant(flow(nodes));
    lab.complete(graph["z"]);
    let draw = |drawing| DrawFlow { namespace: ns(), flow: graph.id, drawing };
    let drawn = lab.see(draw(Drawing::Data));
    assert_eq!((drawn.id, drawn.status, drawn.revision), (graph.id, FlowStatus::Open, 8));
    let levels: Vec<_> =
        drawn.nodes.iter().map(|one| (one.level, one.node.name.as_str())).collect();
    assert_eq!(levels, [(0, "z"), (1, "b"), (2, "a"), (2, "c")]);
    assert_eq!(drawn.text, None);
    let text = lab.see(draw(Drawing::Mermaid)).text.expect("a text");
    let expected = [
        "flowchart TD",
        "  n0[\"z<br/>completed\"]",
        "  n1[\"b<br/>waiting\"]",
        "  n2[\"a<br/>waiting_children\"]",
        "  n3[\"c<br/>waiting\"]",
        "  n0 -->|page| n1",
        "  n1 -->|failure| n2",
        "  n0 --> n3",
        "  n1 --> n3",
        "  style n0 fill:#d3f2d8",
    ];
    let lines: Vec<_> = text.lines().take(expected.len()).collect();
    assert_eq!(lines, expected);
    let text = lab.see(draw(Drawing::Dot)).text.expect("a text");
    assert!(text.starts_with("digraph flow {\n"), "{text}");
    assert!(text.contains("  \"b\" -> \"a\" [label=\"failure\"];\n"), "{text}");
    assert!(text.contains("  \"z\" [label=\"z\\ncompleted\", fillcolor=\"#d3f2d8\"];\n"), "{text}");
}

pub fn every_kind_of_flow_event_happens(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    lab.ok(hold_flow(graph.id));
    lab.ok(unhold_flow(graph.id));
    lab.ok(ExtendFlow { edges: vec![], nodes: vec![node("c")], ..extend(graph.id, 3) });
    lab.ok(ExtendFlow { edges: vec![NewEdge::new("a", "c")], ..extend(graph.id, 4) });
    let tags = [("t".to_owned(), Some("1".to_owned()))].into();
    lab.ok(SetFlowTags { namespace: ns(), flow: graph.id, tags });
    lab.fail(graph["a"]);
    lab.ok(replay_flow(graph.id, []));
    lab.ok(CancelFlow::new(graph.id));
    lab.ok(delete_flow(graph.id));
    let done = lab.plant(chain(["a"]));
    lab.complete(done["a"]);
    lab.plant(chain(["a"]).deadline(secs(1)));
    lab.advance(secs(1));
    let told = lab.events(EventFilter::default());
    let flows = EventKind::ALL.iter().filter(|kind| kind.as_str().starts_with("flow."));
    for kind in flows.chain([&EventKind::Skipped, &EventKind::Blocked]) {
        assert!(told.iter().any(|event| event.kind == *kind), "{} never happened", kind.as_str());
    }
}

pub fn flows_survive_a_restart(lab: &mut Lab) {
    let bound = After::all(["a"]).bind("a", "x");
    let graph =
        lab.plant(flow([node("a"), waits("b", bound), node("c")]).key("k").deadline(hours(1)));
    lab.complete_with(graph["a"], "1");
    let before = (lab.flow(graph.id), lab.nodes(graph.id));
    lab.reopen();
    assert_eq!((lab.flow(graph.id), lab.nodes(graph.id)), before);
    assert_eq!(lab.take(graph["b"]).bound["x"].result, Some(Payload::bytes("1")));
    lab.advance(hours(1));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Expired);
}
