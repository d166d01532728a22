//! Commands about one flow that share a batch, and how often they go to the database.

use everloom_core::{
    After, CancelFlow, Claim, Claimed, Complete, ExtendFlow, Fail, Failure, FlowId, FlowStatus,
    GetFlow, HoldFlow, Job, Leased, NewExecution, NewFlow, NewNode, Query, Seed, Settings, Source,
    Spawn, SpawnInto, SubmitFlow, WaitChildren, WaitChildrenOutcome,
};

use super::fake::FakePg;
use super::loads::{Stopped, apply, apply_all, call, run};

fn node(name: impl Into<String>) -> NewNode {
    NewNode::new(name, NewExecution::new("kind"))
}

fn submit(store: &mut FakePg, flow: NewFlow) -> FlowId {
    apply(store, SubmitFlow { namespace: "default".into(), flow }).id
}

fn claim(store: &mut FakePg, max: usize) -> Claimed {
    apply(store, Claim { max, ..Claim::new("w") })
}

fn completions(claimed: Claimed) -> Vec<Complete> {
    let complete = |lease| Complete { namespace: "default".into(), lease, result: <_>::default() };
    claimed.leases.into_iter().map(|leased| complete(leased.lease)).collect()
}

fn status(store: &mut FakePg, flow: FlowId) -> FlowStatus {
    let settings = Settings::default();
    let mut read = store.read().unwrap();
    let cx = everloom_core::Context::new(
        everloom_core::Clock::now(&Stopped),
        &settings,
        Seed::from_number(0),
    );
    GetFlow { namespace: "default".into(), flow, brief: true }.run(&mut *read, &cx).unwrap().status
}

/// Some nodes, and one that waits for all of them.
fn funnel(width: usize) -> NewFlow {
    let names = (0..width).map(|n| format!("n{n}"));
    let last = node("last").after(After::all(names.clone()));
    NewFlow::new().nodes(names.map(node)).node(last)
}

#[test]
fn completions_of_one_batch_count_in_one_join() {
    let mut store = FakePg::default();
    let flow = submit(&mut store, funnel(20));
    let sources = completions(claim(&mut store, 100));
    assert_eq!(sources.len(), 20);
    let (_, counts) = apply_all(&mut store, sources);
    assert_eq!((counts.loads, counts.commits), (1, 1));
    let last = completions(claim(&mut store, 100));
    assert_eq!(last.len(), 1);
    let (_, counts) = apply_all(&mut store, last);
    assert!(counts.loads <= 2, "{counts:?}");
    assert_eq!(status(&mut store, flow), FlowStatus::Completed);
}

#[test]
fn the_first_completions_of_a_process_load_what_they_did_not_expect_all_at_once() {
    let loads = |width: usize| {
        let mut store = FakePg::default();
        submit(&mut store, funnel(width));
        let sources = completions(claim(&mut store, 100));
        store.elsewhere(|other| apply_all(other, sources).1.loads)
    };
    assert_eq!(loads(20), loads(2));
}

#[test]
fn a_level_of_a_cascade_costs_one_load() {
    let mut store = FakePg::default();
    let deep = |n: usize| match n {
        0 => node("n0"),
        _ => node(format!("n{n}")).after(After::all([format!("n{}", n - 1)])),
    };
    let flow = submit(&mut store, NewFlow::new().nodes((0..6).map(deep)));
    let lease = claim(&mut store, 1).leases.remove(0).lease;
    let failure = Failure::permanent("broken");
    let fail = Fail { namespace: "default".into(), lease, failure, retry_after: None };
    let (_, counts) = apply_all(&mut store, [fail]);
    assert!(counts.loads <= 6, "{counts:?}");
    assert_eq!(status(&mut store, flow), FlowStatus::Failed);
}

#[test]
fn commands_of_one_batch_see_each_others_changes_of_a_flow() {
    let mut store = FakePg::default();
    let flow = submit(&mut store, funnel(2));
    let mut sources: Vec<_> = completions(claim(&mut store, 2)).into_iter().map(call).collect();
    let namespace = "default".to_owned();
    let mut grown = call(ExtendFlow {
        namespace: namespace.clone(),
        flow,
        expected_revision: 5,
        nodes: vec![node("more").after(After::all(["last", "n0"]))],
        edges: vec![],
    });
    let mut held = call(HoldFlow { namespace, flow });
    let (one, other) = sources.split_at_mut(1);
    let mut jobs: Vec<&mut dyn Job> = vec![&mut one[0], &mut grown, &mut held, &mut other[0]];
    let counts = run(&mut store, &mut jobs);
    assert_eq!(counts.commits, 1);
    assert_eq!(grown.into_answer().unwrap().revision, 8);
    assert!(held.into_answer().is_ok());
    assert_eq!(status(&mut store, flow), FlowStatus::Held);
    assert!(claim(&mut store, 9).is_empty(), "what became ready is held");
    let cancelled = apply(&mut store, CancelFlow::new(flow));
    assert_eq!((cancelled.status, cancelled.members.len()), (FlowStatus::Cancelled, 2));
}

#[test]
fn children_of_two_flows_that_end_in_one_batch_count_in_their_parents_join() {
    let mut store = FakePg::default();
    apply(
        &mut store,
        everloom_core::Submit {
            namespace: "default".into(),
            executions: vec![NewExecution::new("parent")],
        },
    );
    let parent = claim(&mut store, 1).leases.remove(0);
    let mut children = Vec::new();
    for step in ["one", "two"] {
        let spawn = Spawn {
            namespace: "default".into(),
            lease: parent.lease.clone(),
            step: step.into(),
            nodes: vec![node("child")],
            into: SpawnInto::New,
        };
        children.extend(apply(&mut store, spawn).nodes.into_values());
    }
    let outcome = apply(&mut store, WaitChildren::new(parent.lease.clone(), children));
    assert_eq!(outcome, WaitChildrenOutcome::Waiting);
    let ends = completions(claim(&mut store, 9));
    assert_eq!(ends.len(), 2);
    let (_, counts) = apply_all(&mut store, ends);
    assert_eq!(counts.loads, 1);
    let resumed = claim(&mut store, 9).leases;
    assert_eq!(resumed.iter().map(Leased::id).collect::<Vec<_>>(), [parent.id()]);
    assert!(resumed[0].resumed);
}
