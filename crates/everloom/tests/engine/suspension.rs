//! Suspension through the engine: who is woken, who wins a race, and processes that die meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use everloom::{
    Claim, Code, Condition, DeliverSignal, Distinct, Effect, Engine, EventFilter, EventKind,
    ExecutionId, Limits, ListExecutions, ListSignals, NewExecution, ObserveSignals, OnTimeout,
    Payload, ReadEvents, RegisterWorker, SignalTo, Status, Suspend, SuspendOutcome, WaitpointName,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::common::{Ledger, Scratch, another_process, count, postgres_url, text, until};

async fn claim_one(engine: &Engine) -> everloom::Leased {
    let claim = Claim { wait: Duration::from_secs(30), ..Claim::new("w") };
    engine.claim(claim).await.unwrap().leases.remove(0)
}

fn at(key: &str) -> SignalTo {
    SignalTo::Waitpoint(WaitpointName::Key(key.to_owned()))
}

#[tokio::test]
async fn a_waiting_claim_gets_an_execution_as_soon_as_a_signal_resumes_it() {
    let engine = Engine::open("memory").await.unwrap();
    let id = engine.submit_one(NewExecution::new("work")).await.unwrap().id();
    let lease = claim_one(&engine).await.lease;
    engine.suspend(Suspend::new(lease, Condition::at("go"))).await.unwrap();
    wakes(&engine, &engine, id).await;
}

#[tokio::test]
async fn a_signal_by_another_engine_wakes_a_waiting_claim() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let (here, there) = (Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap());
        let id = here.submit_one(NewExecution::new("work")).await.unwrap().id();
        let lease = claim_one(&here).await.lease;
        here.suspend(Suspend::new(lease, Condition::at("go"))).await.unwrap();
        wakes(&here, &there, id).await;
    }
}

async fn wakes(here: &Engine, there: &Engine, id: ExecutionId) {
    let waiting = tokio::spawn({
        let engine = here.clone();
        async move { claim_one(&engine).await }
    });
    let payload = Payload { content_type: "image/png".into(), bytes: (0..=255).collect() };
    let signal =
        DeliverSignal { to: at("go"), payload: payload.clone(), ..DeliverSignal::new(id, "on") };
    let delivered = there.deliver_signal(signal).await.unwrap();
    assert_eq!(delivered.effect, Effect::Resumed { status: Status::Resumable });
    let resumed = waiting.await.unwrap();
    assert_eq!((resumed.id(), resumed.attempt, resumed.resumed), (id, 1, true));
    let signals = resumed.resumption.unwrap().signals;
    assert_eq!(signals.len(), 1);
    assert_eq!((signals[0].id, signals[0].payload.clone()), (delivered.signal, Some(payload)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_and_a_signal_that_race_end_in_exactly_one_of_the_two() {
    let scratch = Scratch::new();
    for url in ["memory", scratch.url(), &postgres_url()] {
        race(&Engine::open(url).await.unwrap()).await;
    }
}

const RACERS: usize = 60;

async fn race(engine: &Engine) {
    engine.submit_batch(vec![NewExecution::new("work"); RACERS]).await.unwrap();
    let claim = Claim { max: RACERS, ..Claim::new("w") };
    let leases = engine.claim(claim).await.unwrap().leases;
    assert_eq!(leases.len(), RACERS);
    let mut racing = JoinSet::new();
    for (number, leased) in leases.into_iter().enumerate() {
        let engine = engine.clone();
        racing.spawn(async move {
            let id = leased.id();
            let suspend = Suspend {
                timeout: Some(Duration::from_millis(50)),
                on_timeout: Some(OnTimeout::Cancel),
                ..Suspend::new(leased.lease, Condition::at("go"))
            };
            engine.suspend(suspend).await.unwrap();
            // Around the moment of the timeout; whoever comes first wins.
            tokio::time::sleep(Duration::from_millis(30 + number as u64 % 40)).await;
            let signal = DeliverSignal {
                to: at("go"),
                key: Some("once".to_owned()),
                ..DeliverSignal::new(id, "on")
            };
            (id, engine.deliver_signal(signal).await)
        });
    }
    let mut expected = Vec::with_capacity(RACERS);
    while let Some(raced) = racing.join_next().await {
        let (id, delivered) = raced.unwrap();
        expected.push(match delivered {
            Ok(delivered) => {
                assert_eq!(delivered.effect, Effect::Resumed { status: Status::Resumable });
                (id, EventKind::Resumed)
            }
            // The waitpoint was gone or closed: its execution timed out.
            Err(error) => {
                assert!([Code::NotFound, Code::Closed].contains(&error.code()), "{error}");
                (id, EventKind::Cancelled)
            }
        });
    }
    // Events appear a moment after their commit.
    for (id, _) in &expected {
        until(async || !ends(engine, *id).await.is_empty()).await;
    }
    for (id, expected) in expected {
        assert_eq!(ends(engine, id).await, [expected]);
    }
}

/// How the wait of an execution ended, as the log tells it.
async fn ends(engine: &Engine, id: ExecutionId) -> Vec<EventKind> {
    let filter = EventFilter { execution: Some(id), ..EventFilter::default() };
    let read = ReadEvents { filter, limit: Limits::PAGE, ..ReadEvents::default() };
    let events = engine.events(read).await.unwrap().events.into_iter();
    let ends = |kind: &EventKind| matches!(kind, EventKind::Resumed | EventKind::Cancelled);
    events.map(|event| event.kind).filter(ends).collect()
}

/// Executions that wait for signals while processes die.
const WAITING: usize = 150;
const SIGNALS: u32 = 3;
const KILLS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_signal_counts_once_while_workers_and_senders_are_killed() {
    let scratch = Scratch::new();
    count_through_kills(scratch.url(), &scratch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_postgres() {
    count_through_kills(&postgres_url(), &Scratch::new()).await;
}

async fn count_through_kills(url: &str, scratch: &Scratch) {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let engine = Engine::open(url).await.unwrap();
    engine.submit_batch(vec![NewExecution::new("work"); WAITING]).await.unwrap();
    let ledger = scratch.beside("lives.ledger");
    let settings = [("EVERLOOM_TEST_FILE", url), ("EVERLOOM_TEST_LEDGER", text(&ledger))];
    for round in 0..KILLS {
        let mut children = ["waiter", "sender"].map(|role| another_process(role, &settings));
        until(async || Ledger::read(&ledger, "began").len() > 2 * round + 1).await;
        // The moment of the kill is what is tried out: any will do.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..120))).await;
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    let mut children = ["waiter", "sender"].map(|role| another_process(role, &settings));
    until(async || count(&engine, Status::Completed).await == WAITING as u64).await;
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for execution in
        engine.list(ListExecutions { limit: 1000, ..Default::default() }).await.unwrap().executions
    {
        let result = engine.result(execution.id).await.unwrap().result.unwrap();
        assert_eq!(result, Payload::bytes(SIGNALS.to_string()));
        let all = engine.list_signals(ListSignals::new(execution.id)).await.unwrap().signals;
        let numbers: BTreeSet<_> =
            all.iter().map(|one| one.payload.clone().unwrap().bytes).collect();
        assert_eq!((all.len(), numbers.len()), (SIGNALS as usize, SIGNALS as usize));
        let taken =
            engine.observe_signals(ObserveSignals::new(execution.id)).await.unwrap().signals;
        assert_eq!(taken.iter().filter(|one| one.counted).count(), SIGNALS as usize);
    }
}

/// Suspends what it claims until all signals have come, and completes it then.
pub(crate) async fn waiter(file: &str, ledger: &str) {
    let engine = Engine::open(file).await.unwrap();
    engine.register_worker(RegisterWorker::new("pool", "waiter")).await.unwrap();
    Ledger::open(ledger).note("began", "waiter");
    let wait = Duration::from_millis(200);
    let claim = Claim { max: 8, wait, ..Claim::new("waiter") };
    loop {
        let mut running = JoinSet::new();
        for leased in engine.claim(claim.clone()).await.unwrap().leases {
            let engine = engine.clone();
            running.spawn(async move {
                let suspend = Suspend {
                    key: Some("all".to_owned()),
                    ..Suspend::new(
                        leased.lease.clone(),
                        Condition::count(SIGNALS, Distinct::Signals, ["in"]),
                    )
                };
                let outcome = engine.suspend(suspend).await.unwrap();
                if let SuspendOutcome::AlreadySatisfied { resumption } = outcome {
                    let counted = resumption.signals.iter().filter(|one| one.counted).count();
                    let result = Payload::bytes(counted.to_string());
                    engine.complete(&leased.lease, result).await.unwrap();
                }
            });
        }
        while let Some(done) = running.join_next().await {
            done.unwrap();
        }
    }
}

/// Sends every signal again and again, under its key, to whatever waits.
pub(crate) async fn sender(file: &str, ledger: &str) {
    let engine = Engine::open(file).await.unwrap();
    Ledger::open(ledger).note("began", "sender");
    loop {
        let list =
            ListExecutions { statuses: vec![Status::Suspended], limit: 1000, ..Default::default() };
        for execution in engine.list(list).await.unwrap().executions {
            for number in 0..SIGNALS {
                let signal = DeliverSignal {
                    to: at("in"),
                    key: Some(number.to_string()),
                    payload: Payload::bytes(number.to_string()),
                    ..DeliverSignal::new(execution.id, "on")
                };
                match engine.deliver_signal(signal).await {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
