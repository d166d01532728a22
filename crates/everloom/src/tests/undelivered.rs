use std::collections::BTreeSet;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;

use super::*;

#[tokio::test]
async fn an_output_for_a_caller_that_left_during_the_commit_is_taken_care_of() {
    let bench = Bench::through_writer();
    bench.probe.shut();
    let (undelivered, mut taken_care_of) = mpsc::unbounded_channel();
    let driver = bench.driver.clone();
    let call = tokio::spawn(async move {
        driver.apply_with(put("one"), move |output| undelivered.send(output).unwrap()).await
    });
    until(|| bench.probe.begins() == 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    bench.probe.open();
    assert_eq!(soon(taken_care_of.recv()).await.unwrap(), "one");
    assert_eq!(soon(taken_care_of.recv()).await, None);
}

#[tokio::test]
async fn an_output_that_was_sent_and_never_fetched_is_taken_care_of() {
    let bench = Bench::through_writer();
    let (undelivered, mut taken_care_of) = mpsc::unbounded_channel();
    let care = move |output| undelivered.send(output).unwrap();
    let mut call = Box::pin(bench.driver.apply_with(put("one"), care));
    tokio::select! {
        biased;
        _ = &mut call => panic!("nothing answers within one poll"),
        () = async {} => {}
    }
    until(|| bench.probe.begins() == 1 && bench.driver.queue().is_settled()).await;
    assert!(taken_care_of.try_recv().is_err());
    drop(call);
    assert_eq!(soon(taken_care_of.recv()).await.unwrap(), "one");
    assert_eq!(soon(taken_care_of.recv()).await, None);
}

#[tokio::test]
async fn a_refusal_that_reaches_nobody_needs_no_care() {
    let bench = Bench::through_writer();
    bench.probe.shut();
    let (undelivered, mut taken_care_of) = mpsc::unbounded_channel::<String>();
    let driver = bench.driver.clone();
    let call = tokio::spawn(async move {
        driver.apply_with(Act::Refuse, move |output| undelivered.send(output).unwrap()).await
    });
    until(|| bench.probe.begins() == 1).await;
    call.abort();
    bench.probe.open();
    assert_eq!(soon(taken_care_of.recv()).await, None);
}

#[tokio::test]
async fn care_may_call_for_another_command_also_while_closing() {
    let bench = Bench::through_writer();
    bench.probe.shut();
    let (driver, carer) = (bench.driver.clone(), bench.driver.clone());
    let call = tokio::spawn(async move {
        let care = move |name| carer.spawn(put(format!("{name}-released")));
        driver.apply_with(put("one"), care).await
    });
    until(|| bench.probe.begins() == 1).await;
    call.abort();
    let driver = bench.driver.clone();
    let closing = tokio::spawn(async move { driver.close(PATIENCE).await });
    until(|| bench.driver.queue().check_open().is_err()).await;
    bench.probe.open();
    assert_eq!(closing.await.unwrap().abandoned, 0);
    let mut store = soon(bench.closed).await.unwrap();
    assert_eq!(names(&mut *store.read().unwrap()), ["one", "one-released"]);
}

#[tokio::test]
async fn care_that_panics_harms_nobody() {
    let bench = Bench::through_writer();
    bench.probe.shut();
    let driver = bench.driver.clone();
    let call =
        tokio::spawn(async move { driver.apply_with(put("one"), |_| panic!("as asked")).await });
    until(|| bench.probe.begins() == 1).await;
    call.abort();
    bench.probe.open();
    assert_eq!(soon(bench.driver.apply(put("two"))).await.unwrap(), "two");
}

#[derive(Default)]
struct Ledger {
    delivered: Mutex<Vec<String>>,
    undelivered: Mutex<Vec<String>>,
}

/// Calls and leaves after a number of turns, looking at the answer first or last in each.
async fn call_and_leave(driver: Driver, ledger: Arc<Ledger>, name: String, turns: u32, last: bool) {
    let care = Arc::clone(&ledger);
    let mut call = Box::pin(driver.apply_with(put(name), move |output| {
        lock(&care.undelivered).push(output);
    }));
    let leave = async {
        for _ in 0..turns {
            yield_now().await;
        }
    };
    tokio::pin!(leave);
    let answer = if last {
        tokio::select! { biased; () = &mut leave => None, answer = &mut call => Some(answer) }
    } else {
        tokio::select! { biased; answer = &mut call => Some(answer), () = &mut leave => None }
    };
    if let Some(answer) = answer {
        lock(&ledger.delivered).push(answer.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_output_is_delivered_or_taken_care_of_exactly_once() {
    for (seed, inline) in [(1, false), (2, true), (3, false)] {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let bench = Bench::start(Options { inline, ..Options::default() });
        let ledger = Arc::new(Ledger::default());
        let mut calls = Vec::new();
        for n in 0..300 {
            let (driver, ledger) = (bench.driver.clone(), Arc::clone(&ledger));
            let (turns, last) = (random.random_range(0..40), random.random());
            calls.push(tokio::spawn(call_and_leave(driver, ledger, format!("n{n}"), turns, last)));
            if random.random_ratio(1, 8) {
                for call in calls.drain(..) {
                    call.await.unwrap();
                }
            }
        }
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(bench.driver.close(PATIENCE).await.abandoned, 0);
        let mut store = soon(bench.closed).await.unwrap();
        let carried_out: BTreeSet<_> = names(&mut *store.read().unwrap()).into_iter().collect();
        let mut answered = lock(&ledger.delivered).clone();
        answered.extend(lock(&ledger.undelivered).iter().cloned());
        assert_eq!(answered.len(), carried_out.len(), "seed {seed}");
        assert_eq!(answered.into_iter().collect::<BTreeSet<_>>(), carried_out, "seed {seed}");
    }
}
