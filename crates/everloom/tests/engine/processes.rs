//! Several processes on one file, some of which die.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Ledger, Scratch, another_process, count, postgres_url, text, until};
use crate::{flows, limits, outages, streams, suspension};
use everloom::{
    Claim, Cursor, Engine, EventFilter, EventKind, From, LeaseEnd, Limits, ListExecutions,
    NewExecution, Payload, ReadEvents, RegisterWorker, Status,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

/// Not a test of its own: what [`another_process`] runs. Without a role there is nothing to do.
#[test]
fn acts_as_another_process() {
    let Ok(role) = std::env::var("EVERLOOM_TEST_ROLE") else { return };
    let setting = |name: &str| std::env::var(name).expect("the parent sets it");
    std::thread::spawn(end_with_parent);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let file = setting("EVERLOOM_TEST_FILE");
    runtime.block_on(async {
        match role.as_str() {
            "mortal" => mortal(&file, &setting("EVERLOOM_TEST_LEDGER")).await,
            "submitter" => submitter(&file).await,
            "patient" => patient(&file, &setting("EVERLOOM_TEST_ROUNDS")).await,
            "busy" => busy(&file, &setting("EVERLOOM_TEST_NAME")).await,
            "hardy" => outages::hardy(&file, &setting("EVERLOOM_TEST_NAME")).await,
            "unraveller" => {
                let (ledger, lease) =
                    (setting("EVERLOOM_TEST_LEDGER"), setting("EVERLOOM_TEST_LEASE"));
                flows::unraveller(&file, &ledger, &lease, &setting("EVERLOOM_TEST_FLOW")).await;
            }
            "limited" => {
                let (ledger, name) =
                    (setting("EVERLOOM_TEST_LEDGER"), setting("EVERLOOM_TEST_NAME"));
                limits::limited(&file, &ledger, &name).await;
            }
            "waiter" => suspension::waiter(&file, &setting("EVERLOOM_TEST_LEDGER")).await,
            "sender" => suspension::sender(&file, &setting("EVERLOOM_TEST_LEDGER")).await,
            "teller" => streams::teller(&file, &setting("EVERLOOM_TEST_LEDGER")).await,
            other => panic!("unknown role {other}"),
        }
    });
}

/// A test that has failed leaves no process behind.
fn end_with_parent() {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        std::thread::sleep(Duration::from_millis(200));
    }
    std::process::exit(1);
}

/// Submissions each of the two processes makes.
const SHARE: usize = 2500;
const KILLS: usize = 22;

/// Submits and works until it is killed, or until nothing is left to submit and nothing to do.
async fn mortal(file: &str, ledger: &str) {
    let engine = Engine::open(file).await.unwrap();
    let submitted = Ledger::read(Path::new(ledger), "submitted").len();
    let mut own = Ledger::open(ledger);
    engine.register_worker(RegisterWorker::new("pool", "mortal")).await.unwrap();
    own.note("began", "life");
    let worker = tokio::spawn(work(engine.clone(), "mortal", Ledger::open(ledger), None));
    for number in submitted..SHARE {
        let key = format!("mortal-{number}");
        engine.submit(NewExecution::new("work").key(&key)).await.unwrap();
        own.note("submitted", &key);
    }
    worker.await.unwrap();
}

/// Claims a few at a time and completes them, concurrently, writing down what was acknowledged.
async fn work(engine: Engine, name: &str, mut ledger: Ledger, stop: Option<Arc<AtomicBool>>) {
    let claim = Claim {
        max: 8,
        wait: Duration::from_millis(200),
        lease_ttl: Duration::from_secs(60),
        ..Claim::new(name)
    };
    while !stop.as_ref().is_some_and(|stop| stop.load(Ordering::Acquire)) {
        let claimed = engine.claim(claim.clone()).await.unwrap();
        let mut running = JoinSet::new();
        for leased in claimed.leases {
            let engine = engine.clone();
            running.spawn(async move {
                // Long enough for a kill to meet work under way.
                tokio::time::sleep(Duration::from_millis(2)).await;
                let result = Payload::bytes(leased.id().to_string());
                engine.complete(&leased.lease, result).await.map(|_| leased.id())
            });
        }
        while let Some(done) = running.join_next().await {
            ledger.note("completed", &done.unwrap().unwrap().to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_complete_everything_once_while_one_is_killed_again_and_again() {
    let scratch = Scratch::new();
    complete_everything_through_kills(scratch.url(), &scratch).await;
    let file = rusqlite::Connection::open(&scratch.file).unwrap();
    let verdict: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_postgres() {
    complete_everything_through_kills(&postgres_url(), &Scratch::new()).await;
}

async fn complete_everything_through_kills(url: &str, scratch: &Scratch) {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let engine = Engine::open(url).await.unwrap();
    let ledgers = [scratch.beside("lasting.ledger"), scratch.beside("mortal.ledger")];
    engine.register_worker(RegisterWorker::new("pool", "lasting")).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let follower = tokio::spawn(follow_completions(engine.clone()));
    let ledger = Ledger::open(text(&ledgers[0]));
    let worker = tokio::spawn(work(engine.clone(), "lasting", ledger, Some(Arc::clone(&stop))));

    let live = || {
        another_process(
            "mortal",
            &[("EVERLOOM_TEST_FILE", url), ("EVERLOOM_TEST_LEDGER", text(&ledgers[1]))],
        )
    };
    let mut own = Ledger::open(text(&ledgers[0]));
    for round in 0..KILLS {
        let mut mortal = live();
        for number in round * SHARE / KILLS..(round + 1) * SHARE / KILLS {
            let key = format!("lasting-{number}");
            engine.submit(NewExecution::new("work").key(&key)).await.unwrap();
            own.note("submitted", &key);
        }
        until(async || Ledger::read(&ledgers[1], "began").len() > round).await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..200))).await;
        mortal.kill().unwrap();
        mortal.wait().unwrap();
    }
    let mut mortal = live();
    until(async || count(&engine, Status::Completed).await == 2 * SHARE as u64).await;
    mortal.kill().unwrap();
    mortal.wait().unwrap();
    stop.store(true, Ordering::Release);
    worker.await.unwrap();

    let followed = follower.await.unwrap();
    assert!(followed.is_sorted_by(|a, b| a < b), "the follower saw an event twice or too late");
    everything_acknowledged_is_there(&engine, &ledgers).await;
    each_ran_again_only_where_its_worker_was_killed(&engine).await;
    engine.close(Duration::from_secs(5)).await;
}

/// The cursors of all completions, seen live from both processes; the follower itself starts over
/// from its cursor now and then, as after a restart.
async fn follow_completions(engine: Engine) -> Vec<Cursor> {
    let mut seen = Vec::new();
    let mut from = From::Oldest;
    while seen.len() < 2 * SHARE {
        let filter = EventFilter { kinds: vec![EventKind::Completed], ..EventFilter::default() };
        let mut events = engine.subscribe(filter, from).await.unwrap();
        while seen.len() < 2 * SHARE {
            seen.push(events.next().await.unwrap().unwrap().cursor);
            if seen.len() % 700 == 0 {
                break;
            }
        }
        from = From::After(events.cursor());
    }
    seen
}

async fn everything_acknowledged_is_there(engine: &Engine, ledgers: &[std::path::PathBuf]) {
    let mut keys = BTreeSet::new();
    let mut completed = BTreeSet::new();
    let mut list = ListExecutions { limit: Limits::PAGE, ..ListExecutions::default() };
    loop {
        let page = engine.list(list.clone()).await.unwrap();
        for execution in &page.executions {
            assert_eq!(execution.status, Status::Completed, "{}", execution.id);
            assert!(keys.insert(execution.key.clone().unwrap()), "a key stands for two executions");
            completed.insert(execution.id.to_string());
        }
        list.after = page.next;
        if list.after.is_none() {
            break;
        }
    }
    assert_eq!(keys.len(), 2 * SHARE);
    for ledger in ledgers {
        for key in Ledger::read(ledger, "submitted") {
            assert!(keys.contains(&key), "the acknowledged submission {key} is gone");
        }
        for id in Ledger::read(ledger, "completed") {
            assert!(completed.contains(&id), "the acknowledged completion of {id} is gone");
        }
    }
}

async fn each_ran_again_only_where_its_worker_was_killed(engine: &Engine) {
    let mut completions = BTreeMap::new();
    let mut claims = BTreeMap::new();
    let mut read = ReadEvents {
        filter: EventFilter {
            kinds: vec![EventKind::Completed, EventKind::Claimed],
            ..EventFilter::default()
        },
        from: From::Oldest,
        limit: Limits::PAGE,
    };
    loop {
        let page = engine.events(read.clone()).await.unwrap();
        for event in page.events {
            let counted = match event.kind {
                EventKind::Completed => &mut completions,
                _ => &mut claims,
            };
            *counted.entry(event.execution.unwrap()).or_insert(0) += 1;
        }
        read.from = From::After(page.next);
        if page.at_end {
            break;
        }
    }
    assert_eq!(completions.len(), 2 * SHARE);
    assert!(completions.values().all(|times| *times == 1), "something completed twice");
    let again: Vec<_> = claims.iter().filter(|(_, times)| **times > 1).collect();
    assert!(!again.is_empty(), "no kill met work under way: the test tests nothing");
    for (id, _) in again {
        let attempts = engine.attempts(*id).await.unwrap().attempts;
        let (last, lost) = attempts.split_last().unwrap();
        assert_eq!(last.end, Some(LeaseEnd::Completed));
        for lost in lost {
            assert_eq!((lost.worker.as_str(), &lost.end), ("mortal", &Some(LeaseEnd::WorkerGone)));
        }
    }
}

/// Completes one execution after the other, each of which it has to be told of: nothing it could
/// notice by itself in time.
async fn patient(url: &str, rounds: &str) {
    let options = Engine::options().recheck(Duration::from_secs(3600));
    let engine = options.open(url).await.unwrap();
    for _ in 0..rounds.parse().unwrap() {
        let claim = Claim { wait: Limits::WAIT_MAX, ..Claim::new("patient") };
        let leased = engine.claim(claim).await.unwrap().leases.remove(0);
        engine.complete(&leased.lease, Payload::default()).await.unwrap();
    }
    engine.close(Duration::from_secs(5)).await;
}

/// Submits one execution and leaves.
async fn submitter(file: &str) {
    let engine = Engine::open(file).await.unwrap();
    engine.submit(NewExecution::new("work")).await.unwrap();
    engine.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_waiting_claim_hears_of_work_another_process_submits() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    // Shorter than the time after which a claim would look again by itself.
    let claim = Claim { wait: Duration::from_secs(4), ..Claim::new("worker") };
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.claim(claim).await }
    });
    let mut child = another_process("submitter", &[("EVERLOOM_TEST_FILE", scratch.url())]);
    let claimed = waiting.await.unwrap().unwrap();
    assert_eq!(claimed.leases.len(), 1);
    assert!(child.wait().unwrap().success());
}

const BUSY: usize = 300;

/// Submits one after the other.
async fn busy(file: &str, name: &str) {
    let engine = Engine::open(file).await.unwrap();
    for _ in 0..BUSY {
        engine.submit(NewExecution::new("work").tag("process", name)).await.unwrap();
        let claimed = engine.claim(Claim::new(name)).await.unwrap();
        engine.complete(&claimed.leases[0].lease, Payload::default()).await.unwrap();
    }
    engine.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn processes_that_create_and_use_one_file_at_the_same_moment_do_not_starve_each_other() {
    // A machine that is busy with something else may well keep one of them waiting, but not in
    // every race.
    let mut races = Vec::new();
    while races.len() < 5 {
        races.push(race().await);
        if races.last().is_some_and(|longest| *longest <= BUSY / 5) {
            return;
        }
    }
    panic!("in each race one process submitted so many in a row while the other waited: {races:?}");
}

/// Lets two processes use one file, and tells how many one of them submitted in a row while both
/// were at it.
async fn race() -> usize {
    let scratch = Scratch::new();
    let mut children: Vec<_> = ["one", "two"]
        .map(|name| {
            let settings = [("EVERLOOM_TEST_FILE", scratch.url()), ("EVERLOOM_TEST_NAME", name)];
            another_process("busy", &settings)
        })
        .into_iter()
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let engine = scratch.engine().await;
    assert_eq!(count(&engine, Status::Completed).await, 2 * BUSY as u64);

    let filter = EventFilter { kinds: vec![EventKind::Submitted], ..EventFilter::default() };
    let page = engine.events(ReadEvents { filter, from: From::Oldest, limit: 1000 }).await.unwrap();
    let who: Vec<_> = page.events.iter().map(|event| event.tags["process"].as_str()).collect();
    let bounds = |name| {
        let places = who.iter().enumerate().filter(move |(_, who)| **who == name);
        let places: Vec<_> = places.map(|(place, _)| place).collect();
        (places[0], places[places.len() - 1])
    };
    let (one, two) = (bounds("one"), bounds("two"));
    let (from, to) = (one.0.max(two.0), one.1.min(two.1));
    // One may have been through before the other began.
    let both = who.get(from..=to).unwrap_or_default();
    both.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
}
