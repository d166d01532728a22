//! Building a flow step by step, from executions that exist.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

fn create(lab: &mut Lab) -> FlowId {
    match lab.ok(CreateFlow { namespace: ns(), flow: NewFlow::new() }) {
        CreateFlowOutcome::Created { id } => id,
        other @ CreateFlowOutcome::Duplicate { .. } => panic!("not created: {other:?}"),
    }
}

fn add(flow: FlowId, execution: ExecutionId) -> AddExecution {
    AddExecution { namespace: ns(), flow, execution, node: None }
}

fn edge_id(n: u32) -> EdgeId {
    format!("00000000-0000-4000-9000-{n:012x}").parse().expect("a UUID")
}

fn stage(flow: FlowId, n: u32, ends: (ExecutionId, ExecutionId), revision: u64) -> StageEdge {
    StageEdge {
        namespace: ns(),
        flow,
        edge: edge_id(n),
        upstream: ends.0,
        downstream: ends.1,
        expected_revision: revision,
        when: When::Success,
        bind: None,
    }
}

fn apply(flow: FlowId, n: u32) -> ApplyEdge {
    ApplyEdge { namespace: ns(), flow, edge: edge_id(n) }
}

fn join(flow: FlowId, execution: ExecutionId, need: Need) -> SetJoin {
    SetJoin { namespace: ns(), flow, execution, need, rest: None }
}

/// A flow with so many members, none of which waits.
fn members<const N: usize>(lab: &mut Lab) -> (FlowId, [ExecutionId; N]) {
    let flow = create(lab);
    let ids = std::array::from_fn(|_| lab.submit(work()));
    for id in ids {
        lab.ok(add(flow, id));
    }
    (flow, ids)
}

pub fn a_created_flow_is_held_and_empty(lab: &mut Lab) {
    let flow = create(lab);
    let view = lab.recount(flow);
    assert_eq!((view.status, view.revision), (FlowStatus::Held, 0));
    lab.ok(unhold_flow(flow));
    assert_eq!(lab.flow(flow).status, FlowStatus::Open, "it waits for its first node");
    let with = CreateFlow { namespace: ns(), flow: flow_with_nodes() };
    assert_eq!(lab.refused(with).field(), Some("nodes"));
}

fn flow_with_nodes() -> NewFlow {
    chain(["a"])
}

pub fn a_flow_is_created_once_under_its_id_or_key(lab: &mut Lab) {
    let own: FlowId = "00000000-0000-4000-8000-00000000000f".parse().expect("a UUID");
    for new in [NewFlow::new().id(own), NewFlow::new().key("k")] {
        let create = || CreateFlow { namespace: ns(), flow: new.clone() };
        let CreateFlowOutcome::Created { id } = lab.ok(create()) else { panic!("not created") };
        assert_eq!(lab.ok(create()), CreateFlowOutcome::Duplicate { id });
        let other = CreateFlow { namespace: ns(), flow: new.clone().kind("other") };
        assert_eq!(lab.refused(other).code(), Code::IdempotencyConflict);
    }
}

pub fn a_flow_is_built_step_by_step_and_runs(lab: &mut Lab) {
    let flow = create(lab);
    let [a, b, c] = std::array::from_fn(|_| lab.submit(work()));
    for (n, id) in [a, b, c].into_iter().enumerate() {
        let nodes = n as u64 + 1;
        assert_eq!(lab.ok(add(flow, id)), AddExecutionOutcome::Added { nodes, revision: nodes });
    }
    let already = AddExecutionOutcome::AlreadyMember { nodes: 3, revision: 3 };
    assert_eq!(lab.ok(add(flow, a)), already);
    assert_eq!(lab.ok(stage(flow, 1, (a, c), 3)), EdgeStaged { revision: 4 });
    assert_eq!(lab.status(c), Status::WaitingChildren, "a staged edge blocks at once");
    assert_eq!(lab.ok(stage(flow, 2, (b, c), 4)), EdgeStaged { revision: 5 });
    assert_eq!(lab.ok(apply(flow, 1)), ApplyEdgeOutcome::Applied { open: 1 });
    assert_eq!(lab.ok(apply(flow, 1)), ApplyEdgeOutcome::AlreadyApplied);
    assert_eq!(lab.ok(apply(flow, 2)), ApplyEdgeOutcome::Applied { open: 2 });
    assert!(lab.nothing_to_claim());
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    lab.complete(b);
    lab.complete(c);
    assert_eq!(lab.recount(flow).status, FlowStatus::Completed);
}

pub fn three_members_are_built_and_cancelled(lab: &mut Lab) {
    let (flow, [a, b, c]) = members(lab);
    lab.ok(stage(flow, 1, (a, b), 3));
    lab.ok(stage(flow, 2, (b, c), 4));
    lab.ok(unhold_flow(flow));
    let lease = lab.take(a);
    let answer = lab.ok(CancelFlow::new(flow));
    assert_eq!(answer.extent, Extent { stopped: 3, running: 0, finished: 0 });
    assert_eq!(answer.members.len(), 3);
    let ends = lab.events(EventFilter { kinds: vec![EventKind::Cancelled], ..about_flow(flow) });
    assert_eq!(ends.len(), 3);
    lab.lost(complete(&lease));
    for never in [b, c] {
        let leases = lab.history(never).into_iter().any(|kind| kind.as_str().starts_with("lease."));
        assert!(!leases, "no lease event without a lease");
    }
    lab.recount(flow);
}

pub fn steps_in_one_transaction_see_each_other(lab: &mut Lab) {
    let flow = create(lab);
    let (a, b) = (lab.submit(work()), lab.submit(work()));
    let mut one = lab.call(add(flow, a));
    let mut two = lab.call(add(flow, b));
    let mut three = lab.call(stage(flow, 1, (a, b), 2));
    let mut four = lab.call(apply(flow, 1));
    let mut five = lab.call(unhold_flow(flow));
    lab.batch(&mut [&mut one, &mut two, &mut three, &mut four, &mut five]);
    assert_eq!(four.into_answer().expect("applied"), ApplyEdgeOutcome::Applied { open: 1 });
    assert!(five.into_answer().is_ok());
    assert_eq!(lab.claimed_ids(up_to(10)), [a]);
    lab.recount(flow);
}

pub fn an_edge_is_staged_at_the_revision_its_caller_knows(lab: &mut Lab) {
    let (flow, [a, b]) = members(lab);
    let error = lab.refused(stage(flow, 1, (a, b), 99));
    assert_eq!(error.code(), Code::StaleRevision);
    assert_eq!(error.details(), Some(&json!({ "revision": 2, "expected": 99 })));
}

pub fn an_edge_has_two_ends_in_the_flow(lab: &mut Lab) {
    let (flow, [a, b]) = members(lab);
    let (_, [elsewhere]) = members::<1>(lab);
    let alone = lab.submit(work());
    for (ends, code) in [
        ((a, a), Code::SelfEdge),
        ((a, alone), Code::NotAMember),
        ((alone, a), Code::NotAMember),
        ((a, elsewhere), Code::MemberOfOtherFlow),
        ((elsewhere, a), Code::MemberOfOtherFlow),
        ((a, id(9)), Code::NotFound),
    ] {
        assert_eq!(lab.refused(stage(flow, 1, ends, 2)).code(), code);
    }
    lab.ok(stage(flow, 1, (a, b), 2));
    assert_eq!(lab.refused(stage(flow, 2, (b, a), 3)).code(), Code::Cycle);
    let error = lab.refused(stage(flow, 1, (a, b), 3));
    assert_eq!(error.code(), Code::EdgeExists);
    assert_eq!(error.details(), Some(&json!({ "upstream": a, "downstream": b })));
    let nowhere = FlowId(id(77).0);
    assert_eq!(lab.refused(stage(nowhere, 1, (a, b), 0)).code(), Code::NotFound);
    assert_eq!(lab.refused(apply(flow, 7)).code(), Code::NotFound);
    assert_eq!(lab.refused(apply(nowhere, 1)).code(), Code::NotFound);
}

pub fn an_execution_is_added_to_one_flow_before_it_starts(lab: &mut Lab) {
    let (flow, [member]) = members(lab);
    let other = create(lab);
    let error = lab.refused(add(other, member));
    assert_eq!(error.code(), Code::MemberOfOtherFlow);
    assert_eq!(error.details(), Some(&json!({ "flow": flow })));
    assert_eq!(lab.refused(add(other, id(5))).code(), Code::NotFound);
    let unstarted = [Status::Waiting, Status::Delayed, Status::RateLimited];
    for status in STATES.into_iter().filter(|one| !unstarted.contains(one)) {
        let started = lab.bring(status, work());
        assert_eq!(lab.refused(add(other, started)).code(), Code::WrongState, "{status}");
    }
    let named = |name: &str, id| AddExecution { node: Some(name.into()), ..add(other, id) };
    let (one, two) = (lab.submit(work()), lab.submit(work()));
    lab.ok(named("a", one));
    assert_eq!(lab.refused(named("a", two)).field(), Some("node"));
    assert_eq!(lab.refused(named("not a name", two)).code(), Code::InvalidInput);
    assert_eq!(lab.get(one).node.as_deref(), Some("a"));
    assert_eq!(lab.get(member).node, Some(member.to_string()));
}

pub fn a_flow_that_is_over_takes_nothing_more(lab: &mut Lab) {
    let (flow, [a, b, c]) = members(lab);
    lab.ok(stage(flow, 1, (a, b), 3));
    lab.ok(stage(flow, 2, (a, c), 4));
    lab.ok(apply(flow, 1));
    lab.ok(CancelFlow::new(flow));
    let free = lab.submit(work());
    assert_eq!(lab.refused(add(flow, free)).code(), Code::AlreadyTerminal);
    assert_eq!(lab.refused(stage(flow, 3, (b, c), 5)).code(), Code::AlreadyTerminal);
    assert_eq!(lab.refused(apply(flow, 2)).code(), Code::AlreadyTerminal);
    assert_eq!(lab.ok(apply(flow, 1)), ApplyEdgeOutcome::AlreadyApplied);
    assert_eq!(lab.refused(join(flow, c, Need::Any)).code(), Code::AlreadyTerminal);
    assert_eq!(lab.refused(hold_flow(flow)).code(), Code::AlreadyTerminal);
}

pub fn an_edge_from_what_is_over_counts_at_once(lab: &mut Lab) {
    let (flow, [a, b, c, d]) = members(lab);
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    lab.fail(b);
    lab.ok(stage(flow, 1, (a, c), 4));
    assert_eq!(lab.status(c), Status::Waiting);
    lab.ok(stage(flow, 2, (b, d), 5));
    assert_eq!(lab.status(d), Status::Skipped);
    assert_eq!(lab.ok(apply(flow, 2)), ApplyEdgeOutcome::Applied { open: 0 });
    lab.complete(c);
    assert_eq!(lab.recount(flow).status, FlowStatus::Failed);
}

pub fn a_satisfied_node_waits_again_when_it_gets_another_source(lab: &mut Lab) {
    let (flow, [a, b, c]) = members(lab);
    lab.ok(stage(flow, 1, (a, c), 3));
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    assert_eq!(lab.status(c), Status::Waiting);
    lab.ok(stage(flow, 2, (b, c), 4));
    assert_eq!(lab.status(c), Status::WaitingChildren);
    lab.complete(b);
    assert_eq!(lab.status(c), Status::Waiting);
    lab.take(c);
    let late = lab.submit(work());
    lab.ok(add(flow, late));
    assert_eq!(lab.refused(stage(flow, 3, (late, c), 6)).code(), Code::WrongState);
    lab.recount(flow);
}

pub fn a_delayed_member_keeps_its_delay_behind_an_edge(lab: &mut Lab) {
    let flow = create(lab);
    let (a, late) = (lab.submit(work()), lab.submit(work().delay(secs(60))));
    lab.ok(add(flow, a));
    lab.ok(add(flow, late));
    lab.ok(stage(flow, 1, (a, late), 2));
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    assert_eq!(lab.status(late), Status::Delayed);
    lab.advance(secs(60));
    assert_eq!(lab.status(late), Status::Waiting);
}

pub fn a_join_is_set_before_its_first_source_is_over(lab: &mut Lab) {
    let (flow, [a, b, c, t]) = members(lab);
    assert_eq!(lab.ok(join(flow, t, Need::Count(2))), SetJoinOutcome::Set);
    assert_eq!(lab.ok(join(flow, t, Need::Count(2))), SetJoinOutcome::AlreadySet);
    let running = SetJoin { rest: Some(Rest::Run), ..join(flow, t, Need::Count(2)) };
    assert_eq!(lab.ok(running.clone()), SetJoinOutcome::Set, "compared by its full value");
    for (n, source) in [a, b, c].into_iter().enumerate() {
        lab.ok(stage(flow, n as u32, (source, t), 4 + n as u64));
        assert_eq!(lab.status(t), Status::WaitingChildren, "more sources may come");
    }
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    assert_eq!(lab.refused(join(flow, t, Need::Any)).code(), Code::WrongState);
    assert_eq!(lab.ok(running), SetJoinOutcome::AlreadySet);
    lab.complete(b);
    assert_eq!(lab.status(t), Status::Waiting);
    assert_eq!(lab.status(c), Status::Waiting);
    lab.recount(flow);
    assert_eq!(lab.refused(join(flow, t, Need::Count(0))).code(), Code::InvalidInput);
    let alone = lab.submit(work());
    assert_eq!(lab.refused(join(flow, alone, Need::Any)).code(), Code::NotAMember);
}

pub fn a_count_beyond_its_sources_skips_when_all_of_them_are_over(lab: &mut Lab) {
    let (flow, [a, t]) = members(lab);
    lab.ok(join(flow, t, Need::Count(2)));
    lab.ok(stage(flow, 1, (a, t), 2));
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    assert_eq!(lab.status(t), Status::Skipped);
    lab.recount(flow);
}

pub fn edges_of_every_kind_can_be_staged(lab: &mut Lab) {
    let (flow, [a, b, c]) = members(lab);
    lab.ok(StageEdge { when: When::Failure, ..stage(flow, 1, (a, b), 3) });
    let bound = StageEdge { when: When::Done, bind: Some("a".into()), ..stage(flow, 2, (a, c), 4) };
    lab.ok(bound.clone());
    let clash = StageEdge { edge: edge_id(3), upstream: b, expected_revision: 5, ..bound };
    assert_eq!(lab.refused(clash).field(), Some("bind"));
    lab.ok(unhold_flow(flow));
    lab.complete_with(a, "1");
    assert_eq!(lab.status(b), Status::Skipped);
    assert_eq!(lab.take(c).bound["a"].result, Some(Payload::bytes("1")));
    lab.recount(flow);
}

pub fn a_member_with_a_key_keeps_it_when_its_flow_is_removed(lab: &mut Lab) {
    let flow = create(lab);
    let keyed = || work().key("k").policy(policy(json!({ "key_window_ms": 20 * 86_400_000_u64 })));
    let a = lab.submit(keyed());
    lab.ok(add(flow, a));
    lab.ok(unhold_flow(flow));
    lab.complete(a);
    lab.advance(days(8));
    assert!(lab.ask(get_flow(flow)).is_err());
    assert!(lab.submission(keyed()).expect("known").is_duplicate());
    lab.advance(days(12));
    lab.submit(keyed());
}
