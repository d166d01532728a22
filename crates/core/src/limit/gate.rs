//! Gates: where work passes its budgets and quotas, and where it waits.
//!
//! Work that may not pass leaves the ready queue and waits before the gate that did not let it
//! through. Whatever may open a gate (an owner gone, time, other terms) frees as much of what waits
//! there as may pass now, in the order of claims. What is freed has not passed: the next claim
//! decides, so that a place is never kept for work nobody fetches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::under;
use crate::chore::{ChoreKind, Slice};
use crate::command::Context;
use crate::event::{EventKind, NewEvent, log};
use crate::finish::leave;
use crate::misses::Misses;
use crate::model::{
    Amounts, BudgetCourse, BudgetTerms, BudgetUse, Cause, ConcurrencyKey, Error, Execution, Gate,
    GateRow, Lane, LaneId, LeaseEnd, Limit, LimitRow, LimitSort, LimitTerms, Limited, LimitedBy,
    Namespace, Passage, QuotaUse, RateTerms, Ready, Result, RouteId, State, TagChanges, Timestamp,
    Use,
};
use crate::store::{Read, Tx};

/// A limit that work has to pass, with its gate.
struct Bar {
    gate: Gate,
    by: LimitedBy,
    terms: Terms,
}

/// How a gate decides.
enum Terms {
    Budget { limit: Arc<Limit>, estimate: Amounts },
    Quota { limit: Arc<Limit> },
    Slots(u32),
}

/// Lets work that is about to be owned pass all its limits, or lets it wait before the first that
/// refuses; says whether it passed.
pub(crate) fn admit(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    lane: &Lane,
    execution: &mut Execution,
) -> Result<bool> {
    let uses = under(tx, namespace, lane, execution)?;
    if uses.is_empty() && execution.policy.concurrency_key.is_none() {
        return Ok(true);
    }
    let mut misses = Misses::default();
    let mut bars = Vec::new();
    for one in &uses.budgets {
        bars.extend(misses.pass(budget_bar(tx, cx, execution, one))?.flatten());
    }
    for one in &uses.quotas {
        bars.extend(misses.pass(quota_bar(tx, execution, one))?.flatten());
    }
    if let Some(ConcurrencyKey { key, limit }) = &execution.policy.concurrency_key {
        let gate = misses.pass(tx.gate(execution.namespace, LimitRow::KEYS, key))?;
        let (by, terms) = (LimitedBy::ConcurrencyKey(key.clone()), Terms::Slots(*limit));
        bars.extend(gate.map(|gate| Bar { gate, by, terms }));
    }
    let mut refusing = None;
    for (index, bar) in bars.iter().enumerate() {
        if misses.pass(bar.refuses(tx, cx.now))? == Some(true) {
            refusing.get_or_insert(index);
        }
    }
    misses.finish()?;
    match refusing {
        Some(index) => {
            let Bar { mut gate, by, .. } = bars.swap_remove(index);
            let then = crate::claim::readiness(execution).unwrap_or(Ready::Waiting);
            execution.enter(
                State::Limited(Limited { gate: gate.row, by: by.clone(), then }),
                Cause::Limit,
                cx.now,
            );
            tx.save(execution)?;
            log(tx, cx, execution, EventKind::Limited, None, Some(json!({ "by": by })))?;
            wait(tx, cx, &mut gate)?;
            // It may have been freed from one of the others, whose place the next may have; and
            // those it was the first to come to are forgotten if nobody passes them.
            for Bar { gate, .. } in &mut bars {
                if gate.course.waiting > 0 || gate.is_new() {
                    open(tx, cx, gate)?;
                }
            }
            Ok(false)
        }
        None => {
            for bar in bars {
                bar.pass(tx, cx, execution)?;
            }
            Ok(true)
        }
    }
}

/// Counts one more that waits before a gate.
pub(super) fn wait(tx: &mut dyn Tx, cx: &Context, gate: &mut Gate) -> Result<()> {
    gate.course.waiting += 1;
    gate.idle_at = None;
    look_later(tx, cx, gate, Freed::None)?;
    tx.save_gate(gate)
}

/// The limit of a budget and its gate as it is now; nothing if there is no such budget any more.
pub(super) fn budget_gate(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: &Arc<Limit>,
) -> Result<(Gate, bool)> {
    let mut gate = tx.gate(limit.namespace, limit.row, "")?;
    let terms = budget_terms(limit)?;
    let course = gate.course.budget.get_or_insert_with(|| BudgetCourse::begin(terms, cx.now));
    let renewed = course.roll(terms, cx.now);
    if renewed {
        tx.save_gate(&gate)?;
        let data = json!({ "budget": limit.name, "by": "clock" });
        let event = NewEvent::new(EventKind::BudgetReset, cx.now, limit.namespace);
        tx.add_event(&NewEvent { data: Some(data), ..event })?;
    }
    Ok((gate, renewed))
}

pub(super) fn budget_terms(limit: &Limit) -> Result<&BudgetTerms> {
    limit.budget().ok_or_else(|| Error::bug("a quota stands where a budget should"))
}

/// How much of a budget is used up, for a gate that has been through [`budget_gate`].
pub(super) fn budget_course(gate: &mut Gate) -> Result<&mut BudgetCourse> {
    gate.course.budget.as_mut().ok_or_else(|| Error::bug("the gate of a budget counts nothing"))
}

fn budget_bar(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    one: &BudgetUse,
) -> Result<Option<Bar>> {
    let Some(limit) = tx.limit(execution.namespace, LimitSort::Budget, &one.budget)? else {
        return Ok(None);
    };
    let (gate, _) = budget_gate(tx, cx, &limit)?;
    let by = LimitedBy::Budget(one.budget.clone());
    Ok(Some(Bar { gate, by, terms: Terms::Budget { limit, estimate: one.estimate.clone() } }))
}

fn quota_bar(tx: &mut dyn Tx, execution: &Execution, one: &QuotaUse) -> Result<Option<Bar>> {
    let Some(limit) = tx.limit(execution.namespace, LimitSort::Quota, &one.quota)? else {
        return Ok(None);
    };
    let by_tag = limit.quota().and_then(|terms| terms.by_tag.as_ref());
    let tagged = by_tag.and_then(|tag| execution.tags.get(tag));
    let key = one.key.as_ref().or(tagged).map_or("", String::as_str);
    let gate = tx.gate(execution.namespace, limit.row, key)?;
    let by = LimitedBy::Quota(one.quota.clone());
    Ok(Some(Bar { gate, by, terms: Terms::Quota { limit } }))
}

impl Bar {
    fn refuses(&self, read: &mut dyn Read, now: Timestamp) -> Result<bool> {
        let course = &self.gate.course;
        match &self.terms {
            Terms::Slots(slots) => Ok(course.active >= u64::from(*slots)),
            Terms::Budget { limit, estimate } => match &course.budget {
                Some(course) => Ok(!course.admits(budget_terms(limit)?, estimate)),
                None => Ok(false),
            },
            Terms::Quota { limit } => {
                let Some(terms) = limit.quota() else { return Ok(false) };
                if terms.concurrency.is_some_and(|most| course.active >= u64::from(most)) {
                    return Ok(true);
                }
                match &terms.rate {
                    Some(rate) => Ok(passable(read, &self.gate, rate, now, 1)? == 0),
                    None => Ok(false),
                }
            }
        }
    }

    /// Counts work that passes, and remembers what it has of the limit.
    fn pass(mut self, tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
        let gate = &mut self.gate;
        gate.course.active += 1;
        gate.idle_at = None;
        let held = match &self.terms {
            Terms::Slots(_) => None,
            Terms::Budget { limit, estimate } => {
                let terms = budget_terms(limit)?;
                Some((limit.row, budget_course(gate)?.reserve(terms, estimate)))
            }
            Terms::Quota { limit } => {
                if let Some(rate) = limit.quota().and_then(|terms| terms.rate) {
                    record_passage(tx, cx.now, gate, &rate)?;
                }
                Some((limit.row, Amounts::new()))
            }
        };
        if let Some((limit, reserved)) = held {
            let mut of = use_of(tx, execution, limit)?;
            of.gate = Some(gate.row);
            of.share.reserved = reserved;
            tx.put_use(&of)?;
            execution.beside.limits = true;
        }
        look_later(tx, cx, gate, Freed::None)?;
        tx.save_gate(gate)
    }
}

/// What an execution has of a limit.
pub(super) fn use_of(read: &mut dyn Read, execution: &Execution, limit: LimitRow) -> Result<Use> {
    let known = match execution.beside.limits {
        true => read.uses(execution.row)?.into_iter().find(|of| of.limit == limit),
        false => None,
    };
    Ok(known.unwrap_or_else(|| Use {
        execution: execution.row,
        limit,
        open: !execution.status().is_terminal(),
        gate: None,
        share: Default::default(),
    }))
}

/// How many of up to `most` may pass now, as far as the rate is concerned.
///
/// The one with number `n` may pass once the one with number `n - limit` has been through for a
/// whole window: then no window has more than `limit`.
fn passable(
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
fn passable_at(read: &mut dyn Read, gate: &Gate, rate: &RateTerms) -> Result<Option<Timestamp>> {
    let Some(number) = (gate.course.passed + 1).checked_sub(rate.limit).filter(|n| *n > 0) else {
        return Ok(None);
    };
    Ok(read.passage(gate.row, number)?.map(|before| before.at + rate.window))
}

fn record_passage(
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

/// Gives back what an execution had of its limits, because nobody owns it any more, and forgets
/// that it is under them when it is over.
pub(crate) fn left(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    owned: bool,
    over: bool,
) -> Result<()> {
    let mut misses = Misses::default();
    if let Some(ConcurrencyKey { key, .. }) = &execution.policy.concurrency_key
        && owned
        && let Some(mut gate) = misses.pass(tx.gate(execution.namespace, LimitRow::KEYS, key))?
    {
        gate.course.active = gate.course.active.saturating_sub(1);
        misses.pass(open(tx, cx, &mut gate))?;
    }
    if execution.beside.limits
        && (owned || over)
        && let Some(uses) = misses.pass(tx.uses(execution.row))?
    {
        for of in uses {
            misses.pass(give_back(tx, cx, of, over))?;
        }
    }
    misses.finish()
}

fn give_back(tx: &mut dyn Tx, cx: &Context, mut of: Use, over: bool) -> Result<()> {
    let reserved = std::mem::take(&mut of.share.reserved);
    let gate = match of.gate.take() {
        Some(row) => tx.gate_by_row(row)?,
        None => None,
    };
    of.open = !over;
    match (of.share.named && of.open) || !of.share.total.is_empty() {
        true => tx.put_use(&of)?,
        false => tx.drop_use(of.execution, of.limit)?,
    }
    let Some(mut gate) = gate else { return Ok(()) };
    gate.course.active = gate.course.active.saturating_sub(1);
    if let Some(course) = &mut gate.course.budget {
        course.unreserve(&reserved);
    }
    open(tx, cx, &mut gate)
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
enum Freed {
    None,
    Some,
    /// So many that there is room for more.
    Slice,
}

/// How soon a gate is looked after that is open although work waits: what was freed may have been
/// held or cancelled since, or find no worker.
const AGAIN: Duration = Duration::from_secs(1);

/// What a gate has room for.
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

    fn copy(&self) -> Self {
        match self {
            Self::Places(places) => Self::Places(*places),
            Self::Slots(active) => Self::Slots(*active),
            Self::Budget(limit, course) => Self::Budget(Arc::clone(limit), course.clone()),
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
            let place = rooms.entry(queue_of(&queue[0])).or_insert_with(|| (whole.copy(), 0));
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
fn look_later(tx: &mut dyn Tx, cx: &Context, gate: &mut Gate, freed: Freed) -> Result<()> {
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
        gate.course.budget = budget_gate(tx, cx, &limit)?.0.course.budget;
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
