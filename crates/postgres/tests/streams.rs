//! What executions have put out: every question, asked of this store and of the in-memory one over
//! the same rows, within transactions and after them.

mod common;
#[path = "common/deeds.rs"]
mod deeds;

use std::fmt::Debug;

use common::{Admin, Schema};
use deeds::{Deed, Dice, Stopped, answers, at, deed, transact};
use everloom_core::*;

/// A chunk of so many frames, of every sort: with nothing, with bytes that are no text, with names.
fn chunk(execution: RowId, first: u64, live: bool, frames: u64) -> Chunk {
    let mut bytes = Vec::new();
    let mut facts = ChunkFacts { at: at(5), attempt: 2, frames: vec![] };
    for seq in first..first + frames {
        let content: &[u8] = match seq % 3 {
            0 => &[],
            1 => b"\0\xff\x80'\"\0",
            _ => &[7; 30],
        };
        facts.frames.push(FrameFacts {
            size: u32::try_from(content.len()).unwrap(),
            kind: if seq % 2 == 0 { FrameKind::Stdout } else { FrameKind::Event },
            name: (seq % 3 == 0).then(|| format!("n{seq}\u{0}")),
            content_type: (seq % 3 == 1).then(|| "text/x; q=\"ä\"".into()),
            correlation: (seq % 5 == 0).then(|| "\u{1F980}\n".into()),
            summary: (seq % 6 == 0).then_some(seq),
        });
        bytes.extend(content);
    }
    Chunk { execution, first, live, facts, bytes }
}

/// Any question about an execution.
fn question(row: RowId, last: u64, dice: &mut Dice) -> Deed {
    let mut frame = || u64::from(dice.roll(u32::try_from(last).unwrap_or(0) + 3));
    let (after, to, frames) = (frame(), frame() + 1, frame());
    let limit = [0, 1, 2, 5, 100, usize::MAX][dice.roll(6) as usize];
    let bytes = [0, 1, 30, 60, usize::MAX, usize::MAX][dice.roll(6) as usize];
    let live = dice.toss();
    match dice.roll(6) {
        0 => deed(move |tx| tx.stream(row)),
        1 => deed(move |tx| tx.summary(row)),
        2 => deed(move |tx| tx.chunks(row, after, after + to, live, limit, bytes)),
        3 => deed(move |tx| tx.last_chunks(row, after, after + to, live, limit, bytes)),
        _ => deed(move |tx| tx.oldest_chunks(row, live, frames)),
    }
}

/// Any change of an execution's stream, whose last frame is this.
fn change(row: RowId, last: &mut u64, dice: &mut Dice) -> Deed {
    let number = u64::from(dice.roll(99));
    match dice.roll(6) {
        0 => streaming(row, move |tx, execution| {
            let state = StreamState { last: number, summary: number / 2, ..Default::default() };
            tx.put_stream(execution, &Stream { execution: row, state })
        }),
        1 => streaming(row, move |tx, _| {
            let (first_at, updated_at) = (at(3), at(number as i64));
            let document = format!("{{\"a\":{number}}}").into_bytes();
            tx.put_summary(&Summary { execution: row, first_at, updated_at, document })
        }),
        2 => {
            let (live, through) = (dice.toss(), number.min(*last + 1));
            deed(move |tx| tx.drop_chunks(row, live, through))
        }
        _ => {
            let new = chunk(row, *last + 1, dice.toss(), 1 + number % 5);
            *last = new.last();
            streaming(row, move |tx, _| tx.add_chunk(&new))
        }
    }
}

/// Changes the stream of an execution that says it has one.
fn streaming(row: RowId, change: impl Fn(&mut dyn Tx, &Execution) -> Result<()> + 'static) -> Deed {
    deed(move |tx| {
        let mut execution = tx.execution(row)?.expect("it is there");
        execution.beside.stream = true;
        tx.save(&execution)?;
        change(tx, &execution)
    })
}

/// All that a snapshot says about some executions.
fn told(store: &mut dyn Store, rows: &[RowId]) -> Vec<String> {
    let mut read = store.read().unwrap();
    let mut told = Vec::new();
    let mut tell = |one: &dyn Debug| told.push(format!("{one:?}"));
    for row in rows.iter().copied() {
        tell(&read.stream(row).unwrap());
        tell(&read.summary(row).unwrap());
        for live in [false, true] {
            for (limit, bytes) in [(7, 1000), (1, 1000), (1000, 50), (usize::MAX, usize::MAX)] {
                for (after, to) in [(0, u64::MAX), (4, 30), (11, 12)] {
                    tell(&read.chunks(row, after, to, live, limit, bytes).unwrap());
                    tell(&read.last_chunks(row, after, to, live, limit, bytes).unwrap());
                }
            }
            for frames in [0, 1, 3, 10, u64::MAX] {
                tell(&read.oldest_chunks(row, live, frames).unwrap());
            }
        }
    }
    told
}

/// Submits some executions, which have the same rows in every store.
fn submit(store: &mut dyn Store, count: usize) -> Vec<Execution> {
    let executions: Vec<_> = (0..count).map(|_| NewExecution::new("work")).collect();
    let mut call =
        Call::new(Submit { namespace: "default".into(), executions }, Seed::from_number(7));
    run_batch(store, &mut [&mut call], &Settings::default(), &Stopped);
    let ids: Vec<_> = call.into_answer().unwrap().executions.iter().map(Submission::id).collect();
    let found = store.read().unwrap().find(NamespaceId(1), &ids).unwrap();
    found.into_iter().flatten().collect()
}

#[test]
fn whatever_executions_put_out_this_store_tells_what_the_one_in_memory_tells() {
    let schema = Schema::new("streams");
    let (mut memory, mut store) = (MemoryStore::new(), schema.open());
    let rows: Vec<RowId> = submit(&mut memory, 3).iter().map(|one| one.row).collect();
    assert_eq!(rows, submit(&mut store, 3).iter().map(|one| one.row).collect::<Vec<_>>());
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    let mut lasts = [0; 3];
    for round in 0..200 {
        let (mut deeds, mut expected) = (Vec::new(), Vec::new());
        let mut tx = memory.begin().unwrap();
        for _ in 0..=dice.roll(12) {
            let index = dice.roll(3) as usize;
            let (row, last) = (rows[index], &mut lasts[index]);
            let next = match dice.roll(20) {
                0..=8 => change(row, last, &mut dice),
                _ => question(row, *last, &mut dice),
            };
            expected.push(next(&mut *tx).unwrap());
            deeds.push(next);
        }
        let now = tx.last_now().unwrap();
        tx.commit(now).unwrap();
        let found = transact(&mut store, |tx| answers(tx, &deeds));
        assert_eq!(found, expected, "in transaction {round}; EVERLOOM_SEED={seed}");
        if round % 10 == 0 {
            for (found, expected) in told(&mut store, &rows).iter().zip(told(&mut memory, &rows)) {
                assert_eq!(*found, expected, "after transaction {round}; EVERLOOM_SEED={seed}");
            }
        }
    }
}

#[test]
fn an_execution_that_is_removed_leaves_nothing_of_its_stream_behind() {
    let schema = Schema::new("removed_streams");
    let mut store = schema.open();
    let rows: Vec<RowId> = submit(&mut store, 2).iter().map(|one| one.row).collect();
    for row in rows.iter().copied() {
        let fill = streaming(row, move |tx, execution| {
            tx.add_chunk(&chunk(row, 1, false, 2))?;
            tx.add_chunk(&chunk(row, 3, true, 2))?;
            tx.put_summary(&Summary {
                execution: row,
                first_at: at(1),
                updated_at: at(1),
                document: b"{}".to_vec(),
            })?;
            tx.put_stream(execution, &Stream { execution: row, state: StreamState::default() })
        });
        transact(&mut store, |tx| fill(tx));
    }
    transact(&mut store, |tx| {
        let execution = tx.execution(rows[0])?.expect("it is there");
        tx.remove(&execution)
    });
    let admin = Admin::new();
    let count =
        |table: &str| admin.number(&format!("SELECT count(*) FROM \"{}\".{table}", schema.name));
    for (table, left) in [("executions", 1), ("streams", 1), ("chunks", 4), ("summaries", 1)] {
        assert_eq!(count(table), left, "{table}");
    }
    // Its chunks may be very many, and go little by little.
    let mut trim = |gone: &[RowId], limit: usize| {
        (transact(&mut store, |tx| tx.trim_chunks(gone, limit)), count("chunks"))
    };
    let gone = [RowId(99), rows[0]];
    assert_eq!(trim(&gone[..1], 9), (0, 4));
    assert_eq!(trim(&gone, 0), (0, 4));
    assert_eq!(trim(&gone, 1), (1, 3));
    assert_eq!(trim(&gone, 3), (1, 2));
}
