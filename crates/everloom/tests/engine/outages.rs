//! The server restarts, connections are cut and processes die, all under load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{Ledger, Scratch, another_process, postgres_url, text};
use everloom::{
    Claim, Claimed, Code, Engine, Event, EventFilter, EventKind, ExecutionId, Failure, From,
    Leased, Limits, ListExecutions, NewExecution, Payload, RegisterWorker, Result, Status,
};
use everloom_conformance::Cluster;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

/// The processes; the first is the test's own, the last is killed now and then.
const PROCESSES: [&str; 3] = ["own", "lasting", "mortal"];
const BATCHES: usize = 200;
const BATCH: usize = 100;
const TOTAL: usize = BATCHES * BATCH;
const KILLS: usize = 8;
/// When the server restarts, by what is completed, and how.
const RESTARTS: [(usize, &str); 2] = [(TOTAL / 4, "fast"), (TOTAL / 2, "immediate")];

/// Repeats what was refused for the moment. Any other refusal is a failure of the test.
async fn insist<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
}

/// What a process does until it is told to stop or dies: submits its share of the batches and
/// works off what anyone has submitted.
pub(crate) async fn hardy(url: &str, name: &str) {
    let folder = PathBuf::from(std::env::var("EVERLOOM_TEST_FOLDER").unwrap());
    let engine = loop {
        match Engine::open(url).await {
            Ok(engine) => break engine,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    };
    toil(engine, name, &folder).await;
}

async fn toil(engine: Engine, name: &str, folder: &Path) {
    insist(|| engine.register_worker(RegisterWorker::new("pool", name))).await;
    let ledger = folder.join(name);
    let submitter = tokio::spawn(submit_share(engine.clone(), name.to_owned(), ledger.clone()));
    let mut ledger = Ledger::open(text(&ledger));
    // Work in the lane of its name is for this process alone.
    let claim = Claim {
        max: BATCH,
        lanes: vec![name.to_owned(), "default".to_owned()],
        wait: Duration::from_millis(200),
        lease_ttl: Duration::from_secs(60),
        ..Claim::new(name)
    };
    while !folder.join("stop").exists() {
        let claimed = insist(|| engine.claim(claim.clone())).await;
        for id in work_off(&engine, claimed).await {
            ledger.note("completed", &id.to_string());
        }
    }
    submitter.await.unwrap();
    engine.close(Duration::from_secs(5)).await;
}

async fn submit_share(engine: Engine, name: String, path: PathBuf) {
    let known: BTreeSet<_> = Ledger::read(&path, "submitted").into_iter().collect();
    let mut ledger = Ledger::open(text(&path));
    let place = PROCESSES.iter().position(|process| *process == name).unwrap();
    for batch in (place..BATCHES).step_by(PROCESSES.len()) {
        if !known.contains(&batch.to_string()) {
            insist(|| engine.submit_batch(executions(batch))).await;
            ledger.note("submitted", &batch.to_string());
        }
    }
}

/// Every fifth fails once.
fn executions(batch: usize) -> Vec<NewExecution> {
    let kind = |number| if number % 5 == 0 { "flaky" } else { "steady" };
    let one = |number| NewExecution::new(kind(number)).key(format!("{batch}-{number}"));
    (0..BATCH).map(one).collect()
}

/// Does what was claimed; returns what it knows to be completed.
async fn work_off(engine: &Engine, claimed: Claimed) -> Vec<ExecutionId> {
    let mut running = JoinSet::new();
    for leased in claimed.leases {
        let engine = engine.clone();
        running.spawn(async move { work(&engine, &leased).await.then(|| leased.id()) });
    }
    running.join_all().await.into_iter().flatten().collect()
}

/// Whether it is completed.
async fn work(engine: &Engine, leased: &Leased) -> bool {
    let fails = leased.kind == "flaky" && leased.retries == 0;
    loop {
        let done = match fails {
            true => {
                let soon = Some(Duration::from_millis(5));
                let failure = Failure::transient("as every fifth");
                engine.fail_with(&leased.lease, failure, soon).await.map(|_| ())
            }
            false => engine.complete(&leased.lease, Payload::default()).await.map(|_| ()),
        };
        match done {
            Ok(()) => return !fails,
            // On a slow machine someone else has it meanwhile.
            Err(error) if error.code() == Code::LeaseLost => return false,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
}

/// All completions as a follower sees them that begins again from its cursor after an error.
async fn follow(engine: Engine, expected: usize, progress: watch::Sender<usize>) -> Vec<Event> {
    let filter = EventFilter { kinds: vec![EventKind::Completed], ..EventFilter::default() };
    let mut seen = Vec::new();
    let mut from = From::Oldest;
    while seen.len() < expected {
        let mut events = insist(|| engine.subscribe(filter.clone(), from)).await;
        while seen.len() < expected {
            match events.next().await.unwrap() {
                Ok(event) => seen.push(event),
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    break;
                }
            }
            progress.send_replace(seen.len());
        }
        from = From::After(events.cursor());
    }
    seen
}

/// What is done to the system once so much is completed.
enum Blow {
    Kill,
    Restart(&'static str),
}

fn blows(random: &mut StdRng) -> BTreeMap<usize, Blow> {
    let kills = (0..KILLS).map(|_| (random.random_range(1..TOTAL * 9 / 10), Blow::Kill));
    let restarts = RESTARTS.map(|(moment, how)| (moment, Blow::Restart(how)));
    kills.chain(restarts).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_complete_everything_once_while_one_dies_and_the_server_restarts() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let scratch = Scratch::new();
    let folder = scratch.beside("ledgers");
    std::fs::create_dir(&folder).unwrap();
    let mut server = block_in_place(Cluster::start);
    let url = server.url().to_owned();
    let engine = Engine::open(&url).await.unwrap();

    let probes = PROCESSES.len() * RESTARTS.len();
    let (sender, mut progress) = watch::channel(0);
    let follower = tokio::spawn(follow(engine.clone(), TOTAL + probes, sender));
    let start = |name| {
        let settings = [
            ("EVERLOOM_TEST_FILE", url.as_str()),
            ("EVERLOOM_TEST_NAME", name),
            ("EVERLOOM_TEST_FOLDER", text(&folder)),
        ];
        another_process("hardy", &settings)
    };
    let (mut lasting, mut mortal) = (start(PROCESSES[1]), start(PROCESSES[2]));
    let own = tokio::spawn({
        let (engine, folder) = (engine.clone(), folder.clone());
        async move { toil(engine, PROCESSES[0], &folder).await }
    });
    for (moment, blow) in blows(&mut StdRng::seed_from_u64(seed)) {
        progress.wait_for(|completed| *completed >= moment).await.unwrap();
        match blow {
            Blow::Kill => {
                mortal.kill().unwrap();
                mortal.wait().unwrap();
                mortal = start(PROCESSES[2]);
            }
            Blow::Restart(how) => {
                block_in_place(|| server.ctl(&format!("restart -m {how}")));
                every_process_works(&engine, how).await;
            }
        }
    }
    let completed = follower.await.unwrap();
    check_executions(&engine, &folder).await;
    check_completions(&completed, TOTAL + probes);

    std::fs::write(folder.join("stop"), "").unwrap();
    own.await.unwrap();
    assert!(block_in_place(|| lasting.wait()).unwrap().success());
    assert!(block_in_place(|| mortal.wait()).unwrap().success());
}

async fn every_process_works(engine: &Engine, after: &str) {
    for name in PROCESSES {
        let key = format!("after {after}: {name}");
        let probe = || engine.submit_one(NewExecution::new("steady").lane(name).key(&key));
        let id = insist(probe).await.id();
        insist(|| engine.wait(id)).await;
    }
}

async fn check_executions(engine: &Engine, folder: &Path) {
    let mut keys = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let mut list = ListExecutions { limit: Limits::PAGE, ..ListExecutions::default() };
    loop {
        let page = engine.list(list.clone()).await.unwrap();
        for execution in page.executions {
            assert_eq!(execution.status, Status::Completed, "{}", execution.id);
            assert_eq!(execution.retries, u32::from(execution.kind == "flaky"));
            ids.insert(execution.id.to_string());
            assert!(keys.insert(execution.key.unwrap()), "a key stands for two executions");
        }
        list.after = page.next;
        if list.after.is_none() {
            break;
        }
    }
    assert_eq!(keys.len(), TOTAL + PROCESSES.len() * RESTARTS.len());
    for process in PROCESSES {
        for batch in Ledger::read(&folder.join(process), "submitted") {
            let is_there = |number| keys.contains(&format!("{batch}-{number}"));
            assert!((0..BATCH).all(is_there), "the acknowledged batch {batch} is gone");
        }
        for id in Ledger::read(&folder.join(process), "completed") {
            assert!(ids.contains(&id), "the acknowledged completion of {id} is gone");
        }
    }
}

fn check_completions(completed: &[Event], expected: usize) {
    let ids: BTreeSet<_> = completed.iter().map(|event| event.execution).collect();
    assert_eq!((completed.len(), ids.len()), (expected, expected), "something completed twice");
    assert!(completed.is_sorted_by_key(|event| event.cursor));
}

const CALLERS: usize = 16;
const ROUNDS: usize = 60;
/// Submissions from one cut of all connections to the next.
const BETWEEN_CUTS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cutting_every_connection_again_and_again_loses_and_repeats_nothing() {
    let name = format!("cut_{}", std::process::id());
    let url = format!("{}&application_name={name}", postgres_url());
    let engine = Engine::open(&url).await.unwrap();
    let (sender, progress) = watch::channel(0);
    let follower = tokio::spawn(follow(engine.clone(), CALLERS * ROUNDS, sender));
    let (sender, submitted) = watch::channel(0);
    let cutter = tokio::spawn(cut_connections(name, submitted));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(call_all_kinds(engine.clone(), sender.clone()));
    }
    callers.join_all().await;
    drop(sender);
    assert_eq!(cutter.await.unwrap(), CALLERS * ROUNDS / BETWEEN_CUTS);

    // A claim that was refused has claimed nothing: what is not completed still waits.
    let waiting = insist(|| engine.counts()).await;
    assert_eq!(waiting.of(Status::Active), 0);
    let all = waiting.of(Status::Waiting) + waiting.of(Status::Completed);
    assert_eq!(all, (CALLERS * ROUNDS) as u64);
    while *progress.borrow() < CALLERS * ROUNDS {
        work_off(&engine, insist(|| engine.claim(up_to(BATCH))).await).await;
    }
    check_completions(&follower.await.unwrap(), CALLERS * ROUNDS);
}

fn up_to(max: usize) -> Claim {
    Claim { max, ..Claim::new("caller") }
}

/// Through the writers and through the readers.
async fn call_all_kinds(engine: Engine, submitted: watch::Sender<usize>) {
    for _ in 0..ROUNDS {
        // Without a key: if a submission that was refused had happened, there would be two.
        let id = insist(|| engine.submit_one(NewExecution::new("steady"))).await.id();
        submitted.send_modify(|count| *count += 1);
        work_off(&engine, insist(|| engine.claim(up_to(2))).await).await;
        insist(|| engine.status(id)).await;
    }
}

/// Ends every connection of an application each time so much was submitted; says how often.
async fn cut_connections(application: String, mut submitted: watch::Receiver<usize>) -> usize {
    let admin = stranger().await;
    let mut cuts = 0;
    while submitted.wait_for(|count| *count >= (cuts + 1) * BETWEEN_CUTS).await.is_ok() {
        let sql =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        admin.query(sql, &[&application]).await.unwrap();
        cuts += 1;
    }
    cuts
}

/// Someone else on the same server.
async fn stranger() -> tokio_postgres::Client {
    let server = std::env::var("EVERLOOM_TEST_POSTGRES").unwrap();
    let (client, connection) =
        tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// An engine with two leases on rows that someone else has locked.
struct LockedOut {
    engine: Engine,
    leases: Vec<Leased>,
    holder: tokio_postgres::Client,
}

impl LockedOut {
    async fn new(busy_timeout: Duration) -> Self {
        let url = postgres_url();
        let (_, schema) = url.split_once("schema=").unwrap();
        let engine = Engine::options().busy_timeout(busy_timeout).open(&url).await.unwrap();
        engine.submit_batch(vec![NewExecution::new("steady"); 2]).await.unwrap();
        let leases = engine.claim(up_to(2)).await.unwrap().leases;
        let holder = stranger().await;
        let lock = format!("BEGIN; UPDATE {schema}.executions SET priority = priority");
        holder.batch_execute(&lock).await.unwrap();
        Self { engine, leases, holder }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_wait_for_a_lock_of_someone_else_who_need_it() {
    let LockedOut { engine, leases, holder } = LockedOut::new(Duration::from_secs(3600)).await;
    let completions: Vec<_> = leases
        .into_iter()
        .map(|leased| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.complete(&leased.lease, Payload::default()).await })
        })
        .collect();
    let mut others = JoinSet::new();
    for _ in 0..CALLERS {
        let engine = engine.clone();
        others.spawn(async move {
            for _ in 0..ROUNDS {
                engine.submit_one(NewExecution::new("steady")).await.unwrap();
                let claimed = engine.claim(up_to(1)).await.unwrap();
                work_off(&engine, claimed).await;
            }
        });
    }
    others.join_all().await;
    assert!(completions.iter().all(|one| !one.is_finished()), "they need what is locked");
    holder.batch_execute("ROLLBACK").await.unwrap();
    for completion in completions {
        completion.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_nobody_lets_go_of_is_told_after_the_busy_timeout() {
    let LockedOut { engine, leases, holder } = LockedOut::new(Duration::from_millis(50)).await;
    let complete = || engine.complete(&leases[0].lease, Payload::default());
    let error = complete().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.message().contains("end the transaction that holds them"), "{error}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    insist(complete).await;
}
