use super::*;

#[tokio::test]
async fn callers_that_wait_together_share_one_transaction() {
    let bench = Bench::through_writer();
    let first = bench.hold_up().await;
    let calls: Vec<_> = (0..200).map(|n| bench.call(put(format!("n{n}")))).collect();
    until(|| bench.waiting() == 200).await;
    bench.probe.open();
    first.await.unwrap().unwrap();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("n{n}"));
    }
    assert_eq!(bench.probe.begins(), 2);
}

#[tokio::test]
async fn batches_run_side_by_side_where_there_may_be_several_writers() {
    let options = Options { inline: false, ..Options::default() };
    let bench = Bench::with_stores(options, Probe::default(), 2);
    bench.probe.shut();
    let first = bench.call(put("first"));
    until(|| bench.probe.begins() == 1).await;
    let second = bench.call(put("second"));
    until(|| bench.probe.begins() == 2).await;
    let third = bench.call(put("third"));
    until(|| bench.waiting() == 1).await;
    bench.probe.open();
    for call in [first, second, third] {
        call.await.unwrap().unwrap();
    }
    assert_eq!(bench.driver.close(PATIENCE).await.abandoned, 0);
}

#[tokio::test]
async fn a_single_command_does_not_wait_for_a_writer_that_is_held_up() {
    let options = Options { inline: false, ..Options::default() };
    let bench = Bench::with_stores(options, Probe::default(), 2);
    bench.probe.shut();
    let calls: Vec<_> = (0..50).map(|n| bench.call(put(format!("n{n}")))).collect();
    until(|| bench.probe.begins() >= 1).await;
    bench.probe.open();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // Many came together the last time, and now one comes alone.
    bench.probe.shut();
    let begins = bench.probe.begins();
    let first = bench.call(put("first"));
    until(|| bench.probe.begins() == begins + 1).await;
    let second = bench.call(put("second"));
    until(|| bench.probe.begins() == begins + 2).await;
    bench.probe.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_batch_is_no_larger_than_its_cap() {
    let bench = Bench::start(Options { inline: false, batch: 10, ..Options::default() });
    let first = bench.hold_up().await;
    let calls: Vec<_> = (0..25).map(|n| bench.call(put(format!("n{n}")))).collect();
    until(|| bench.waiting() == 25).await;
    bench.probe.open();
    first.await.unwrap().unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(bench.probe.begins(), 1 + 3);
}

#[tokio::test]
async fn refused_and_panicking_commands_harm_nobody() {
    let bench = Bench::through_writer();
    let first = bench.hold_up().await;
    let mut calls = Vec::new();
    for n in 0..5 {
        calls.push((None, bench.call(put(format!("n{n}")))));
        calls.push((Some(Code::WrongState), bench.call(Act::Refuse)));
        calls.push((Some(Code::WrongState), bench.call(Act::RefuseAfterWriting)));
        calls.push((Some(Code::Internal), bench.call(Act::Panic)));
    }
    until(|| bench.waiting() == calls.len()).await;
    bench.probe.open();
    first.await.unwrap().unwrap();
    for (refusal, call) in calls {
        assert_eq!(call.await.unwrap().err().map(|error| error.code()), refusal);
    }
    assert_eq!(bench.driver.query(Ask::Names).await.unwrap(), "first n0 n1 n2 n3 n4");
}

#[tokio::test]
async fn a_store_that_panics_leaves_no_caller_hanging() {
    for inline in [false, true] {
        let bench = Bench::start(Options { inline, ..Options::default() });
        bench.probe.breaks.store(true, Ordering::Relaxed);
        let calls: Vec<_> = (0..10).map(|n| bench.call(put(format!("n{n}")))).collect();
        for call in calls {
            assert_eq!(soon(call).await.unwrap().unwrap_err().code(), Code::Internal);
        }
        bench.probe.breaks.store(false, Ordering::Relaxed);
        bench.driver.apply(put("after")).await.unwrap();
        assert_eq!(bench.driver.query(Ask::Names).await.unwrap(), "after");
    }
}

#[tokio::test]
async fn a_lone_caller_runs_its_command_on_its_own_thread_if_allowed() {
    let bench = Bench::start(Options::default());
    for _ in 0..3 {
        assert_eq!(bench.driver.apply(Act::Where).await.unwrap(), thread_name());
    }
    let bench = Bench::through_writer();
    assert_eq!(bench.driver.apply(Act::Where).await.unwrap(), WRITER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_in_company_goes_through_the_writer() {
    let bench = Bench::start(Options::default());
    let alone = bench.hold_up().await;
    let company = [bench.call(Act::Where), bench.call(Act::Where)];
    until(|| bench.waiting() == 2).await;
    bench.probe.open();
    alone.await.unwrap().unwrap();
    for call in company {
        assert_eq!(call.await.unwrap().unwrap(), WRITER);
    }
    // The others may be about to come back; who comes after that is alone again.
    assert_eq!(bench.driver.apply(Act::Where).await.unwrap(), WRITER);
    assert_ne!(bench.driver.apply(Act::Where).await.unwrap(), WRITER);
}

#[tokio::test]
async fn a_caller_in_a_loop_lets_others_run() {
    let bench = Bench::start(Options::default());
    let other = Arc::new(AtomicBool::new(false));
    let ran = Arc::clone(&other);
    tokio::spawn(async move { ran.store(true, Ordering::Relaxed) });
    bench.driver.apply(put("one")).await.unwrap();
    assert!(other.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_command_whose_caller_left_before_its_turn_is_not_run() {
    let bench = Bench::through_writer();
    let first = bench.hold_up().await;
    let gone = bench.call(put("gone"));
    let stays = bench.call(put("stays"));
    until(|| bench.waiting() == 2).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    bench.probe.open();
    first.await.unwrap().unwrap();
    stays.await.unwrap().unwrap();
    assert_eq!(bench.driver.query(Ask::Names).await.unwrap(), "first stays");
}

#[test]
fn an_engine_needs_a_runtime() {
    let clock = Arc::new(ManualClock::new(Timestamp::default()));
    let store = Box::new(MemoryStore::new());
    let started = Driver::start(vec![store], Settings::default(), clock, Options::default());
    assert_eq!(started.err().map(|error| error.code()), Some(Code::Unavailable));
}

#[test]
fn answers_arrive_also_when_the_runtime_it_was_opened_on_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened_on = runtime();
    let bench = opened_on.block_on(async { Bench::through_writer() });
    drop(opened_on);
    let put = runtime().block_on(async { soon(bench.driver.apply(put("one"))).await });
    assert_eq!(put.unwrap(), "one");
}
