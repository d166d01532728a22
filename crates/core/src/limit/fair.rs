//! Turns by key: start-time fair queueing.
//!
//! Each key of a lane has its own course of ranks, one stride apart, that begins where the lane is
//! now: whoever comes late stands next to the heads of all others, however much they have queued.
//! Ranks are given at submission, so that a claim costs what it always costs. Work of different
//! priorities never competes by rank, so that each priority has a course of its own.

use std::collections::BTreeMap;

use crate::model::{Execution, Lane, LaneId, Policy, Result, RowId, Tags, Turn};
use crate::store::{Read, Tx};

/// The rank of an execution that comes into a lane, or into another priority.
pub(crate) fn rank(
    tx: &mut dyn Tx,
    lane: &Lane,
    priority: i32,
    policy: &Policy,
    tags: &Tags,
    row: RowId,
) -> Result<i64> {
    let Some(begun) = lane.course else { return Ok(row.0) };
    let Some(terms) = &lane.fairness else { return Ok(after_all(row)) };
    let tagged = terms.by_tag.as_ref().and_then(|tag| tags.get(tag));
    let key = policy.fairness_key.as_ref().or(tagged).map_or("", String::as_str);
    let now = moment(tx, lane.id, priority, Turn::NOW)?.unwrap_or(begun).max(begun);
    let rank = moment(tx, lane.id, priority, key)?.map_or(now, |next| next.max(now));
    let next = rank + terms.stride(key);
    tx.put_turn(&Turn { lane: lane.id, priority, key: key.to_owned(), next })?;
    Ok(rank)
}

fn moment(read: &mut dyn Read, lane: LaneId, priority: i32, key: &str) -> Result<Option<i64>> {
    Ok(read.turn(lane, priority, key)?.map(|turn| turn.next))
}

/// A rank above all that were given before.
pub(crate) fn after_all(row: RowId) -> i64 {
    row.0.saturating_mul(Turn::STRIDE)
}

/// How often past turns are forgotten: each time a lane has come that far.
const SWEEP: i64 = 64 * Turn::STRIDE;

/// Takes note of how far a lane in which keys take turns has come, because these were taken in
/// their order.
pub(crate) fn advance<'a>(
    tx: &mut dyn Tx,
    lane: &Lane,
    taken: impl Iterator<Item = &'a Execution>,
) -> Result<()> {
    if lane.fairness.is_none() {
        return Ok(());
    }
    let mut highest = BTreeMap::<i32, i64>::new();
    for execution in taken {
        let rank = highest.entry(execution.priority).or_insert(execution.rank);
        *rank = execution.rank.max(*rank);
    }
    for (priority, next) in highest {
        let before = moment(tx, lane.id, priority, Turn::NOW)?;
        if before.is_some_and(|before| next <= before) {
            continue;
        }
        let key = Turn::NOW.to_owned();
        tx.put_turn(&Turn { lane: lane.id, priority, key, next })?;
        if before.is_none_or(|before| next / SWEEP > before / SWEEP) {
            tx.drop_turns(lane.id, priority, next, 1000)?;
        }
    }
    Ok(())
}
