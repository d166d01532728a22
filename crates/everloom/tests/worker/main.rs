//! Handlers as programs write them: run, retried, put aside, and killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everloom::handler::Error;
use everloom::test::TestKit;
use everloom::{
    Backoff, Ctx, DeliverSignal, Engine, Payload, Policy, Result, RetryPolicy, RunningWorker,
    Status, Worker,
};
use tokio::sync::Semaphore;

#[derive(Default)]
struct Calls(AtomicUsize);

impl Calls {
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

async fn engine() -> Engine {
    Engine::open("memory").await.unwrap()
}

fn at_once() -> Policy {
    let backoff = Some(Backoff::Fixed { delay_ms: 1 });
    Policy { retry: RetryPolicy { backoff, ..RetryPolicy::default() }, ..Policy::default() }
}

async fn stop(worker: RunningWorker) {
    let drained = worker.shutdown(Duration::from_secs(30)).await;
    assert_eq!(drained.given_back, 0);
}

#[tokio::test]
async fn a_recorded_step_is_not_taken_again_when_the_handler_is_retried() {
    let engine = engine().await;
    let calls = Arc::new(Calls::default());
    let counted = Arc::clone(&calls);
    let handler = move |ctx: Ctx, input: u32| {
        let calls = Arc::clone(&counted);
        async move {
            let doubled =
                ctx.step("double", || async { Ok::<_, Error>((calls.next(), input * 2)) }).await?;
            match ctx.attempt() {
                1 => Err(Error::retry("not yet")),
                _ => Ok(doubled),
            }
        }
    };
    let worker = Worker::new(engine.clone()).handle("work", handler).start();
    let result: (usize, u32) = engine.submit("work", &21).policy(at_once()).result().await.unwrap();
    assert_eq!((result, calls.count()), ((1, 42), 1));
    stop(worker).await;
}

#[tokio::test]
async fn a_handler_that_sleeps_holds_no_lease_and_goes_on_in_the_same_attempt() {
    let engine = engine().await;
    let handler = |ctx: Ctx| async move {
        ctx.sleep(Duration::from_millis(50)).await?;
        Ok::<_, Error>(ctx.attempt())
    };
    let worker = Worker::new(engine.clone()).handle("nap", handler).start();
    let attempt: u32 = engine.submit("nap", &()).result().await.unwrap();
    assert_eq!(attempt, 1);
    stop(worker).await;
}

#[tokio::test]
async fn a_handler_waits_for_a_signal_and_gets_what_it_brought() {
    let engine = engine().await;
    let handler = |ctx: Ctx| async move { ctx.wait_for::<u64>("paid").await };
    let worker = Worker::new(engine.clone()).handle("order", handler).start();
    let id = engine.submit("order", &()).await.unwrap().id();
    while engine.get(id).await.unwrap().status != Status::Suspended {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let payload = Payload { content_type: Payload::JSON.into(), bytes: b"42".to_vec() };
    engine
        .deliver_signal(DeliverSignal { payload, ..DeliverSignal::new(id, "paid") })
        .await
        .unwrap();
    let end = engine.wait(id).await.unwrap();
    assert_eq!(end.result.unwrap().bytes, b"42");
    stop(worker).await;
}

#[tokio::test]
async fn a_handler_waits_for_what_it_made() {
    let engine = engine().await;
    let square = |_: Ctx, n: u64| async move { Ok::<_, Error>(n * n) };
    let sum = |ctx: Ctx, n: u64| async move {
        let numbers: Vec<u64> = (1..=n).collect();
        let children = ctx.spawn_all::<u64, _>("square", &numbers).await?;
        let mut sum = 0;
        for square in ctx.join_all(children).await? {
            sum += square?;
        }
        Ok::<_, Error>(sum)
    };
    let worker = Worker::new(engine.clone()).handle("square", square).handle("sum", sum).start();
    let sum: u64 = engine.submit("sum", &10).result().await.unwrap();
    assert_eq!(sum, 385);
    stop(worker).await;
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_attempt_and_not_the_worker() {
    let engine = engine().await;
    let handler = |ctx: Ctx| async move {
        assert!(ctx.attempt() > 1, "the first attempt is no good");
        Ok::<_, Error>(ctx.attempt())
    };
    let worker = Worker::new(engine.clone()).handle("work", handler).start();
    let attempt: u32 = engine.submit("work", &()).policy(at_once()).result().await.unwrap();
    assert_eq!(attempt, 2);
    stop(worker).await;
}

#[tokio::test]
async fn shutting_down_gives_back_what_does_not_end_and_counts_no_failure() -> Result<()> {
    let engine = engine().await;
    let handler = |_: Ctx| std::future::pending::<Result<(), Error>>();
    let worker = Worker::new(engine.clone()).handle("work", handler).start();
    let id = engine.submit("work", &()).await?.id();
    while worker.running() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(worker.shutdown(Duration::ZERO).await.given_back, 1);
    let execution = engine.get(id).await?;
    assert_eq!((execution.status, execution.retries), (Status::Waiting, 0));
    Ok(())
}

struct Gate(Arc<Semaphore>);

#[tokio::test]
async fn children_that_were_waited_for_can_be_waited_for_again() {
    let engine = engine().await;
    let gate = Arc::new(Semaphore::new(1));
    let child = |ctx: Ctx, number: u32| async move {
        // Only the first one passes before the handler has seen it.
        let passed = Arc::clone(&ctx.data::<Gate>().0).acquire_owned().await;
        passed.expect("the gate stays").forget();
        Ok::<_, Error>(number)
    };
    let both = |ctx: Ctx| async move {
        let children = ctx.spawn_all::<u32, _>("child", &[7, 7]).await?;
        let (_, first) = ctx.join_any(children.clone()).await?;
        ctx.data::<Gate>().0.add_permits(1);
        let mut sum = first?;
        for number in ctx.join_all(children).await? {
            sum += number?;
        }
        Ok::<_, Error>(sum)
    };
    let worker = Worker::new(engine.clone())
        .handle("child", child)
        .handle("both", both)
        .data(Gate(gate))
        .start();
    let sum: u32 = engine.submit("both", &()).result().await.unwrap();
    assert_eq!(sum, 21);
    stop(worker).await;
}

#[tokio::test]
async fn a_wait_keeps_its_own_end_however_often_the_handler_runs() -> Result<()> {
    let handler = |ctx: Ctx| async move {
        let first = ctx.wait_for::<u32>("go").within(Duration::from_secs(60)).await?;
        let second = ctx.wait_for::<u32>("go").within(Duration::from_secs(3600)).await?;
        Ok::<_, Error>((first, second))
    };
    let kit = TestKit::new(|worker| worker.handle("work", handler)).await?;
    let id = kit.engine().submit("work", &()).await?.id();
    kit.advance(Duration::from_secs(30)).await?;
    let payload = Payload::json(&1).unwrap();
    kit.engine().deliver_signal(DeliverSignal { payload, ..DeliverSignal::new(id, "go") }).await?;
    kit.advance(Duration::from_secs(100)).await?;
    kit.engine().resume(id).await?;
    kit.advance(Duration::from_secs(600)).await?;
    assert_eq!(kit.engine().get(id).await?.status, Status::Suspended);
    kit.advance(Duration::from_secs(3600)).await?;
    assert_eq!(kit.result::<(Option<u32>, Option<u32>)>(id).await?, (Some(1), None));
    Ok(())
}
