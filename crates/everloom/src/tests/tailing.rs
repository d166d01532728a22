use everloom_core::{Append, Claim, Leased, NewExecution, NewFrame, Payload, Submit};
use tokio::task::JoinSet;

use super::*;
use crate::tail::{Tail, TailStream};

/// Nobody looks without being woken.
fn patient() -> Bench {
    Bench::start(Options { recheck: Duration::from_secs(3600), ..Options::default() })
}

async fn lease(bench: &Bench) -> Leased {
    let executions = vec![NewExecution::new("work")];
    bench.driver.apply(Submit { namespace: "default".into(), executions }).await.unwrap();
    bench.driver.apply(Claim::new("worker")).await.unwrap().leases.remove(0)
}

async fn append(bench: &Bench, leased: &Leased) {
    let frames = vec![NewFrame::new(Payload::default())];
    bench.driver.apply(Append::new(leased.lease.clone(), frames)).await.unwrap();
}

async fn tail(bench: &Bench, leased: &Leased) -> Tail {
    Tail::begin(bench.driver.clone(), "default".into(), TailStream::new(leased.id())).await.unwrap()
}

async fn next(tail: &mut Tail) -> u64 {
    soon(tail.next()).await.unwrap().unwrap().seq
}

/// Polls a tail that has nothing to hand out.
async fn wait_a_moment(tail: &mut Tail) {
    tokio::select! {
        biased;
        _ = tail.next() => panic!("there is nothing yet"),
        () = yield_now() => {}
    }
}

#[tokio::test]
async fn a_tail_reads_once_for_each_time_its_stream_went_on_and_not_for_others() {
    let bench = patient();
    let (mine, other) = (lease(&bench).await, lease(&bench).await);
    let mut tail = tail(&bench, &mine).await;
    let before = bench.probe.reads();
    for number in 1..=20 {
        wait_a_moment(&mut tail).await;
        append(&bench, &other).await;
        wait_a_moment(&mut tail).await;
        append(&bench, &mine).await;
        assert_eq!(next(&mut tail).await, number);
    }
    assert_eq!(bench.probe.reads() - before, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_commit_wakes_every_tail_for_one_read_each() {
    let bench = patient();
    let leased = lease(&bench).await;
    let mut tails = Vec::new();
    for _ in 0..50 {
        tails.push(tail(&bench, &leased).await);
    }
    for number in 1..=5 {
        let before = bench.probe.reads();
        let mut woken = JoinSet::new();
        for mut tail in std::mem::take(&mut tails) {
            wait_a_moment(&mut tail).await;
            woken.spawn(async move { (next(&mut tail).await, tail) });
        }
        append(&bench, &leased).await;
        while let Some(tail) = woken.join_next().await {
            let (seen, tail) = tail.unwrap();
            assert_eq!(seen, number);
            tails.push(tail);
        }
        assert_eq!(bench.probe.reads() - before, 50);
    }
}

#[tokio::test]
async fn a_tail_that_is_dropped_leaves_nothing_behind() {
    let bench = patient();
    let leased = lease(&bench).await;
    let mut waiting = tail(&bench, &leased).await;
    wait_a_moment(&mut waiting).await;
    let unread = tail(&bench, &leased).await;
    assert!(bench.driver.hub().anyone_waits());
    drop(waiting);
    assert!(bench.driver.hub().anyone_waits());
    drop(unread);
    assert!(!bench.driver.hub().anyone_waits());
}

#[tokio::test]
async fn a_tail_that_could_not_begin_leaves_nothing_behind() {
    let bench = patient();
    let nobody = TailStream::new("018f0000-0000-7000-8000-000000000001".parse().unwrap());
    let refused = Tail::begin(bench.driver.clone(), "default".into(), nobody).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(!bench.driver.hub().anyone_waits());
}

#[tokio::test]
async fn a_waiting_tail_is_woken_by_a_change_of_another_process() {
    let poll = Duration::from_millis(1);
    let recheck = Duration::from_secs(3600);
    let bench = Bench::start(Options { poll, recheck, ..Options::default() });
    let leased = lease(&bench).await;
    let mut tail = tail(&bench, &leased).await;
    wait_a_moment(&mut tail).await;
    let before = bench.probe.reads();
    bench.probe.foreign.store(true, Ordering::Relaxed);
    let reads_on = async {
        while bench.probe.reads() == before {
            wait_a_moment(&mut tail).await;
        }
    };
    soon(reads_on).await;
}

#[tokio::test]
async fn closing_ends_a_tail() {
    let bench = patient();
    let leased = lease(&bench).await;
    let mut tail = tail(&bench, &leased).await;
    let following = tokio::spawn(async move { (tail.next().await, tail.closed()) });
    yield_now().await;
    bench.driver.close(PATIENCE).await;
    let (last, closed) = soon(following).await.unwrap();
    assert_eq!(last.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(closed, None);
}
