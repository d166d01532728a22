//! Gates: where work passes its budgets and quotas, all of them or none.

use std::sync::Arc;

use serde_json::json;

use super::queue::{Freed, look_later, open, wait};
use super::rate::{passable, record_passage};
use super::under;
use crate::command::Context;
use crate::event::{EventKind, NewEvent, log};
use crate::misses::Misses;
use crate::model::{
    Amounts, BudgetCourse, BudgetTerms, BudgetUse, Cause, ConcurrencyKey, Error, Execution, Gate,
    Lane, Limit, LimitRow, LimitSort, Limited, LimitedBy, Namespace, QuotaUse, Ready, Result,
    State, Timestamp, Use,
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

/// The gate of a budget as it is now: in a new period if the last one is over.
pub(super) fn budget_gate(tx: &mut dyn Tx, cx: &Context, limit: &Limit) -> Result<Gate> {
    let mut gate = tx.gate(limit.namespace, limit.row, "")?;
    let terms = budget_terms(limit)?;
    let course = gate.course.budget.get_or_insert_with(|| BudgetCourse::begin(terms, cx.now));
    if course.roll(terms, cx.now) {
        tx.save_gate(&gate)?;
        let data = json!({ "budget": limit.name, "by": "clock" });
        let event = NewEvent::new(EventKind::BudgetReset, cx.now, limit.namespace);
        tx.add_event(&NewEvent { data: Some(data), ..event })?;
    }
    Ok(gate)
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
    let gate = budget_gate(tx, cx, &limit)?;
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
