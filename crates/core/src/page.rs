//! Pages of what is listed, and how much fits into an answer.

use crate::model::{Check, Result};

/// Refuses a page that is empty or too large.
pub(crate) fn check_page(limit: usize) -> Result<()> {
    let mut check = Check::default();
    check.page("limit", limit);
    check.finish()
}

/// Cuts what was found, of which one more than `limit` was asked for, to a page; says where to
/// read on, if there is more.
pub(crate) fn cut<T, C>(found: &mut Vec<T>, limit: usize, place: impl Fn(&T) -> C) -> Option<C> {
    let more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| more).map(place)
}

/// How many payloads, from the first one on, fit into what is left of an answer.
pub(crate) fn fitting(sizes: impl Iterator<Item = u64>, room: &mut usize) -> usize {
    let mut fit = 0;
    for size in sizes {
        let left = usize::try_from(size).ok().and_then(|size| room.checked_sub(size));
        let Some(left) = left else { break };
        *room = left;
        fit += 1;
    }
    fit
}
