use super::*;

#[tokio::test]
async fn closing_refuses_new_calls_and_finishes_what_waits() {
    let bench = Bench::through_writer();
    let first = bench.hold_up().await;
    let waiting: Vec<_> = (0..5).map(|n| bench.call(put(format!("n{n}")))).collect();
    until(|| bench.waiting() == 5).await;
    let driver = bench.driver.clone();
    let closing = tokio::spawn(async move { driver.close(PATIENCE).await });
    until(|| bench.driver.queue().check_open().is_err()).await;
    for refused in [bench.driver.apply(put("late")).await, bench.driver.query(Ask::Names).await] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().contains("closing"), "{error}");
    }
    bench.probe.open();
    assert_eq!(closing.await.unwrap().abandoned, 0);
    first.await.unwrap().unwrap();
    for call in waiting {
        call.await.unwrap().unwrap();
    }
    let mut store = soon(bench.closed).await.unwrap();
    let kept = names(&mut *store.read().unwrap());
    assert_eq!(kept, ["first", "n0", "n1", "n2", "n3", "n4"]);
}

#[tokio::test]
async fn closing_reports_what_it_abandoned_when_the_grace_is_over() {
    let bench = Bench::through_writer();
    let first = bench.hold_up().await;
    let waiting: Vec<_> = (0..5).map(|n| bench.call(put(format!("n{n}")))).collect();
    until(|| bench.waiting() == 5).await;
    assert_eq!(bench.driver.close(Duration::ZERO).await.abandoned, 6);
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
    bench.probe.open();
    first.await.unwrap().unwrap();
    let mut store = soon(bench.closed).await.unwrap();
    assert_eq!(names(&mut *store.read().unwrap()), ["first"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_does_not_wait_for_a_lone_caller_beyond_the_grace() {
    let bench = Bench::start(Options::default());
    let alone = bench.hold_up().await;
    assert_eq!(bench.driver.close(Duration::ZERO).await.abandoned, 1);
    bench.probe.open();
    alone.await.unwrap().unwrap();
    soon(bench.closed).await.unwrap();
}

#[tokio::test]
async fn closing_twice_is_harmless() {
    let bench = Bench::start(Options::default());
    bench.driver.apply(put("one")).await.unwrap();
    assert_eq!(bench.driver.close(PATIENCE).await.abandoned, 0);
    assert_eq!(bench.driver.close(PATIENCE).await.abandoned, 0);
    bench.driver.spawn(put("late"));
    let mut store = soon(bench.closed).await.unwrap();
    assert_eq!(names(&mut *store.read().unwrap()), ["one"]);
}

#[tokio::test]
async fn the_store_is_closed_when_closing_comes_back() {
    let mut bench = Bench::start(Options::default());
    bench.driver.close(Duration::ZERO).await;
    assert!(bench.closed.try_recv().is_ok());
}

#[tokio::test]
async fn dropping_the_last_handle_stops_everything() {
    let bench = Bench::start(Options::default());
    bench.driver.start_clock(|| Act::Where, |_| crate::clock::Ticked::default());
    bench.driver.apply(put("one")).await.unwrap();
    let other = bench.driver.clone();
    drop(bench.driver);
    other.spawn(put("two"));
    drop(other);
    let mut store = soon(bench.closed).await.unwrap();
    assert_eq!(names(&mut *store.read().unwrap()), ["one", "two"]);
    let mut probe = bench.probe;
    soon(async {
        while Arc::get_mut(&mut probe).is_none() {
            yield_now().await;
        }
    })
    .await;
}
