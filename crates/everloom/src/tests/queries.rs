use super::*;

fn with_readers(options: Options) -> Bench {
    Bench::with(options, Probe { has_readers: true, ..Probe::default() })
}

#[tokio::test]
async fn a_query_sees_what_was_answered_before_it() {
    for inline in [false, true] {
        let bench = Bench::start(Options { inline, ..Options::default() });
        bench.driver.apply(put("one")).await.unwrap();
        assert_eq!(bench.driver.query(Ask::Names).await.unwrap(), "one");
    }
}

#[tokio::test]
async fn a_store_without_readers_is_asked_where_it_is_free() {
    let bench = Bench::start(Options::default());
    bench.driver.query(Ask::Names).await.unwrap();
    until(|| bench.driver.queue().is_settled()).await;
    assert_eq!(bench.driver.query(Ask::Where).await.unwrap(), thread_name());
    let bench = Bench::through_writer();
    assert_eq!(bench.driver.query(Ask::Where).await.unwrap(), WRITER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_run_beside_the_writer_when_the_store_can() {
    let bench = with_readers(Options { inline: false, ..Options::default() });
    bench.driver.query(Ask::Names).await.unwrap();
    let held = bench.hold_up().await;
    assert_ne!(soon(bench.driver.query(Ask::Where)).await.unwrap(), WRITER);
    bench.probe.open();
    held.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_opened_when_needed_and_no_more_than_allowed() {
    let bench = with_readers(Options { readers: 2, ..Options::default() });
    assert_eq!(bench.probe.readers.load(Ordering::Relaxed), 0);
    bench.driver.query(Ask::Names).await.unwrap();
    bench.driver.query(Ask::Names).await.unwrap();
    assert_eq!(bench.probe.readers.load(Ordering::Relaxed), 1);
    let queries: Vec<_> = (0..50)
        .map(|_| {
            let driver = bench.driver.clone();
            tokio::spawn(async move { driver.query(Ask::Names).await })
        })
        .collect();
    for query in queries {
        query.await.unwrap().unwrap();
    }
    assert!(bench.probe.readers.load(Ordering::Relaxed) <= 2);
}

#[tokio::test]
async fn a_query_that_panics_harms_nobody() {
    for has_readers in [false, true] {
        let probe = Probe { has_readers, ..Probe::default() };
        let bench = Bench::with(Options { readers: 1, ..Options::default() }, probe);
        for _ in 0..3 {
            let refused = bench.driver.query(Ask::Panic).await.unwrap_err();
            assert_eq!(refused.code(), Code::Internal);
        }
        assert!(soon(bench.driver.query(Ask::Names)).await.is_ok());
        assert!(soon(bench.driver.apply(put("one"))).await.is_ok());
    }
}

#[tokio::test]
async fn time_in_a_query_never_runs_behind_the_last_commit() {
    let bench = Bench::start(Options::default());
    bench.driver.apply(put("one")).await.unwrap();
    bench.clock.set(Timestamp::from_millis(500));
    assert_eq!(bench.driver.query(Ask::Now).await.unwrap(), "1000");
    bench.clock.set(Timestamp::from_millis(2_000));
    assert_eq!(bench.driver.query(Ask::Now).await.unwrap(), "2000");
}

#[tokio::test]
async fn something_else_can_be_done_with_the_store_between_batches() {
    let bench = Bench::start(Options::default());
    let info = bench.driver.with_store(|store| store.info()).await.unwrap();
    assert_eq!(&info, bench.driver.info());
    let panicked = bench.driver.with_store(|_| panic!("as asked")).await;
    assert_eq!(panicked.map(|()| "nothing").unwrap_err().code(), Code::Internal);
    assert!(soon(bench.driver.apply(put("one"))).await.is_ok());
}
