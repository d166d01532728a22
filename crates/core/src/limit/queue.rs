//! What waits before gates, and what lets it go.
//!
//! Work that may not pass leaves the ready queue and waits before the gate that did not let it
//! through. Whatever may open a gate (an owner gone, time, other terms) frees as much of what waits
//! there as may pass now, in the order of claims. What is freed has not passed: the next claim
//! decides, so that a place is never kept for work nobody fetches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::gate::{budget_gate, budget_terms};
use super::rate::{passable, passable_at};
use super::under;
use crate::chore::{ChoreKind, Slice};
use crate::command::Context;
use crate::event::{EventKind, log};
use crate::finish::leave;
use crate::misses::Misses;
use crate::model::{
    BudgetCourse, Cause, Execution, Gate, GateRow, LaneId, LeaseEnd, Limit, LimitRow, LimitSort,
    LimitTerms, Limited, LimitedBy, Result, RouteId, State, TagChanges, Timestamp,
};
use crate::store::{Read, Tx};

/// Counts one more that waits before a gate.
pub(super) fn wait(tx: &mut dyn Tx, cx: &Context, gate: &mut Gate) -> Result<()> {
    gate.course.waiting += 1;
    gate.idle_at = None;
    look_later(tx, cx, gate, Freed::None)?;
    tx.save_gate(gate)
}

/// Counts one less that waits before a gate, because it does something else now.
pub(crate) fn gone(tx: &mut dyn Tx, execution: &Execution) -> Result<()> {
    let State::Limited(limited) = &execution.state else { return Ok(()) };
    // What happened to another one in this transaction may have freed it already.
    let current = tx.execution(execution.row)?;
    if current.is_none_or(|current| current.state != execution.state) {
        return Ok(());
    }
    let Some(mut gate) = tx.gate_by_row(limited.gate)? else { return Ok(()) };
    gate.course.waiting = gate.course.waiting.saturating_sub(1);
    note_idle(tx, &mut gate)?;
    tx.save_gate(&gate)
}

/// Frees what may pass a gate that may have opened, and saves the gate.
pub(super) fn open(tx: &mut dyn Tx, cx: &Context, gate: &mut Gate) -> Result<()> {
    if gate.course.waiting > 0 {
        let freed = free_some(tx, cx, gate)?;
        look_later(tx, cx, gate, freed)?;
    }
    note_idle(tx, gate)?;
    tx.save_gate(gate)
}

/// How many of each lane and route one transaction frees at most.
const SLICE: u64 = 1000;

/// What became of those that wait before a gate that may have opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Freed {
    None,
    Some,
    /// So many that there is room for more.
    Slice,
}

/// How soon a gate is looked after that is open although work waits: what was freed may have been
/// held or cancelled since, or find no worker.
const AGAIN: Duration = Duration::from_secs(1);

/// What a gate has room for.
#[derive(Clone)]
enum Room {
    Places(u64),
    /// As many as each says itself, less those there are.
    Slots(u64),
    Budget(Arc<Limit>, Box<BudgetCourse>),
}

impl Room {
    fn of(read: &mut dyn Read, cx: &Context, gate: &Gate) -> Result<Self> {
        if gate.limit == LimitRow::KEYS {
            return Ok(Self::Slots(gate.course.active));
        }
        let limit = read.limit_by_row(gate.limit)?;
        match &limit.terms {
            LimitTerms::Budget(terms) => {
                let mut course = gate.course.budget.clone().unwrap_or_default();
                course.roll(terms, cx.now);
                Ok(Self::Budget(limit, Box::new(course)))
            }
            LimitTerms::Quota(terms) => {
                // One more than a slice tells that there is room for more than that.
                let mut places = gate.course.waiting.min(SLICE + 1);
                if let Some(most) = terms.concurrency {
                    places = places.min(u64::from(most).saturating_sub(gate.course.active));
                }
                if let Some(rate) = &terms.rate
                    && places > 0
                {
                    places = passable(read, gate, rate, cx.now, places)?;
                }
                Ok(Self::Places(places))
            }
        }
    }

    /// How many of a lane and route to look at.
    fn most(&self) -> u64 {
        match self {
            Self::Places(places) => SLICE.min(*places),
            Self::Budget(_, course) if course.breach.is_some() => 0,
            Self::Slots(_) | Self::Budget(..) => SLICE,
        }
    }

    /// How many of a lane and route to look at first. Where nobody knows how many have room, one
    /// that goes usually makes room for one.
    fn first(&self) -> u64 {
        match self {
            Self::Places(places) => *places,
            Self::Slots(_) | Self::Budget(..) => 8,
        }
    }

    /// Whether another one like the last may have room, for all that is known of it.
    fn is_left(&self) -> bool {
        match self {
            Self::Places(places) => *places > 0,
            Self::Slots(_) | Self::Budget(..) => true,
        }
    }

    fn fits(&mut self, read: &mut dyn Read, execution: &Execution) -> Result<Fit> {
        match self {
            Self::Places(places) => {
                let fits = *places > 0;
                *places = places.saturating_sub(1);
                Ok(Fit::now(fits))
            }
            Self::Slots(active) => {
                let key = execution.policy.concurrency_key.as_ref();
                let fits = key.is_none_or(|key| *active < u64::from(key.limit));
                *active += 1;
                Ok(Fit::now(fits))
            }
            Self::Budget(limit, course) => {
                let namespace = read.namespace_by_id(execution.namespace)?;
                let lane = read.lane_by_id(execution.lane)?;
                let uses = under(read, &namespace, &lane, execution)?;
                let Some(one) = uses.budgets.iter().find(|one| one.budget == limit.name) else {
                    return Ok(Fit::Now);
                };
                let terms = budget_terms(limit)?;
                if !terms.could_admit(&one.estimate) {
                    return Ok(Fit::Never);
                }
                let fits = course.admits(terms, &one.estimate);
                course.reserve(terms, &one.estimate);
                Ok(Fit::now(fits))
            }
        }
    }
}

/// Whether what waits has room.
enum Fit {
    Now,
    Later,
    /// Not unless the terms change: what waits behind it does not wait for that.
    Never,
}

impl Fit {
    fn now(fits: bool) -> Self {
        if fits { Self::Now } else { Self::Later }
    }
}

/// Frees what may pass. Each lane and route has all the room there is, because nobody knows which
/// of them has workers.
fn free_some(tx: &mut dyn Tx, cx: &Context, gate: &mut Gate) -> Result<Freed> {
    let whole = Room::of(tx, cx, gate)?;
    let most = whole.most();
    let mut rooms = BTreeMap::<(LaneId, RouteId), (Room, u64)>::new();
    let mut each = whole.first().min(most);
    while each > 0 {
        let waiting = tx.limited(gate.row, usize::try_from(each).unwrap_or(usize::MAX))?;
        let mut misses = Misses::default();
        let mut more = false;
        for queue in waiting.chunk_by(|one, other| queue_of(one) == queue_of(other)) {
            let place = rooms.entry(queue_of(&queue[0])).or_insert_with(|| (whole.clone(), 0));
            let (room, freed) = place;
            let mut full = false;
            for execution in queue {
                match misses.pass(room.fits(tx, execution))? {
                    Some(Fit::Now) => {
                        free(tx, cx, execution.clone(), gate)?;
                        *freed += 1;
                    }
                    Some(Fit::Later) => {
                        full = true;
                        break;
                    }
                    Some(Fit::Never) | None => {}
                }
            }
            more |= !full && queue.len() as u64 == each;
        }
        misses.finish()?;
        each = if more && each < most { most } else { 0 };
    }
    let told = rooms.values().map(|(room, freed)| match freed {
        0 => Freed::None,
        freed if *freed >= SLICE && room.is_left() => Freed::Slice,
        _ => Freed::Some,
    });
    Ok(told.max().unwrap_or(Freed::None))
}

fn queue_of(execution: &Execution) -> (LaneId, RouteId) {
    (execution.lane, execution.route)
}

fn free(tx: &mut dyn Tx, cx: &Context, mut execution: Execution, gate: &mut Gate) -> Result<()> {
    let State::Limited(limited) = &execution.state else { return Ok(()) };
    let to = limited.then.into();
    gate.course.waiting = gate.course.waiting.saturating_sub(1);
    execution.enter(to, Cause::Free, cx.now);
    tx.save(&execution)?;
    log(tx, cx, &execution, EventKind::BecameReady, None, None)
}

/// Lets work that waits be claimed again, because its gate may not be the right one any more.
pub(super) fn let_go(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let State::Limited(limited) = &execution.state else { return Ok(()) };
    let to = limited.then.into();
    leave(tx, cx, execution, LeaseEnd::WorkerGone, to, Cause::Free)?;
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::BecameReady, None, None)
}

/// Lets work that waits for the quota of a tag's value be claimed again, if that tag has changed.
pub(crate) fn retagged(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    changes: &TagChanges,
) -> Result<()> {
    let State::Limited(Limited { by: LimitedBy::Quota(name), .. }) = &execution.state else {
        return Ok(());
    };
    let limit = tx.limit(execution.namespace, LimitSort::Quota, name)?;
    let by_tag = limit.as_ref().and_then(|limit| limit.quota()?.by_tag.as_ref());
    match by_tag.is_some_and(|tag| changes.contains_key(tag)) {
        true => let_go(tx, cx, execution),
        false => Ok(()),
    }
}

/// When the clock should look after what waits: when time opens the gate, and soon after some
/// were freed.
fn next_look(
    read: &mut dyn Read,
    cx: &Context,
    gate: &Gate,
    freed: Freed,
) -> Result<Option<Timestamp>> {
    if gate.course.waiting == 0 {
        return Ok(None);
    }
    let by_time = opens_at(read, gate)?.filter(|at| *at > cx.now);
    let again = match freed {
        Freed::None => None,
        Freed::Some => Some(cx.now + AGAIN),
        Freed::Slice => Some(cx.now),
    };
    Ok(again.into_iter().chain(by_time).min())
}

/// Lets the clock look after what waits before a gate, when the time comes. The caller saves the
/// gate.
pub(super) fn look_later(
    tx: &mut dyn Tx,
    cx: &Context,
    gate: &mut Gate,
    freed: Freed,
) -> Result<()> {
    let Some(at) = next_look(tx, cx, gate, freed)? else { return Ok(()) };
    if gate.course.wake_at.is_none_or(|planned| at < planned) {
        gate.course.wake_at = Some(at);
        tx.add_chore(&ChoreKind::OpenGate { gate: gate.row }, at)?;
    }
    Ok(())
}

/// Looks after what waits before a gate, because it is time.
pub(crate) fn look(tx: &mut dyn Tx, cx: &Context, row: GateRow, due: Timestamp) -> Result<Slice> {
    let Some(mut gate) = tx.gate_by_row(row)? else { return Ok(Slice::Done) };
    if gate.course.wake_at != Some(due) {
        // Another one was planned for an earlier time.
        return Ok(Slice::Done);
    }
    gate.course.wake_at = None;
    if gate.course.budget.is_some() {
        let limit = tx.limit_by_row(gate.limit)?;
        gate.course.budget = budget_gate(tx, cx, &limit)?.course.budget;
    }
    let freed = match gate.course.waiting {
        0 => Freed::None,
        _ => free_some(tx, cx, &mut gate)?,
    };
    let next = next_look(tx, cx, &gate, freed)?;
    gate.course.wake_at = next;
    note_idle(tx, &mut gate)?;
    tx.save_gate(&gate)?;
    Ok(next.map_or(Slice::Done, |due_at| Slice::More { due_at }))
}

/// Frees up to `rows` of what waits before the gates of a limit that does not apply to it any more
/// as it did; the clock goes on.
pub(crate) fn reconsider(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: LimitRow,
    after: &mut Option<String>,
    rows: usize,
) -> Result<Slice> {
    let gates = tx.gates(limit, after.as_deref(), rows)?;
    let more = gates.len() == rows;
    let mut freed = 0;
    for mut gate in gates {
        if freed >= rows {
            return Ok(Slice::More { due_at: cx.now });
        }
        let waiting = tx.limited(gate.row, rows)?;
        freed += waiting.len();
        for execution in &waiting {
            free(tx, cx, execution.clone(), &mut gate)?;
        }
        note_idle(tx, &mut gate)?;
        tx.save_gate(&gate)?;
        if gate.course.waiting > 0 {
            return Ok(Slice::More { due_at: cx.now });
        }
        *after = Some(gate.key);
    }
    Ok(if more { Slice::More { due_at: cx.now } } else { Slice::Done })
}

/// Notes from when on a gate can be forgotten. A budget's never is.
fn note_idle(read: &mut dyn Read, gate: &mut Gate) -> Result<()> {
    let course = &gate.course;
    if course.active > 0 || course.waiting > 0 || course.budget.is_some() {
        gate.idle_at = None;
        return Ok(());
    }
    let window = match gate.limit {
        LimitRow::KEYS => None,
        limit => read.limit_by_row(limit)?.quota().and_then(|terms| terms.rate),
    };
    let window = window.map_or(Duration::ZERO, |rate| rate.window);
    gate.idle_at = Some(course.last_at.unwrap_or_default() + window);
    Ok(())
}

/// When a gate opens by itself, for those who ask why it does not let them pass.
pub(super) fn opens_at(read: &mut dyn Read, gate: &Gate) -> Result<Option<Timestamp>> {
    if gate.limit == LimitRow::KEYS {
        return Ok(None);
    }
    let limit = read.limit_by_row(gate.limit)?;
    match &limit.terms {
        LimitTerms::Budget(_) => {
            Ok(gate.course.budget.as_ref().and_then(|course| course.next_reset_at))
        }
        LimitTerms::Quota(terms) => match &terms.rate {
            Some(rate) => passable_at(read, gate, rate),
            None => Ok(None),
        },
    }
}
