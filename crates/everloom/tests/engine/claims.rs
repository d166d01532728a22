//! Claims that wait, and claims whose caller goes away.

use std::time::Duration;

use crate::common::{Scratch, count, until};
use everloom::{Cancel, Claim, Engine, NewExecution, Payload, Status};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn patient(worker: &str) -> Claim {
    // Shorter than the time after which a claim would look again by itself.
    Claim { wait: Duration::from_secs(4), ..Claim::new(worker) }
}

async fn waiting_claim(
    engine: &Engine,
    claim: Claim,
) -> tokio::task::JoinHandle<everloom::Claimed> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.claim(claim).await.unwrap() })
}

#[tokio::test]
async fn a_waiting_claim_gets_work_as_soon_as_it_is_submitted() {
    let engine = Engine::open("memory").await.unwrap();
    let waiting = waiting_claim(&engine, patient("worker")).await;
    tokio::task::yield_now().await;
    engine.submit(NewExecution::new("work")).await.unwrap();
    assert_eq!(waiting.await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn a_waiting_claim_gets_work_that_is_unheld_resumed_or_released() {
    let engine = Engine::open("memory").await.unwrap();
    let held = engine.submit(NewExecution::new("work").hold()).await.unwrap().id();
    let waiting = waiting_claim(&engine, patient("one")).await;
    engine.unhold(held).await.unwrap();
    let first = waiting.await.unwrap().leases.remove(0);

    let waiting = waiting_claim(&engine, patient("two")).await;
    engine.release(&first.lease, None).await.unwrap();
    let second = waiting.await.unwrap().leases.remove(0);
    assert_eq!((second.id(), second.attempt), (held, 2));

    engine.pause_lane("default").await.unwrap();
    engine.submit(NewExecution::new("work")).await.unwrap();
    let waiting = waiting_claim(&engine, patient("three")).await;
    engine.resume_lane("default").await.unwrap();
    assert_eq!(waiting.await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn a_waiting_claim_gets_work_when_a_full_lane_has_room_again() {
    let engine = Engine::open("memory").await.unwrap();
    let one = everloom::PutLane { max_active: Some(1), ..everloom::PutLane::new("default") };
    engine.put_lane(one).await.unwrap();
    engine.submit_batch(vec![NewExecution::new("work"); 2]).await.unwrap();
    let first = engine.claim(Claim::new("one")).await.unwrap().leases.remove(0);
    let waiting = waiting_claim(&engine, patient("two")).await;
    engine.complete(&first.lease, Payload::default()).await.unwrap();
    assert_eq!(waiting.await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn a_claim_returns_empty_when_its_wait_is_over() {
    let engine = Engine::open("memory").await.unwrap();
    let claim = Claim { wait: Duration::from_millis(20), ..Claim::new("worker") };
    assert!(engine.claim(claim).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_claims_under_a_random_timeout_leak_no_lease() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    engine.submit_batch(vec![NewExecution::new("work"); 600]).await.unwrap();
    let mut received = Vec::new();
    let mut claims = tokio::task::JoinSet::new();
    for number in 0..300 {
        let engine = engine.clone();
        let patience = Duration::from_micros(random.random_range(0..3000));
        claims.spawn(async move {
            let claim = patient(&format!("worker-{number}"));
            tokio::time::timeout(patience, engine.claim(claim)).await
        });
    }
    while let Some(claim) = claims.join_next().await {
        if let Ok(claimed) = claim.unwrap() {
            received.extend(claimed.unwrap().leases);
        }
    }
    // What nobody received is claimable again, without waiting for a lease to run out.
    let active = received.len() as u64;
    until(async || count(&engine, Status::Active).await == active).await;
    assert_eq!(count(&engine, Status::Waiting).await, 600 - active);
    for leased in received {
        engine.complete(&leased.lease, Payload::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_cancel_is_seen_by_the_worker_on_renew() {
    let engine = Engine::open("memory").await.unwrap();
    let id = engine.submit(NewExecution::new("work")).await.unwrap().id();
    let lease = engine.claim(Claim::new("worker")).await.unwrap().leases.remove(0).lease;
    engine.cancel_with(Cancel { reason: Some("no".into()), ..Cancel::new(id) }).await.unwrap();
    let renewal = engine.renew(vec![lease.clone()]).await.unwrap().remove(0);
    let everloom::Renewal::Renewed { cancel: Some(cancel), .. } = renewal else {
        panic!("the cancel is not seen: {renewal:?}");
    };
    assert_eq!(cancel.reason.as_deref(), Some("no"));
    engine.acknowledge_cancel(&lease, None).await.unwrap();
    assert_eq!(engine.wait(id).await.unwrap().status, Status::Cancelled);
}
