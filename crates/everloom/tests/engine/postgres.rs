//! What only a database shared by several processes can show. Two engines with different URLs of
//! one schema stand for two processes.

use std::time::Duration;

use everloom::{Claim, Code, Engine, EventFilter, EventKind, From, NewExecution, Payload, Status};

use crate::common::{count, postgres_url};

async fn pair() -> (Engine, Engine) {
    let url = postgres_url();
    let one = Engine::open(&url).await.unwrap();
    let two = Engine::open(&format!("{url}&application_name=two")).await.unwrap();
    (one, two)
}

#[tokio::test]
async fn work_goes_from_one_engine_to_a_claim_that_waits_in_another_and_back() {
    let (one, two) = pair().await;
    let worker = tokio::spawn(async move {
        let claim = Claim { wait: Duration::from_secs(4), ..Claim::new("worker") };
        let leased = two.claim(claim).await.unwrap().leases.remove(0);
        two.complete(&leased.lease, Payload::bytes("done")).await.unwrap();
        two
    });
    let id = one.submit_one(NewExecution::new("work")).await.unwrap().id();
    let end = one.wait_for(id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(end.result.unwrap().bytes, b"done");
    worker.await.unwrap();
}

#[tokio::test]
async fn a_follower_hears_of_what_another_engine_does() {
    let (one, two) = pair().await;
    let kinds = vec![EventKind::Submitted];
    let filter = EventFilter { kinds, ..EventFilter::default() };
    let mut events = one.subscribe(filter, From::Now).await.unwrap();
    let id = two.submit_one(NewExecution::new("work")).await.unwrap().id();
    assert_eq!(events.next().await.unwrap().unwrap().execution, Some(id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_never_claim_the_same_execution() {
    let (one, two) = pair().await;
    one.submit_batch(vec![NewExecution::new("work"); 300]).await.unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..16 {
        let engine = if number % 2 == 0 { one.clone() } else { two.clone() };
        workers.spawn(async move {
            loop {
                let claim = Claim { max: 3, ..Claim::new(format!("worker-{number}")) };
                let claimed = engine.claim(claim).await.unwrap();
                if claimed.is_empty() {
                    break;
                }
                for leased in claimed.leases {
                    assert_eq!(leased.attempt, 1);
                    engine.complete(&leased.lease, Payload::default()).await.unwrap();
                }
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    // A claim skips what another transaction has locked, and may end early for that.
    while let Some(leased) = one.claim(Claim::new("last")).await.unwrap().leases.pop() {
        one.complete(&leased.lease, Payload::default()).await.unwrap();
    }
    assert_eq!(count(&one, Status::Completed).await, 300);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_clear_error() {
    let error = Engine::open("postgres://nobody@127.0.0.1:1/none").await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn an_engine_that_never_saw_a_lane_lets_its_sleeping_work_go() {
    let url = postgres_url();
    let one = Engine::options().ticks(false).open(&url).await.unwrap();
    let later = NewExecution::new("work").lane("unknown").delay(Duration::from_millis(1));
    one.submit_one(later).await.unwrap();
    // Opened afterwards, and asked for nothing that would name the lane: only its clock works.
    let two = Engine::open(&format!("{url}&application_name=two")).await.unwrap();
    let lanes = vec!["unknown".to_owned()];
    let claim = Claim { lanes, wait: Duration::from_secs(20), ..Claim::new("worker") };
    assert_eq!(one.claim(claim).await.unwrap().leases.len(), 1);
    drop(two);
}
