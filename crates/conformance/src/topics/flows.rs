//! Submitting whole flows, and adding to them.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

fn violations(error: &Error) -> Vec<String> {
    match error.violations() {
        several if several.is_empty() => vec![error.message().to_owned()],
        several => several.iter().map(ToString::to_string).collect(),
    }
}

pub fn a_flow_is_submitted_whole_and_runs_in_its_order(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("b", After::all(["a"])),
        waits("c", After::all(["a"])),
        waits("d", After::all(["b", "c"])),
    ];
    let submitted = lab.ok(submit_flow(flow(nodes).kind("report")));
    assert_eq!((submitted.duplicate, submitted.revision), (false, 8));
    assert_eq!(submitted.status, Some(FlowStatus::Open));
    let graph = Graph { id: submitted.id, nodes: submitted.nodes };
    let told = "a:waiting b:waiting_children c:waiting_children d:waiting_children";
    assert_eq!(lab.states(graph.id), told);
    assert_eq!(lab.claimed_ids(up_to(10)), [graph["a"]]);
    assert!(lab.nothing_to_claim());
    lab.advance(secs(30));
    lab.complete(graph["a"]);
    assert_eq!(lab.claimed_ids(up_to(10)), [graph["b"], graph["c"]]);
    lab.advance(secs(30));
    lab.complete(graph["b"]);
    assert_eq!(lab.status(graph["d"]), Status::WaitingChildren);
    lab.complete(graph["c"]);
    lab.complete(graph["d"]);
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.completed), (FlowStatus::Completed, 4));
    assert_eq!(view.kind.as_deref(), Some("report"));
}

pub fn a_member_knows_its_flow_and_its_name(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let view = lab.get(graph["b"]);
    assert_eq!((view.flow, view.node.as_deref()), (Some(graph.id), Some("b")));
    let lease = lab.take(graph["a"]);
    assert_eq!((lease.flow, lease.node.as_deref()), (Some(graph.id), Some("a")));
}

pub fn everything_wrong_with_a_flow_is_listed_at_once(lab: &mut Lab) {
    let bound = After {
        of: vec![Upstream::new("a").bind("x"), Upstream::new("c").bind("x")],
        ..After::default()
    };
    let bad = flow([
        node("a"),
        node("a"),
        node("not a name"),
        waits("b", After::all(["b", "nobody"])),
        waits("c", After::count(3, ["a", "a"])),
        waits("d", After::all::<&str>([])),
        waits("e", bound),
        waits("f", After::all(["g"])),
        waits("g", After::all(["f"])),
        NewNode::new("h", work().priority(9001)),
        NewNode::new("i", work().key("own")),
    ])
    .priority(-1);
    let error = lab.refused(submit_flow(bad));
    let found = violations(&error);
    for expected in [
        "`a` is the name of nodes[0] too",
        "`not a name` is not a name",
        "`b` can not wait for itself",
        "there is no node `nobody`",
        "needs 3 of 1 distinct nodes",
        "names no node",
        "`x` is bound twice",
        "f -> g -> f",
        "nodes[9].execution.priority",
        "nodes[10].execution.key",
    ] {
        assert!(found.iter().any(|one| one.contains(expected)), "{expected} in {found:#?}");
    }
    assert!(found.iter().any(|one| one.starts_with("priority")), "{found:#?}");
}

pub fn a_circle_is_refused_with_its_path(lab: &mut Lab) {
    let alone = lab.refused(submit_flow(flow([waits("a", After::all(["a"]))])));
    assert_eq!(alone.code(), Code::SelfEdge);
    let two = flow([node("r"), waits("a", After::all(["b", "r"])), waits("b", After::all(["a"]))]);
    let error = lab.refused(submit_flow(two));
    assert_eq!(error.code(), Code::Cycle);
    assert!(error.message().contains("a -> b -> a"), "{error}");
    assert_eq!(error.details(), Some(&json!({ "cycle": ["a", "b"] })));
    let name = |n: usize| format!("n{n:04}");
    let ring = (0..1001).map(|n| waits(&name(n), After::all([name((n + 1000) % 1001)])));
    let error = lab.refused(submit_flow(flow(ring)));
    let path = error.details().and_then(|details| details["cycle"].as_array().cloned());
    let expected: Vec<_> = (0..1001).map(|n| json!(name(n))).collect();
    assert_eq!(path, Some(expected));
}

pub fn a_flow_without_nodes_is_refused(lab: &mut Lab) {
    let error = lab.refused(submit_flow(NewFlow::new()));
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("nodes")));
}

pub fn the_size_of_a_flow_is_limited(lab: &mut Lab) {
    let many = (0..=Limits::FLOW_NODES).map(|n| node(&format!("n{n}")));
    let error = lab.refused(submit_flow(flow(many)));
    assert!(violations(&error).iter().any(|one| one.starts_with("nodes: at most 10000")));
    let sources: Vec<_> = (0..=Limits::FAN_IN).map(|n| format!("s{n}")).collect();
    let roots = || sources.iter().map(|name| node(name));
    let wide = flow(roots().chain([waits("t", After::all(sources.clone()))]));
    let error = lab.refused(submit_flow(wide));
    assert!(error.message().contains("at most 1000"), "{error}");
    let targets = (0..51).map(|n| waits(&format!("t{n}"), After::all(sources[1..].to_vec())));
    let dense = flow(roots().chain(targets));
    let error = lab.refused(submit_flow(dense));
    assert!(
        violations(&error).iter().any(|one| one.starts_with("edges: at most 50000")),
        "{error}"
    );
    let parallel = After::all(["a"; Limits::PARALLEL_EDGES + 1]);
    let error = lab.refused(submit_flow(flow([node("a"), waits("b", parallel)])));
    assert!(error.message().contains("more than 16 times"), "{error}");
}

pub fn a_flow_as_large_as_may_be_is_accepted(lab: &mut Lab) {
    let sources: Vec<_> = (0..Limits::FAN_IN).map(|n| format!("s{n}")).collect();
    let roots = sources.iter().map(|name| node(name));
    let joins = (0..9).map(|n| waits(&format!("t{n}"), After::all(sources.clone())));
    let rest = (0..Limits::FLOW_NODES - 1009).map(|n| node(&format!("r{n}")));
    let submitted = lab.ok(submit_flow(flow(roots.chain(joins).chain(rest))));
    assert_eq!(submitted.revision, 19_000);
    assert_eq!(submitted.nodes.len(), Limits::FLOW_NODES);
    let view = lab.recount(submitted.id);
    assert_eq!((view.counts.nodes, view.counts.edges), (10_000, 9000));
}

pub fn a_refusal_by_the_state_of_things_names_the_node(lab: &mut Lab) {
    lab.ok(put_lane("closed", Defaults::default()));
    lab.ok(drain("closed"));
    lab.submit(work().id(id(1)));
    let nodes =
        [node("a"), NewNode::new("b", work().lane("closed")), NewNode::new("c", work().id(id(1)))];
    let error = lab.refused(submit_flow(flow(nodes)));
    let found = violations(&error);
    assert!(found.iter().any(|one| one.contains("nodes[1].execution.lane")), "{found:?}");
    assert!(found.iter().any(|one| one.contains("nodes[2].execution.id")), "{found:?}");
    let twice = [NewNode::new("a", work().id(id(2))), NewNode::new("b", work().id(id(2)))];
    let error = lab.refused(submit_flow(flow(twice)));
    assert!(error.message().contains("is the id of nodes[0] too"), "{error}");
}

pub fn the_same_flow_under_the_same_key_is_submitted_once(lab: &mut Lab) {
    let new = || chain(["a", "b"]).key("order-1");
    let first = lab.ok(submit_flow(new()));
    let again = lab.ok(submit_flow(new()));
    assert!(again.duplicate);
    assert_eq!((again.id, &again.nodes), (first.id, &first.nodes));
    assert_eq!((again.status, again.revision), (Some(FlowStatus::Open), 3));
    let error = lab.refused(submit_flow(chain(["a", "c"]).key("order-1")));
    assert_eq!(error.code(), Code::IdempotencyConflict);
    let error = lab.refused(submit([work().key("order-1")]));
    assert_eq!(error.code(), Code::IdempotencyConflict);
    lab.submit(work().key("order-2"));
    let error = lab.refused(submit_flow(chain(["a"]).key("order-2")));
    assert_eq!(error.code(), Code::IdempotencyConflict);
    assert_eq!(lab.see(ListFlows::default()).flows.len(), 1);
}

pub fn the_same_flow_under_the_same_id_is_submitted_once(lab: &mut Lab) {
    let own: FlowId = "00000000-0000-4000-8000-00000000000f".parse().expect("a UUID");
    let first = lab.ok(submit_flow(chain(["a", "b"]).id(own)));
    assert_eq!(first.id, own);
    assert!(lab.ok(submit_flow(chain(["a", "b"]).id(own))).duplicate);
    let error = lab.refused(submit_flow(chain(["a"]).id(own)));
    assert_eq!(error.code(), Code::IdempotencyConflict);
}

pub fn the_ids_of_nodes_follow_from_the_flow_and_their_names(lab: &mut Lab) {
    let own: FlowId = "00000000-0000-4000-8000-00000000000f".parse().expect("a UUID");
    let first = lab.plant(chain(["a", "b"]).id(own));
    lab.ok(CancelFlow::new(own));
    lab.ok(delete_flow(own));
    let second = lab.plant(chain(["a", "b"]).id(own));
    assert_eq!(first.nodes, second.nodes);
}

pub fn two_submissions_of_one_flow_in_a_transaction_are_one(lab: &mut Lab) {
    let mut one = lab.call(submit_flow(chain(["a", "b"]).key("k")));
    let mut two = lab.call(submit_flow(chain(["a", "b"]).key("k")));
    lab.batch(&mut [&mut one, &mut two]);
    let (one, two) = (one.into_answer().expect("made"), two.into_answer().expect("found"));
    assert_eq!((one.id, one.duplicate, two.duplicate), (two.id, false, true));
    lab.recount(one.id);
}

pub fn nodes_inherit_what_they_do_not_say_themselves(lab: &mut Lab) {
    lab.ok(put_lane("slow", defaults(json!({ "max_reclaims": 1, "max_replays": 1 }))));
    lab.ok(PutNamespace {
        namespace: ns(),
        defaults: defaults(json!({ "max_reclaims": 2, "attempt_timeout_ms": 5000 })),
    });
    let new = flow([
        node("a"),
        NewNode::new("b", work().priority(7).lane("slow")),
        NewNode::new("c", work().policy(policy(json!({ "max_replays": 5 })))),
    ])
    .priority(3000)
    .policy(policy(json!({ "max_replays": 4 })));
    let graph = lab.plant(new);
    let seen = |lab: &mut Lab, name: &str| {
        let view = lab.get(graph[name]);
        let Policy { max_reclaims, max_replays, attempt_timeout, .. } = view.policy;
        assert_eq!(attempt_timeout, Some(secs(5)));
        (view.priority, max_replays, max_reclaims)
    };
    assert_eq!(seen(lab, "a"), (3000, Some(4), Some(2)));
    assert_eq!(seen(lab, "b"), (7, Some(4), Some(1)));
    assert_eq!(seen(lab, "c"), (3000, Some(5), Some(2)));
}

pub fn a_held_flow_hands_nothing_out_until_it_is_unheld(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).hold());
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Held);
    assert!(lab.nothing_to_claim());
    let refused = ClaimedExecution::Refused { why: ClaimRefusal::Held };
    assert_eq!(lab.ok(by_id(graph["a"], "w")), refused);
    assert!(lab.explain(graph["a"]).contains("is held"));
    assert_eq!(lab.ok(hold_flow(graph.id)), HoldOutcome::Already);
    assert_eq!(lab.ok(unhold_flow(graph.id)), HoldOutcome::Done);
    assert_eq!(lab.ok(unhold_flow(graph.id)), HoldOutcome::Already);
    lab.complete(graph["a"]);
    lab.ok(hold_flow(graph.id));
    assert!(lab.nothing_to_claim());
    lab.ok(unhold_flow(graph.id));
    assert!(!lab.node(graph.id, "b").held);
    lab.complete(graph["b"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn what_runs_when_a_flow_is_held_may_finish_and_what_follows_is_held(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("g"), node("r"), waits("b", After::all(["a"]))]));
    let lease = lab.take(graph["a"]);
    let granted = lab.reserve(graph["g"]);
    let failing = lab.take(graph["r"]);
    lab.ok(hold_flow(graph.id));
    assert_eq!(lab.status(graph["g"]), Status::Waiting);
    lab.lost(redeem(&granted));
    lab.ok(complete(&lease));
    lab.ok(retry_after(&failing, secs(1)));
    lab.advance(secs(1));
    assert_eq!(lab.states(graph.id), "a:completed b:waiting g:waiting r:waiting");
    assert!(lab.nothing_to_claim());
    lab.ok(unhold_flow(graph.id));
    assert_eq!(lab.claims(up_to(10)).len(), 3);
}

pub fn a_large_flow_is_held_and_unheld_bit_by_bit_and_no_claim_notices(lab: &mut Lab) {
    let graph = lab.plant(flow((0..1200).map(|n| node(&format!("n{n:04}")))));
    lab.ok(hold_flow(graph.id));
    assert!(lab.flow(graph.id).settling);
    assert!(lab.ok(up_to(1000)).is_empty());
    let refused = ClaimedExecution::Refused { why: ClaimRefusal::Held };
    assert_eq!(lab.ok(by_id(graph["n1199"], "w")), refused);
    lab.ok(unhold_flow(graph.id));
    lab.settle();
    assert!(!lab.recount(graph.id).settling);
    assert_eq!(lab.claims(up_to(1000)).len(), 1000);
    assert_eq!(lab.claims(up_to(1000)).len(), 200);
}

pub fn a_flow_past_its_deadline_expires_with_all_that_is_open(lab: &mut Lab) {
    let new = flow([node("a"), node("b"), node("c"), waits("d", After::all(["a"]))]);
    let graph = lab.plant(new.deadline(secs(60)));
    lab.complete(graph["a"]);
    let claim = ClaimExecution { lease_ttl: hours(1), ..by_id(graph["b"], "w") };
    let ClaimedExecution::Leased(lease) = lab.ok(claim) else { panic!("not leased") };
    assert_eq!(lab.flow(graph.id).deadline_at, Some(lab.now() + secs(60)));
    lab.advance(secs(60));
    assert_eq!(lab.states(graph.id), "a:completed b:expired c:expired d:expired");
    assert_eq!(lab.end(graph["c"]).reason, EndReason::FlowDeadline);
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Expired);
    let view = lab.recount(graph.id);
    assert_eq!(view.status, FlowStatus::Expired);
    let extent = Extent { stopped: 3, running: 0, finished: 1 };
    assert_eq!(view.closing.map(|closing| closing.extent), Some(extent));
    let past = flow([node("a")]);
    let past = NewFlow { deadline_at: Some(lab.now()), ..past };
    assert_eq!(lab.refused(submit_flow(past)).code(), Code::InvalidInput);
}

pub fn flows_have_tags_of_their_own(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]).tag("team", "x").tag("old", "1"));
    let changes = [("old".to_owned(), None), ("new".to_owned(), Some("2".to_owned()))];
    let set = SetFlowTags { namespace: ns(), flow: graph.id, tags: changes.into() };
    let tagged = lab.ok(set.clone());
    assert_eq!(tagged.tags, tags([("team", "x"), ("new", "2")]));
    assert_eq!(lab.flow(graph.id).tags, tagged.tags);
    assert!(lab.get(graph["a"]).tags.is_empty());
    lab.ok(set);
    let told =
        lab.events(EventFilter { kinds: vec![EventKind::FlowTagged], ..about_flow(graph.id) });
    assert_eq!(told.len(), 1);
    let ids = |lab: &mut Lab, tags| {
        let found = lab.see(ListFlows { tags, ..ListFlows::default() }).flows;
        found.into_iter().map(|flow| flow.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(lab, tags([("new", "2")])), [graph.id]);
    assert!(ids(lab, tags([("old", "1")])).is_empty());
}

pub fn nodes_that_start_later_wait_for_their_join_first(lab: &mut Lab) {
    let later = |name: &str| NewNode::new(name, work().delay(secs(60))).after(After::all(["a"]));
    let at = lab.now() + secs(100);
    let nodes =
        [node("a"), later("b"), NewNode::new("c", work().start_at(at)).after(After::all(["a"]))];
    let graph = lab.plant(flow(nodes));
    lab.advance(secs(50));
    lab.complete(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:completed b:delayed c:delayed");
    lab.advance(secs(50));
    assert_eq!(lab.states(graph.id), "a:completed b:delayed c:waiting");
    lab.advance(secs(10));
    assert_eq!(lab.status(graph["b"]), Status::Waiting);
}

pub fn a_flow_grows_at_the_revision_its_caller_knows(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]));
    let stale = ExtendFlow { nodes: vec![node("c")], ..extend(graph.id, 2) };
    let error = lab.refused(stale);
    assert_eq!(error.code(), Code::StaleRevision);
    assert_eq!(error.details(), Some(&json!({ "revision": 3, "expected": 2 })));
    let grown = lab.ok(ExtendFlow {
        nodes: vec![node("c"), waits("d", After::all(["b", "c"]))],
        edges: vec![NewEdge::new("c", "b")],
        ..extend(graph.id, 3)
    });
    assert_eq!((grown.revision, grown.status), (8, FlowStatus::Open));
    lab.complete(graph["a"]);
    assert_eq!(lab.status(graph["b"]), Status::WaitingChildren);
    lab.complete(grown.nodes["c"]);
    lab.complete(graph["b"]);
    lab.complete(grown.nodes["d"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
    let over = lab.refused(ExtendFlow { nodes: vec![node("e")], ..extend(graph.id, 8) });
    assert_eq!(over.code(), Code::AlreadyTerminal);
    assert_eq!(lab.refused(extend(graph.id, 8)).code(), Code::AlreadyTerminal);
}

pub fn what_was_over_before_an_extension_counts_at_once(lab: &mut Lab) {
    let graph = lab.plant(flow([node("good"), node("bad"), node("open")]));
    lab.complete_with(graph["good"], "42");
    lab.fail(graph["bad"]);
    let nodes = vec![
        waits("runs", After::all(["good"]).bind("good", "number")),
        waits("skipped", After::all(["good", "bad"])),
        waits("below", After::all(["skipped"])),
        waits("waits", After::all(["good", "open"])),
        waits("any", After::any(["bad", "good"])),
        waits("heals", After::all([Upstream::new("bad").failure()])),
    ];
    let grown = lab.ok(ExtendFlow { nodes, ..extend(graph.id, 3) });
    let of = |lab: &mut Lab, name: &str| lab.status(grown.nodes[name]);
    assert_eq!(of(lab, "runs"), Status::Waiting);
    assert_eq!(of(lab, "skipped"), Status::Skipped);
    assert_eq!(of(lab, "below"), Status::Skipped);
    assert_eq!(of(lab, "waits"), Status::WaitingChildren);
    assert_eq!(of(lab, "any"), Status::Waiting);
    assert_eq!(of(lab, "heals"), Status::Waiting);
    assert_eq!(lab.take(grown.nodes["runs"]).bound["number"].result, Some(Payload::bytes("42")));
    let view = lab.recount(graph.id);
    assert_eq!(view.counts.unhandled, 0, "the failure is adopted by its handler");
}

pub fn edges_go_only_into_nodes_that_have_not_started(lab: &mut Lab) {
    let graph = lab.plant(flow(["a", "b", "c", "d"].map(node)));
    lab.take(graph["b"]);
    lab.complete(graph["c"]);
    for (to, code) in [("b", Code::WrongState), ("c", Code::WrongState), ("x", Code::InvalidInput)]
    {
        let edges = vec![NewEdge::new("a", to)];
        let error = lab.refused(ExtendFlow { edges, ..extend(graph.id, 4) });
        assert_eq!(error.code(), code, "{error}");
    }
    let edges = vec![NewEdge::new("a", "a")];
    let error = lab.refused(ExtendFlow { edges, ..extend(graph.id, 4) });
    assert_eq!(error.code(), Code::SelfEdge);
    let edges = vec![NewEdge::new("a", "d"), NewEdge::new("d", "a")];
    let error = lab.refused(ExtendFlow { edges, ..extend(graph.id, 4) });
    assert_eq!(error.code(), Code::Cycle);
    lab.ok(ExtendFlow { edges: vec![NewEdge::new("a", "d")], ..extend(graph.id, 4) });
    let edges = vec![NewEdge::new("d", "a")];
    let error = lab.refused(ExtendFlow { edges, ..extend(graph.id, 5) });
    assert!(error.message().contains("a -> d -> a"), "{error}");
    assert_eq!(lab.status(graph["d"]), Status::WaitingChildren);
    let bound = |to: &str| NewEdge { bind: Some("x".into()), ..NewEdge::new("c", to) };
    let edges = vec![bound("d"), bound("d")];
    let error = lab.refused(ExtendFlow { edges, ..extend(graph.id, 5) });
    assert!(error.message().contains("`x` is bound already"), "{error}");
}

pub fn ends_within_an_extension_are_counted_once(lab: &mut Lab) {
    let nodes = [node("bad"), node("b"), node("open"), waits("t", After::any(["open"]).run_rest())];
    let graph = lab.plant(flow(nodes));
    lab.fail(graph["bad"]);
    // The first edge skips `b`, whose end the second one carries on.
    let edges = vec![NewEdge::new("bad", "b"), NewEdge::new("b", "t")];
    lab.ok(ExtendFlow { edges, ..extend(graph.id, 5) });
    assert_eq!(lab.states(graph.id), "b:skipped bad:failed open:waiting t:waiting_children");
    let join = lab.node(graph.id, "t").join.expect("it waits");
    assert_eq!((join.sources, join.met, join.unmet), (2, 0, 1));
    lab.complete(graph["open"]);
    lab.complete(graph["t"]);
    lab.recount(graph.id);
}

pub fn an_ended_flow_is_removed_with_all_its_members(lab: &mut Lab) {
    let graph = lab.plant(chain(["a", "b"]).policy(policy(json!({ "retention_ms": 60_000 }))));
    assert_eq!(lab.refused(delete_flow(graph.id)).code(), Code::WrongState);
    lab.complete(graph["a"]);
    assert_eq!(lab.refused(delete(graph["a"])).code(), Code::InUse);
    lab.advance(days(30));
    assert_eq!(lab.status(graph["a"]), Status::Completed, "members go with their flow");
    lab.complete(graph["b"]);
    assert_eq!(lab.refused(delete(graph["b"])).code(), Code::InUse);
    lab.advance(secs(59));
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Completed);
    lab.advance(secs(1));
    assert_eq!(lab.ask(get_flow(graph.id)).expect_err("gone").code(), Code::NotFound);
    assert_eq!(lab.counts().total(), 0);
    let told = lab.events(of_kinds([EventKind::FlowDeleted]));
    assert_eq!(told.len(), 1);
}

pub fn a_flow_may_be_kept_for_ever(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]).policy(policy(json!({ "retention_ms": 0 }))));
    lab.complete(graph["a"]);
    lab.advance(days(400));
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Completed);
}

pub fn the_key_of_a_flow_is_held_for_its_window(lab: &mut Lab) {
    let keeps = json!({ "retention_ms": 3_600_000, "key_window_ms": 7_200_000 });
    let new = || chain(["a"]).key("k").policy(policy(keeps.clone()));
    let graph = lab.plant(new());
    lab.advance(days(3));
    assert!(lab.ok(submit_flow(new())).duplicate);
    lab.complete(graph["a"]);
    lab.advance(hours(1));
    assert!(lab.ask(get_flow(graph.id)).is_err());
    let again = lab.ok(submit_flow(new()));
    assert_eq!((again.id, again.duplicate, again.status), (graph.id, true, None));
    lab.advance(hours(1));
    let second = lab.plant(new());
    assert_ne!(second.id, graph.id);
    lab.complete(second["a"]);
    lab.ok(delete_flow(second.id));
    lab.plant(new());
}

pub fn a_large_flow_is_deleted_bit_by_bit(lab: &mut Lab) {
    let graph = lab.plant(flow((0..2500).map(|n| node(&format!("n{n}")))));
    lab.ok(CancelFlow::new(graph.id));
    lab.settle();
    lab.ok(delete_flow(graph.id));
    let error = lab.refused(replay_flow(graph.id, []));
    assert!(error.message().contains("being removed"), "{error}");
    lab.settle();
    assert_eq!(lab.ask(get_flow(graph.id)).expect_err("gone").code(), Code::NotFound);
    assert_eq!(lab.counts().total(), 0);
}

pub fn flows_stay_within_their_namespace(lab: &mut Lab) {
    let graph = lab.plant(chain(["a"]));
    let other = GetFlow { namespace: "other".into(), flow: graph.id, brief: false };
    assert_eq!(lab.ask(other).expect_err("elsewhere").code(), Code::NotFound);
    let cancel = CancelFlow { namespace: "other".into(), ..CancelFlow::new(graph.id) };
    assert_eq!(lab.refused(cancel).code(), Code::NotFound);
    let there = SubmitFlow { namespace: "other".into(), flow: chain(["a"]).key("k") };
    lab.ok(there);
    assert_eq!(lab.see(ListFlows::default()).flows.len(), 1);
}
