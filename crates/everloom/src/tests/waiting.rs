use everloom_core::{Claim, ExecutionId, NewExecution, Submit};
use tokio::sync::mpsc;

use super::*;
use crate::clock::Ticked;
use crate::hub::Interest;

/// Polls quickly for changes of other processes, and never looks without being woken.
fn quick() -> Options {
    let (poll, recheck) = (Duration::from_millis(1), Duration::from_secs(3600));
    Options { poll, recheck, ..Options::default() }
}

fn interest() -> Interest {
    Interest { namespace: "ns".into(), lanes: vec!["lane".into()], ..Interest::default() }
}

#[tokio::test]
async fn a_change_of_another_process_wakes_everyone() {
    let bench = Bench::start(quick());
    let mut seat = bench.driver.hub().stand_in_line(interest());
    seat.stand();
    let ending = bench.driver.hub().endings().watch(some_id().0);
    let mut events = bench.driver.hub().events();
    let (ticks, mut ticked) = mpsc::unbounded_channel();
    let tick = move || {
        ticks.send(()).unwrap();
        Act::Where
    };
    bench.driver.start_clock(tick, |_| Ticked::default());
    soon(ticked.recv()).await.unwrap();

    bench.probe.foreign.store(true, Ordering::Relaxed);
    soon(seat.called()).await;
    soon(ending.called()).await;
    soon(events.changed()).await.unwrap();
    soon(ticked.recv()).await.unwrap();
}

#[tokio::test]
async fn a_change_of_another_process_is_noticed_also_while_the_store_is_busy() {
    let bench = Bench::start(Options { inline: false, ..quick() });
    let mut seat = bench.driver.hub().stand_in_line(interest());
    seat.stand();
    let held = bench.hold_up().await;
    bench.probe.foreign.store(true, Ordering::Relaxed);
    // The look waits for its turn.
    until(|| bench.waiting() == 1).await;
    bench.probe.open();
    soon(seat.called()).await;
    held.await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_looks_for_changes_while_nobody_waits() {
    let bench = Bench::start(quick());
    bench.probe.foreign.store(true, Ordering::Relaxed);
    assert!(!bench.driver.hub().anyone_waits());
    let seat = bench.driver.hub().endings().watch(some_id().0);
    assert!(bench.driver.hub().anyone_waits());
    drop(seat);
    assert!(!bench.driver.hub().anyone_waits());
}

#[tokio::test]
async fn the_clock_runs_the_tick_when_something_is_due() {
    let bench = Bench::start(quick());
    let (ticks, mut ticked) = mpsc::unbounded_channel();
    let clock = bench.clock.clone();
    let tick = move || {
        ticks.send(everloom_core::Clock::now(&clock).as_millis()).unwrap();
        Act::Where
    };
    let slice = |_| Ticked { next_due: Some(Timestamp::from_millis(5_000)), ..Ticked::default() };
    bench.driver.start_clock(tick, slice);
    assert_eq!(soon(ticked.recv()).await, Some(1_000));
    bench.clock.set(Timestamp::from_millis(4_999));
    yield_now().await;
    bench.clock.set(Timestamp::from_millis(5_000));
    assert_eq!(soon(ticked.recv()).await, Some(5_000));
}

#[tokio::test]
async fn closing_calls_everyone_in_line() {
    let bench = Bench::start(quick());
    let mut seat = bench.driver.hub().stand_in_line(interest());
    seat.stand();
    bench.driver.close(PATIENCE).await;
    soon(seat.called()).await;
}

/// Stands in line until there was work.
async fn claim(driver: Driver, tries: Arc<AtomicUsize>) {
    let mut seat = driver.hub().stand_in_line(Interest {
        namespace: "default".into(),
        lanes: vec!["default".into()],
        ..Interest::default()
    });
    loop {
        seat.stand();
        let claimed = driver.apply(Claim::new("worker")).await.unwrap();
        tries.fetch_add(1, Ordering::Relaxed);
        if !claimed.is_empty() {
            return seat.took(|work| work.lane.name == claimed.leases[0].lane);
        }
        seat.tried();
        seat.called().await;
    }
}

async fn submit(bench: &Bench, count: usize) {
    let executions = vec![NewExecution::new("work"); count];
    let submit = Submit { namespace: "default".into(), executions };
    bench.driver.apply(submit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_calls_no_more_than_it_needs() {
    let bench = Bench::start(quick());
    let tries = Arc::new(AtomicUsize::new(0));
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..100 {
        claims.spawn(claim(bench.driver.clone(), Arc::clone(&tries)));
    }
    until(|| tries.load(Ordering::Relaxed) == 100).await;
    submit(&bench, 3).await;
    for _ in 0..3 {
        soon(claims.join_next()).await.unwrap().unwrap();
    }
    assert_eq!(tries.load(Ordering::Relaxed), 103);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_work_is_claimed_while_claims_come_and_go() {
    let bench = Bench::start(quick());
    let tries = Arc::new(AtomicUsize::new(0));
    let mut claims = tokio::task::JoinSet::new();
    for round in 0..50 {
        let going: Vec<_> =
            (0..4).map(|_| tokio::spawn(claim(bench.driver.clone(), Arc::clone(&tries)))).collect();
        claims.spawn(claim(bench.driver.clone(), Arc::clone(&tries)));
        for _ in 0..round % 7 {
            yield_now().await;
        }
        // Nothing is left for those who go: they pass on what they were called for.
        for claim in going {
            claim.abort();
            let _ = claim.await;
        }
    }
    submit(&bench, 50).await;
    while let Some(claimed) = soon(claims.join_next()).await {
        claimed.unwrap();
    }
}

fn some_id() -> ExecutionId {
    "018f0000-0000-7000-8000-000000000001".parse().unwrap()
}
