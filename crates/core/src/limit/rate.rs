//! How many may begin in a window, exactly.

use crate::model::{Gate, Passage, RateTerms, Result, Timestamp};
use crate::store::{Read, Tx};

/// How many of up to `most` may pass now, as far as the rate is concerned.
///
/// The one with number `n` may pass once the one with number `n - limit` has been through for a
/// whole window: then no window has more than `limit`.
pub(super) fn passable(
    read: &mut dyn Read,
    gate: &Gate,
    rate: &RateTerms,
    now: Timestamp,
    most: u64,
) -> Result<u64> {
    let passed = gate.course.passed;
    let mut free = rate.limit.saturating_sub(passed);
    while free < most {
        let Some(before) = read.passage(gate.row, passed + 1 + free - rate.limit)? else {
            // It is so long ago that it was forgotten.
            free += 1;
            continue;
        };
        if before.at + rate.window > now {
            break;
        }
        free += before.last - (passed + 1 + free - rate.limit) + 1;
    }
    Ok(free.min(most))
}

/// When the next one may pass, as far as the rate is concerned.
pub(super) fn passable_at(
    read: &mut dyn Read,
    gate: &Gate,
    rate: &RateTerms,
) -> Result<Option<Timestamp>> {
    let Some(number) = (gate.course.passed + 1).checked_sub(rate.limit).filter(|n| *n > 0) else {
        return Ok(None);
    };
    Ok(read.passage(gate.row, number)?.map(|before| before.at + rate.window))
}

pub(super) fn record_passage(
    tx: &mut dyn Tx,
    now: Timestamp,
    gate: &mut Gate,
    rate: &RateTerms,
) -> Result<()> {
    let course = &mut gate.course;
    course.passed += 1;
    if course.last_at != Some(now) {
        (course.last_first, course.last_at) = (course.passed, Some(now));
    }
    let passage = Passage { first: course.last_first, last: course.passed, at: now };
    tx.put_passage(gate.row, &passage)?;
    // The next one asks for the one that many before it; what is older is never asked for again.
    match gate.course.passed.checked_sub(rate.limit) {
        Some(old) if old > 0 => tx.drop_passages(gate.row, old),
        _ => Ok(()),
    }
}
