//! Flows through the engine: waiting for them, large ones, and processes that die meanwhile.

use std::path::Path;
use std::time::Duration;

use everloom::{
    After, CancelFlow, Claim, Engine, EventFilter, EventKind, Failure, FlowId, FlowStatus, From,
    LeaseToken, Limits, ListNodes, NewExecution, NewFlow, NewNode, Payload, ReadEvents, SpawnInto,
    Status, WaitChildren, WaitChildrenOutcome,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Ledger, Scratch, another_process, postgres_url, text, until};

fn node(name: impl Into<String>) -> NewNode {
    NewNode::new(name, NewExecution::new("work"))
}

/// One node, and so many that wait for it.
fn fan(width: usize) -> NewFlow {
    let below = (0..width).map(|n| node(format!("n{n}")).after(After::all(["root"])));
    NewFlow::new().node(node("root")).nodes(below)
}

async fn claim_one(engine: &Engine) -> everloom::Leased {
    let claim = Claim { wait: Duration::from_secs(30), ..Claim::new("w") };
    engine.claim(claim).await.unwrap().leases.remove(0)
}

#[tokio::test]
async fn whoever_waits_for_a_flow_hears_of_its_end() {
    let engine = Engine::open("memory").await.unwrap();
    let flow = engine.submit_flow(fan(2)).await.unwrap();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait_flow(flow.id).await.unwrap() }
    });
    for _ in 0..3 {
        let leased = claim_one(&engine).await;
        engine.complete(&leased.lease, Payload::default()).await.unwrap();
    }
    let ended = waiting.await.unwrap();
    assert_eq!((ended.status, ended.counts.completed), (FlowStatus::Completed, 3));
}

#[tokio::test]
async fn a_worker_that_waits_for_work_gets_a_node_as_soon_as_its_join_is_satisfied() {
    let engine = Engine::open("memory").await.unwrap();
    engine.submit_flow(fan(1)).await.unwrap();
    let root = claim_one(&engine).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { claim_one(&engine).await }
    });
    engine.complete(&root.lease, Payload::default()).await.unwrap();
    assert_eq!(waiting.await.unwrap().node.as_deref(), Some("n0"));
}

#[tokio::test]
async fn a_parent_waits_for_its_children_without_a_lease_and_goes_on_with_their_results() {
    let engine = Engine::open("memory").await.unwrap();
    engine.submit_one(NewExecution::new("parent")).await.unwrap();
    let parent = claim_one(&engine).await;
    let nodes = vec![node("a"), node("b")];
    let spawned = engine.spawn(&parent.lease, "split", nodes, SpawnInto::Own).await.unwrap();
    let wait = WaitChildren::new(parent.lease.clone(), spawned.nodes.values().copied());
    assert_eq!(engine.wait_children(wait).await.unwrap(), WaitChildrenOutcome::Waiting);
    for _ in 0..2 {
        let child = claim_one(&engine).await;
        let result = Payload::bytes(child.node.clone().unwrap());
        engine.complete(&child.lease, result).await.unwrap();
    }
    let parent = claim_one(&engine).await;
    assert!(parent.resumed);
    let results: Vec<_> =
        parent.bound.values().map(|bound| bound.result.clone().unwrap().bytes).collect();
    assert_eq!(results, [b"a".to_vec(), b"b".to_vec()]);
}

/// How many nodes wait for the root of a large flow.
const WIDTH: usize = 9_999;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_skips_and_cancels_go_on_by_themselves_after_every_kill() {
    let scratch = Scratch::new();
    survive_kills(scratch.url(), &scratch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_postgres() {
    survive_kills(&postgres_url(), &Scratch::new()).await;
}

async fn survive_kills(url: &str, scratch: &Scratch) {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let ledger = scratch.beside("unraveller.ledger");
    let engine = Engine::open(url).await.unwrap();
    let skipped = engine.submit_flow(fan(WIDTH)).await.unwrap().id;
    let root = claim_one(&engine).await;
    let cancelled = engine.submit_flow(fan(WIDTH)).await.unwrap().id;
    engine.close(Duration::from_secs(5)).await;

    let lease = serde_json::to_string(&root.lease).unwrap();
    let cancel = cancelled.to_string();
    let settings = [
        ("EVERLOOM_TEST_FILE", url),
        ("EVERLOOM_TEST_LEDGER", text(&ledger)),
        ("EVERLOOM_TEST_LEASE", &lease),
        ("EVERLOOM_TEST_FLOW", &cancel),
    ];
    for life in 1..=6 {
        let mut child = another_process("unraveller", &settings);
        until(|| async { Ledger::read(&ledger, "began").len() == life }).await;
        // The moment of the kill is what is tried out: any will do.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..150))).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    let engine = Engine::open(url).await.unwrap();
    // Every kill may have come before the first call.
    engine.fail(&root.lease, Failure::permanent("broken")).await.unwrap();
    engine.cancel_flow(cancelled).await.unwrap();
    let failed = engine.wait_flow(skipped).await.unwrap();
    assert_eq!(failed.status, FlowStatus::Failed);
    assert_eq!((failed.counts.failed, failed.counts.skipped), (1, WIDTH as u64));
    let stopped = engine.wait_flow(cancelled).await.unwrap();
    assert_eq!(stopped.status, FlowStatus::Cancelled);
    assert_eq!(stopped.counts.cancelled, WIDTH as u64 + 1);
    for (flow, below) in [(skipped, Status::Skipped), (cancelled, Status::Cancelled)] {
        assert_eq!(count(&engine, flow, below).await, WIDTH + usize::from(flow == cancelled));
        // Events appear a moment after their commit.
        until(async || ends(&engine, flow).await > 0).await;
        assert_eq!(ends(&engine, flow).await, 1);
    }
    engine.close(Duration::from_secs(5)).await;
}

/// What the other process does until it is killed.
pub(crate) async fn unraveller(url: &str, ledger: &str, lease: &str, flow: &str) {
    let engine = Engine::open(url).await.unwrap();
    Ledger::open(text(Path::new(ledger))).note("began", "life");
    let lease: LeaseToken = serde_json::from_str(lease).unwrap();
    engine.fail(&lease, Failure::permanent("broken")).await.unwrap();
    let cancel = CancelFlow::new(flow.parse().unwrap());
    engine.cancel_flow_with(cancel).await.unwrap();
    std::future::pending::<()>().await;
}

async fn count(engine: &Engine, flow: FlowId, status: Status) -> usize {
    let mut list = ListNodes::new(flow);
    let mut found = 0;
    loop {
        let page = engine.nodes(list.clone()).await.unwrap();
        found += page.nodes.iter().filter(|node| node.status == status).count();
        match page.next {
            Some(next) => list.after = Some(next),
            None => return found,
        }
    }
}

/// How many events say that a flow has ended.
async fn ends(engine: &Engine, flow: FlowId) -> usize {
    let kinds = EventKind::ALL.iter().copied().filter(|kind| kind.ends_flow()).collect();
    let filter = EventFilter { flow: Some(flow), kinds, ..EventFilter::default() };
    let mut read = ReadEvents { filter, from: From::Oldest, limit: Limits::PAGE };
    let mut found = 0;
    loop {
        let page = engine.events(read.clone()).await.unwrap();
        found += page.events.len();
        if page.at_end {
            return found;
        }
        read.from = From::After(page.next);
    }
}
