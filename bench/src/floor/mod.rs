//! The floor: hand-written code that writes the same rows, into the same schema and indexes, with
//! as many operations per commit. No rules, no commands. Nothing that keeps its promises on this
//! schema can be much faster.

pub(crate) mod postgres;
pub(crate) mod sqlite;
pub(crate) mod streams;

use uuid::Uuid;

const WAITING: i64 = 0;
const ACTIVE: i64 = 4;
const COMPLETED: i64 = 10;
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
const TTL_MS: i64 = 30_000;
const WORKER: &str = "worker-1";
const DETAIL: &str = r#"{"reason":"completed","by":"worker-1"}"#;

const SUBMITTED: i64 = 1;
const CLAIMED: i64 = 30;
const DONE: i64 = 5;

/// Time-ordered, as those of the engine.
fn uuid_of(row: i64, now: i64) -> Uuid {
    let mut tail = [0; 10];
    tail[..8]
        .copy_from_slice(&row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()).to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(now.unsigned_abs(), &tail).into_uuid()
}
