//! What putting out frames and reading them costs, counted in steps of SQLite's virtual machine and
//! in pages.

mod common;

use std::time::Duration;

use common::streams::{add_streaming, chunk, stream, summary};
use common::{Queue, at, commit, in_memory};
use everloom_core::{
    Append, Appended, Beside, Call, Claim, Clock, Command, Execution, ExecutionId, Job, LeaseToken,
    NewExecution, NewFrame, Payload, Policy, Read, Seed, Settings, Source, Store, Submit,
    Timestamp, Tx, run_batch,
};
use everloom_sqlite::{Counters, SqliteStore};
use uuid::Uuid;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(10_000)
    }
}

/// Runs commands in one transaction.
fn apply_all<C: Command>(store: &mut SqliteStore, commands: Vec<C>) -> Vec<C::Output> {
    let calls = commands.into_iter().map(|command| Call::new(command, Seed::random()));
    let mut calls: Vec<_> = calls.collect();
    let mut jobs: Vec<_> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    run_batch(store, &mut jobs, &Settings::default(), &Stopped);
    calls.into_iter().map(|call| call.into_answer().unwrap()).collect()
}

fn apply<C: Command>(store: &mut SqliteStore, command: C) -> C::Output {
    apply_all(store, vec![command]).remove(0)
}

/// An execution that puts out frames.
struct Streaming {
    store: SqliteStore,
    lease: LeaseToken,
    last: Appended,
}

impl Streaming {
    fn new(policy: Policy) -> Self {
        let mut store = in_memory();
        let executions = vec![NewExecution::new("talk").policy(policy); 2];
        apply(&mut store, Submit { namespace: "default".into(), executions });
        let claim = Claim { max: 2, lease_ttl: Duration::from_secs(60), ..Claim::new("w") };
        let mut leases = apply(&mut store, claim).leases;
        // Another stream lies behind it.
        let other = leases.remove(1).lease;
        apply(&mut store, Append::new(other, vec![frame()]));
        let lease = leases.remove(0).lease;
        let last = apply(&mut store, Append::new(lease.clone(), vec![frame()]));
        Self { store, lease, last }
    }

    /// Appends frames one by one up to that number.
    fn grow(&mut self, last: u64) {
        while self.last.last < last {
            let one = Append::new(self.lease.clone(), vec![frame()]);
            let some = (last - self.last.last).min(500) as usize;
            self.last = apply_all(&mut self.store, vec![one; some])[some - 1];
        }
    }

    /// What ten appends cost, each of as many frames.
    fn cost(&mut self, frames: usize) -> Counters {
        let append = Append::new(self.lease.clone(), vec![frame(); frames]);
        let (cost, last) =
            cost_of(&mut self.store, |store| [(); 10].map(|()| apply(store, append.clone())));
        self.last = last[9];
        cost
    }
}

/// What some work does, and its cost.
fn cost_of<T>(store: &mut SqliteStore, work: impl FnOnce(&mut SqliteStore) -> T) -> (Counters, T) {
    let before = store.statement_counters();
    let value = work(store);
    let after = store.statement_counters();
    let cost = Counters {
        vm_steps: after.vm_steps - before.vm_steps,
        reprepares: after.reprepares - before.reprepares,
        pages: after.pages - before.pages,
    };
    (cost, value)
}

fn frame() -> NewFrame {
    NewFrame::new(Payload::json(&"everlasting").unwrap())
}

/// A tree of more pages has more levels: one or two more for the chunks and for their index.
const LEVELS: u64 = 4;

#[test]
fn an_append_costs_at_frame_fifty_thousand_what_it_did_at_frame_one_hundred() {
    let policy = Policy { stream_retention: Some(1_000_000), ..Policy::default() };
    let mut streaming = Streaming::new(policy);
    streaming.grow(100);
    let (one, fifty) = (streaming.cost(1), streaming.cost(50));
    streaming.grow(50_000);
    for (frames, early) in [(1, one), (50, fifty)] {
        let late = streaming.cost(frames);
        assert_eq!((late.vm_steps, late.reprepares), (early.vm_steps, 0), "{frames} frames");
        let more = late.pages.saturating_sub(early.pages);
        assert!(more <= 10 * LEVELS, "{late:?} instead of {early:?} for {frames} frames");
    }
    assert_eq!(streaming.last.kept, streaming.last.last);
}

/// How many appends of one frame it takes until frames beyond the default retention are dropped.
const ROUND: usize = 101;

#[test]
fn appends_that_drop_the_oldest_frames_cost_little_more_however_many_went_before() {
    let mut streaming = Streaming::new(Policy::default());
    let mut round = |grown: u64| {
        streaming.grow(grown);
        let append = Append::new(streaming.lease.clone(), vec![frame()]);
        let appends = |store: &mut SqliteStore| {
            let last = (0..ROUND).map(|_| apply(store, append.clone())).last();
            last.expect("some were appended")
        };
        let (cost, last) = cost_of(&mut streaming.store, appends);
        streaming.last = last;
        assert!(last.kept <= 10_100, "{last:?}");
        cost
    };
    let (first, early, late) = (round(100), round(10_100), round(50_000));
    println!("{late:?} for appends that trim, {first:?} for as many that do not");
    assert_eq!((late.vm_steps, late.reprepares), (early.vm_steps, 0));
    assert!(10 * late.vm_steps <= 13 * first.vm_steps, "{late:?} instead of {first:?}");
    let more = late.pages.saturating_sub(early.pages);
    assert!(more <= ROUND as u64 * LEVELS, "{late:?} instead of {early:?}");
}

/// A store with a stream of so many live chunks of one frame, as many durable ones, and the same
/// again, between two others.
fn with_frames(count: u64) -> (SqliteStore, Execution) {
    let mut store = in_memory();
    let execution = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let executions = [(); 3].map(|()| add_streaming(tx, queue));
        for (row, count) in
            [(executions[1].row, count), (executions[0].row, 2), (executions[2].row, 2)]
        {
            for first in 1..=4 * count {
                let live = (first - 1) / count % 2 == 0;
                tx.add_chunk(&chunk(row, first, live, 1)).unwrap();
            }
        }
        let [_, execution, _] = executions;
        tx.put_stream(&execution, &stream(execution.row, count)).unwrap();
        tx.put_summary(&summary(execution.row, b"{}")).unwrap();
        execution
    });
    (store, execution)
}

/// What is done to that stream; says how much it found or did.
type Work = fn(&mut dyn Tx, &Execution, u64) -> usize;

const WORK: &[(&str, Work)] = &[
    ("stream", |tx, of, _| tx.stream(of.row).unwrap().iter().count()),
    ("summary", |tx, of, _| tx.summary(of.row).unwrap().iter().count()),
    ("chunks", |tx, of, n| tx.chunks(of.row, 2 * n, 4 * n, true, 5, 999).unwrap().len()),
    ("the last chunk", |tx, of, n| {
        tx.chunks(of.row, 4 * n - 1, 4 * n, true, 5, 999).unwrap().len()
    }),
    ("chunks behind live ones", |tx, of, n| {
        tx.chunks(of.row, 2 * n, 4 * n, false, 5, 999).unwrap().len()
    }),
    ("last_chunks", |tx, of, n| tx.last_chunks(of.row, 0, 2 * n, true, 5, 999).unwrap().len()),
    ("last_chunks before live ones", |tx, of, n| {
        tx.last_chunks(of.row, 0, 3 * n, false, 5, 999).unwrap().len()
    }),
    ("oldest_chunks", |tx, of, _| tx.oldest_chunks(of.row, true, 2).unwrap().len()),
    ("oldest_chunks behind live ones", |tx, of, _| {
        tx.oldest_chunks(of.row, false, 2).unwrap().len()
    }),
    ("put_stream", |tx, of, n| done(tx.put_stream(of, &stream(of.row, 4 * n)))),
    ("add_chunk", |tx, of, n| done(tx.add_chunk(&chunk(of.row, 4 * n + 1, false, 1)))),
    ("add_chunk of a live one", |tx, of, n| done(tx.add_chunk(&chunk(of.row, 4 * n + 1, true, 1)))),
    ("drop_chunks", |tx, of, _| done(tx.drop_chunks(of.row, true, 2))),
    ("drop_chunks behind live ones", |tx, of, n| done(tx.drop_chunks(of.row, false, n + 2))),
    ("put_summary", |tx, of, _| done(tx.put_summary(&summary(of.row, b"[]")))),
];

fn done(result: everloom_core::Result<()>) -> usize {
    result.map(|()| 1).unwrap()
}

#[test]
fn reading_and_trimming_cost_the_same_whatever_a_stream_has_before_and_between() {
    let (mut few, mut many) = (with_frames(25), with_frames(2_500));
    for (name, work) in WORK {
        let cost = |(store, execution): &mut (SqliteStore, Execution), count: u64| {
            let (cost, found) = cost_of(store, |store| {
                // Dropped, so that the rows stay as they are.
                work(&mut *store.begin().unwrap(), execution, count)
            });
            assert!(found > 0, "{name} finds nothing");
            cost.vm_steps
        };
        assert_eq!(cost(&mut many, 2_500), cost(&mut few, 25), "{name}");
    }
    assert_eq!(many.0.statement_counters().reprepares, 0);
}

#[test]
fn bytes_that_are_not_returned_are_not_read() {
    const PAGES: u64 = 50;
    let mut store = in_memory();
    let row = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_streaming(tx, queue).row;
        for first in 1..=20 {
            let mut chunk = chunk(row, first, first % 2 == 0, 1);
            chunk.bytes = vec![1; PAGES as usize * 4096];
            chunk.facts.frames[0].size = PAGES as u32 * 4096;
            tx.add_chunk(&chunk).unwrap();
        }
        row
    });
    let mut pages_of = |ask: &dyn Fn(&mut dyn Read) -> usize, expected: usize| {
        let (cost, found) = cost_of(&mut store, |store| ask(&mut *store.read().unwrap()));
        assert_eq!(found, expected);
        cost.pages
    };
    for ask in [
        &|read: &mut dyn Read| read.chunks(row, 8, 20, true, 1, 999).unwrap().len(),
        &|read: &mut dyn Read| read.chunks(row, 7, 20, false, 999, 1).unwrap().len(),
        &|read: &mut dyn Read| read.last_chunks(row, 0, 9, true, 1, 999).unwrap().len(),
        &|read: &mut dyn Read| read.last_chunks(row, 0, 8, false, 999, 1).unwrap().len(),
    ] as [&dyn Fn(&mut dyn Read) -> usize; 4]
    {
        let pages = pages_of(ask, 1);
        assert!((PAGES..PAGES + 20).contains(&pages), "{pages} pages");
    }
    let oldest = |read: &mut dyn Read| read.oldest_chunks(row, false, 9).unwrap().len();
    let pages = pages_of(&oldest, 9);
    assert!(pages < 20, "{pages} pages");
}

#[test]
fn an_execution_without_a_stream_is_removed_without_a_look_at_those_of_others() {
    let (mut store, other) = with_frames(5);
    let mut remove = |beside: Beside| {
        let execution = commit(&mut store, |tx| {
            let row = tx.new_row().unwrap();
            let execution = Execution {
                row,
                id: ExecutionId(Uuid::from_u128(row.0 as u128)),
                beside,
                ..other.clone()
            };
            tx.insert(&execution, &Payload::default(), None).unwrap();
            execution
        });
        cost_of(&mut store, |store| commit(store, |tx| tx.remove(&execution).unwrap())).0.vm_steps
    };
    let ordinary = remove(Beside::default());
    let streaming = remove(Beside { stream: true, ..Default::default() });
    assert!(ordinary < streaming, "{ordinary} and {streaming} steps");
}
