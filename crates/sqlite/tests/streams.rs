//! What executions have put out: every question, asked of this store and of the in-memory one over
//! the same rows, and what is kept, trimmed and removed.

mod common;

use common::streams::{add_streaming, chunk, stream, summary};
use common::{Queue, at, both, commit, in_file, in_memory, row_counts, same};
use everloom_core::{
    Chunk, Execution, FrameFacts, KeptFrames, LaneId, MemoryStore, NamespaceId, Rate, Read,
    RouteId, RowId, Source, Store, Stream, StreamClosed, StreamEnd, StreamState, Summary,
    Transaction,
};
use everloom_sqlite::SqliteStore;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rusqlite::Connection;

const QUEUE: Queue = Queue { namespace: NamespaceId(1), lane: LaneId(1), route: RouteId(1) };

/// The execution that is looked at; those before and after it have streams as well.
const ROW: RowId = RowId(2);

/// Three executions with the same chunks, each of a sort and with a number of frames.
fn with_chunks(chunks: &[(bool, u64)]) -> (MemoryStore, SqliteStore) {
    both(|tx| {
        let queue = Queue::add(tx);
        let rows = [(); 3].map(|()| add_streaming(tx, queue).row);
        let mut first = 1;
        for (live, frames) in chunks {
            for row in rows {
                tx.add_chunk(&chunk(row, first, *live, *frames)).unwrap();
            }
            first += frames;
        }
    })
}

fn on_both(stores: &mut (MemoryStore, SqliteStore), change: impl Fn(&mut dyn Transaction)) {
    for store in [&mut stores.0 as &mut dyn Store, &mut stores.1] {
        let mut tx = store.begin().unwrap();
        change(&mut *tx);
        tx.commit(at(2000)).unwrap();
    }
}

fn last_of(chunks: &[(bool, u64)]) -> u64 {
    chunks.iter().map(|(_, frames)| frames).sum()
}

/// Every range of a stream, in both directions, with and without live frames, and with limits that
/// end it anywhere.
fn same_ranges(stores: &mut (MemoryStore, SqliteStore), last: u64) {
    let (memory, sqlite) = stores;
    let (mut memory, mut sqlite) = (memory.read().unwrap(), sqlite.read().unwrap());
    for after in 0..last {
        for to in after + 1..=last + 1 {
            for (limit, bytes) in
                [(1, 1000), (4, 1000), (1000, 1), (1000, 40), (0, 9), (9, 0), (1000, usize::MAX)]
            {
                for live in [true, false] {
                    let ask = |read: &mut dyn Read| {
                        let forward = read.chunks(ROW, after, to, live, limit, bytes).unwrap();
                        (forward, read.last_chunks(ROW, after, to, live, limit, bytes).unwrap())
                    };
                    let (found, expected) = (ask(&mut *sqlite), ask(&mut *memory));
                    assert_eq!(
                        found, expected,
                        "after {after} to {to}, live: {live}, limits {limit} and {bytes}"
                    );
                }
            }
        }
    }
}

fn same_oldest(stores: &mut (MemoryStore, SqliteStore), last: u64) {
    for frames in (0..=last + 1).chain([u64::MAX]) {
        for live in [true, false] {
            same(stores, |read| read.oldest_chunks(ROW, live, frames));
        }
    }
}

#[test]
fn frames_of_any_sort_come_out_as_they_went_in() {
    let mut store = in_memory();
    let many = (1..=1000).map(|size| FrameFacts { size, ..Default::default() }).collect();
    let bytes: Vec<u8> = (0..500_500_u32).map(|number| (number % 251) as u8).collect();
    let chunks = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_streaming(tx, queue).row;
        let mut large = chunk(row, 21, false, 1);
        (large.facts.frames, large.bytes) = (many, bytes);
        let mut empty = chunk(row, 1021, true, 1);
        (empty.facts.frames[0].size, empty.bytes) = (0, vec![]);
        let chunks = [chunk(row, 1, false, 19), chunk(row, 20, true, 1), large, empty];
        for chunk in &chunks {
            tx.add_chunk(chunk).unwrap();
        }
        chunks
    });
    let row = chunks[0].execution;
    let mut read = store.read().unwrap();
    assert_eq!(read.chunks(row, 0, u64::MAX, true, usize::MAX, usize::MAX).unwrap(), chunks);
    let mut newest_first =
        read.last_chunks(row, 0, u64::MAX, true, usize::MAX, usize::MAX).unwrap();
    newest_first.reverse();
    assert_eq!(newest_first, chunks);
    assert_eq!(read.chunks(row, 500, 600, false, 1, 1).unwrap(), [chunks[2].clone()]);
    assert_eq!(read.chunks(RowId(9), 0, 9, true, 9, 9).unwrap(), []);
    assert_eq!(read.last_chunks(RowId(9), 0, 9, true, 9, 9).unwrap(), []);
    assert_eq!(read.oldest_chunks(RowId(9), true, 9).unwrap(), []);
}

#[test]
fn ranges_of_random_streams_are_those_of_the_in_memory_store() {
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("EVERLOOM_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..8 {
        let often = random.random_range(0.0..=1.0);
        let chunks: Vec<_> = (0..random.random_range(1..8))
            .map(|_| (random.random_bool(often), random.random_range(1..5)))
            .collect();
        println!("{chunks:?}");
        let last = last_of(&chunks);
        let stores = &mut with_chunks(&chunks);
        same_ranges(stores, last);
        same_oldest(stores, last);
        for live in [true, false] {
            let through = random.random_range(0..=last);
            println!("without those up to {through}, live: {live}");
            on_both(stores, |tx| tx.drop_chunks(ROW, live, through).unwrap());
            same_ranges(stores, last);
            same_oldest(stores, last);
        }
    }
}

#[test]
fn only_whole_chunks_of_one_sort_of_one_stream_are_dropped() {
    let chunks = [(false, 3), (true, 2), (false, 1), (false, 4), (true, 3), (true, 1), (false, 2)];
    let last = last_of(&chunks);
    for through in 0..=last + 1 {
        for live in [true, false] {
            let stores = &mut with_chunks(&chunks);
            on_both(stores, |tx| tx.drop_chunks(ROW, live, through).unwrap());
            for row in 1..=3 {
                same(stores, |read| read.chunks(RowId(row), 0, last, true, 100, 10_000));
            }
            same_oldest(stores, last);
        }
    }
}

#[test]
fn what_is_put_again_replaces_what_was_there() {
    let closed = StreamClosed { at: at(9), why: StreamEnd::Finished, attempt: Some(3) };
    let full = StreamState {
        last: 1 << 40,
        durable: KeptFrames { frames: 7, gone: 1 << 39 },
        live: KeptFrames { frames: 1, gone: 3 },
        rate: Some(Rate {
            average: 0.1,
            at: at(4),
            frames: 2,
            within: std::time::Duration::from_millis(9),
        }),
        summary: 5,
        closed: Some(closed),
    };
    let large = vec![b'1'; 1 << 20];
    let stores = &mut both(|tx| {
        let queue = Queue::add(tx);
        for number in 1..=4 {
            let execution = add_streaming(tx, queue);
            let row = execution.row;
            if number > 1 {
                tx.put_stream(&execution, &stream(row, 8)).unwrap();
                tx.put_summary(&summary(row, &large)).unwrap();
            }
            if number > 2 {
                let state = full.clone();
                tx.put_stream(&execution, &Stream { execution: row, state }).unwrap();
                let again = Summary { updated_at: at(9), ..summary(row, b"{}") };
                tx.put_summary(&again).unwrap();
            }
        }
    });
    for row in 1..=5 {
        same(stores, |read| read.stream(RowId(row)));
        same(stores, |read| read.summary(RowId(row)));
    }
    let state = stores.1.read().unwrap().stream(RowId(3)).unwrap().unwrap().state;
    assert_eq!(state, full);
}

/// Chunks of both sorts, a summary and a state.
fn fill(tx: &mut dyn Transaction, execution: &Execution) {
    let row = execution.row;
    for (first, live) in [(1, false), (3, true), (5, false), (7, true)] {
        tx.add_chunk(&chunk(row, first, live, 2)).unwrap();
    }
    tx.put_summary(&summary(row, b"{}")).unwrap();
    tx.put_stream(execution, &stream(row, 8)).unwrap();
}

#[test]
fn an_execution_that_is_removed_leaves_nothing_behind_and_others_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    let other = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let execution = add_streaming(tx, queue);
        fill(tx, &execution);
        execution.row
    });
    let before = row_counts(&path);
    let execution = commit(&mut store, |tx| {
        let execution = add_streaming(tx, QUEUE);
        fill(tx, &execution);
        execution
    });
    let full = row_counts(&path);
    for table in ["streams", "chunks", "summaries"] {
        assert_eq!(full[table], 2 * before[table], "{table}");
    }
    commit(&mut store, |tx| tx.remove(&execution).unwrap());
    let left = row_counts(&path);
    assert_eq!((left["streams"], left["summaries"]), (before["streams"], before["summaries"]));
    // Its chunks may be very many, and go little by little.
    let mut trim = |gone: &[RowId], limit: usize| {
        let trimmed = commit(&mut store, |tx| tx.trim_chunks(gone, limit).unwrap());
        (trimmed, row_counts(&path)["chunks"] - before["chunks"])
    };
    let gone = [RowId(99), execution.row];
    assert_eq!(trim(&gone[..1], 9), (0, 4));
    assert_eq!(trim(&gone, 0), (0, 4));
    assert_eq!(trim(&gone, 3), (3, 1));
    assert_eq!(trim(&gone, 3), (1, 0));
    assert_eq!(row_counts(&path), before);
    let mut read = store.read().unwrap();
    assert_eq!(read.chunks(other, 0, 8, true, 9, 1000).unwrap().len(), 4);
    assert_eq!(read.stream(other).unwrap(), Some(stream(other, 8)));
    assert_eq!(read.summary(other).unwrap(), Some(summary(other, b"{}")));
}

#[test]
fn what_a_transaction_that_is_given_up_appended_is_gone() {
    let mut store = in_memory();
    let execution = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let execution = add_streaming(tx, queue);
        tx.add_chunk(&chunk(execution.row, 1, false, 2)).unwrap();
        execution
    });
    let mut tx = store.begin().unwrap();
    tx.drop_chunks(execution.row, false, 2).unwrap();
    tx.add_chunk(&chunk(execution.row, 3, false, 2)).unwrap();
    tx.put_stream(&execution, &stream(execution.row, 4)).unwrap();
    drop(tx);
    let mut read = store.read().unwrap();
    let kept: Vec<Chunk> = read.chunks(execution.row, 0, 9, true, 9, 1000).unwrap();
    assert_eq!(kept, [chunk(execution.row, 1, false, 2)]);
    assert_eq!(read.stream(execution.row).unwrap(), None);
}

#[test]
fn no_chunk_is_added_twice() {
    let mut store = in_memory();
    let row = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_streaming(tx, queue).row;
        tx.add_chunk(&chunk(row, 1, false, 2)).unwrap();
        row
    });
    assert!(store.begin().unwrap().add_chunk(&chunk(row, 1, false, 2)).is_err());
}

#[test]
fn the_database_itself_refuses_what_contradicts_itself_in_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let execution = add_streaming(tx, queue);
        fill(tx, &execution);
    });
    let conn = Connection::open(&path).unwrap();
    for change in [
        "streams SET state = NULL",
        "chunks SET live = 2",
        "chunks SET first = 0",
        "chunks SET first = last + 1",
        "chunks SET first = 1, last = 2",
        "chunks SET facts = NULL",
        "chunks SET bytes = NULL",
        "summaries SET document = NULL",
    ] {
        assert!(conn.execute(&format!("UPDATE {change}"), []).is_err(), "{change}");
    }
}
