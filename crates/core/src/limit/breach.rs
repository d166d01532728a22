//! What happens when more of a budget is asked for than is left.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::budget::note;
use super::gate::{budget_course, budget_gate, budget_terms};
use super::queue::wait;
use super::under;
use crate::cancel::ask_to_stop;
use crate::chore::{ChoreKind, Slice};
use crate::command::Context;
use crate::event::{EventKind, log};
use crate::finish::{finish, leave};
use crate::flow::gate::stops;
use crate::lease::lease_of;
use crate::misses::Misses;
use crate::model::{
    Breach, BudgetTerms, CancelRequest, Cause, End, EndReason, Execution, Gate, LeaseEnd, Limit,
    LimitPlace, LimitRow, LimitSort, Limited, LimitedBy, OnBreach, Outcome, PauseRequest, Ready,
    Result, RowId, State, Status, Timestamp,
};
use crate::store::{ListScan, Tx};

/// How far a breach has bitten.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "among", rename_all = "snake_case")]
pub enum BreachWork {
    /// Among what names the budget, or was owned under it.
    Uses {
        /// The last one that was looked at.
        after: Option<RowId>,
    },
    /// Among all work of the places it is attached to.
    Place {
        /// Which of them.
        index: usize,
        /// What is left of it lies below this row.
        below: Option<RowId>,
    },
}

/// Counts a breach, and begins to do what the budget says.
pub(super) fn record(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: &Limit,
    gate: &mut Gate,
    dimension: &str,
    asked: u64,
) -> Result<()> {
    let terms = budget_terms(limit)?;
    let course = budget_course(gate)?;
    let breach = Breach { at: cx.now, dimension: dimension.to_owned(), asked };
    let first = course.breach.is_none();
    course.breaches += 1;
    course.last_breach = Some(breach.clone());
    if terms.on_breach != OnBreach::Warn && first {
        course.breach = Some(breach);
        if terms.on_breach != OnBreach::Block {
            let work = BreachWork::Uses { after: None };
            tx.add_chore(&ChoreKind::Breach { limit: limit.row, at: cx.now, work }, cx.now)?;
        }
    }
    tx.save_gate(gate)?;
    // Whoever goes on asking is not told again and again.
    match first {
        true => {
            let data = json!({
                "budget": limit.name,
                "dimension": dimension,
                "asked": asked,
                "action": terms.on_breach,
            });
            note(tx, cx, EventKind::BudgetBreached, limit.namespace, data)
        }
        false => Ok(()),
    }
}

/// Lets a breach bite about `rows` more executions.
pub(crate) fn bite(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: LimitRow,
    at: Timestamp,
    work: &mut BreachWork,
    rows: usize,
) -> Result<Slice> {
    // A budget that was removed has no gate any more.
    if tx.gates(limit, None, 1)?.is_empty() {
        return Ok(Slice::Done);
    }
    let limit = tx.limit_by_row(limit)?;
    let mut gate = budget_gate(tx, cx, &limit)?;
    if budget_course(&mut gate)?.breach.as_ref().is_none_or(|breach| breach.at != at) {
        return Ok(Slice::Done);
    }
    let terms = budget_terms(&limit)?;
    let (found, next) = match work {
        BreachWork::Uses { after } => {
            let uses = tx.open_uses(limit.row, *after, rows)?;
            let mut found = Vec::with_capacity(uses.len());
            let mut misses = Misses::default();
            for of in &uses {
                found.extend(misses.pass(tx.execution(of.execution))?.flatten());
            }
            misses.finish()?;
            let next = match uses.last() {
                Some(last) if uses.len() == rows => {
                    Some(BreachWork::Uses { after: Some(last.execution) })
                }
                _ => Some(BreachWork::Place { index: 0, below: None }),
            };
            (found, next)
        }
        BreachWork::Place { index, below } => match limit.places.get(*index) {
            // What runs there has a use of the budget.
            Some(place) if terms.on_breach != OnBreach::Pause => {
                let slice = match scan(tx, &limit, place)? {
                    Some(scan) => tx.list(&scan, *below, rows, 10 * rows)?,
                    None => Default::default(),
                };
                let next = match slice.next {
                    Some(below) => BreachWork::Place { index: *index, below: Some(below) },
                    None => BreachWork::Place { index: *index + 1, below: None },
                };
                (slice.executions, Some(next))
            }
            _ => (vec![], None),
        },
    };
    let mut misses = Misses::default();
    for execution in found {
        misses.pass(hit(tx, cx, &limit, terms, execution.row))?;
    }
    misses.finish()?;
    match next {
        Some(next) => {
            *work = next;
            Ok(Slice::More { due_at: cx.now })
        }
        None => Ok(Slice::Done),
    }
}

fn scan(tx: &mut dyn Tx, limit: &Limit, place: &LimitPlace) -> Result<Option<ListScan>> {
    let open = Status::ALL.into_iter().filter(|status| !status.is_terminal());
    let mut scan =
        ListScan { namespace: limit.namespace, statuses: open.collect(), ..ListScan::default() };
    match place {
        LimitPlace::Namespace => {}
        LimitPlace::Lane(name) => {
            let Some(lane) = tx.lane(limit.namespace, name)? else { return Ok(None) };
            scan.lane = Some(lane.id);
        }
        LimitPlace::Kind(kind) => scan.routes = Some(tx.routes(limit.namespace)?.of_kind(kind)),
    }
    Ok(Some(scan))
}

/// Does to an execution under a budget what its breach demands.
fn hit(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: &Limit,
    terms: &BudgetTerms,
    execution: RowId,
) -> Result<()> {
    // The end of another one may have changed it.
    let Some(mut execution) = tx.execution(execution)? else { return Ok(()) };
    let running = matches!(execution.state, State::Active(_));
    let by = format!("budget:{}", limit.name);
    let reason = format!("budget `{}` is used up", limit.name);
    match terms.on_breach {
        _ if execution.status().is_terminal() => Ok(()),
        OnBreach::Pause if running => {
            let force_at = cx.now + terms.grace;
            let lease = lease_of(&mut execution)?;
            if lease.cancel.is_some() || lease.pause.is_some() {
                return Ok(());
            }
            let worker = lease.worker.clone();
            lease.pause = Some(PauseRequest { budget: limit.name.clone(), force_at });
            tx.save(&execution)?;
            let data = json!({ "budget": limit.name, "force_at": force_at });
            log(tx, cx, &execution, EventKind::PauseRequested, Some(&worker), Some(data))
        }
        OnBreach::CancelAll if running && !terms.grace.is_zero() => {
            if lease_of(&mut execution)?.cancel.is_some() {
                return Ok(());
            }
            let (requested_at, force_at) = (cx.now, cx.now + terms.grace);
            let request = CancelRequest { reason: Some(reason), by, requested_at, force_at };
            ask_to_stop(tx, cx, &mut execution, request)
        }
        OnBreach::CancelPending if execution.started_at.is_some() => Ok(()),
        OnBreach::CancelPending | OnBreach::CancelAll => {
            let end = End {
                outcome: Outcome::Cancelled,
                reason: EndReason::Budget,
                message: Some(reason),
                by: Some(by),
            };
            let lease_end = LeaseEnd::Cancelled { acknowledged: false };
            finish(tx, cx, &mut execution, lease_end, end, Cause::Cancel)
        }
        OnBreach::Block | OnBreach::Pause | OnBreach::Warn => Ok(()),
    }
}

/// The budget for which a worker was asked to stop, if the breach still bites its work.
fn still_bites(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    budget: &str,
) -> Result<Option<Arc<Limit>>> {
    let namespace = tx.namespace_by_id(execution.namespace)?;
    let lane = tx.lane_by_id(execution.lane)?;
    let uses = under(tx, &namespace, &lane, execution)?;
    if uses.budgets.iter().all(|one| one.budget != budget) {
        return Ok(None);
    }
    let Some(limit) = tx.limit(execution.namespace, LimitSort::Budget, budget)? else {
        return Ok(None);
    };
    let mut gate = budget_gate(tx, cx, &limit)?;
    let bites = budget_course(&mut gate)?.breach.is_some();
    Ok(bites.then_some(limit))
}

/// Lets work go on whose worker was asked to stop, if its budget has more by now. The caller saves
/// it.
pub(crate) fn unpause(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let Some(PauseRequest { budget, .. }) = lease_of(execution)?.pause.clone() else {
        return Ok(());
    };
    if still_bites(tx, cx, execution, &budget)?.is_none() {
        lease_of(execution)?.pause = None;
    }
    Ok(())
}

/// Takes work whose budget is used up from a worker that did not stop in time; lets it go on if
/// there is more of the budget by now.
pub(crate) fn pause(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let lease = lease_of(execution)?;
    let Some(PauseRequest { budget, .. }) = lease.pause.take() else { return Ok(()) };
    let worker = lease.worker.clone();
    let Some(limit) = still_bites(tx, cx, execution, &budget)? else {
        return tx.save(execution);
    };
    if stops(tx, cx, execution)? {
        return Ok(());
    }
    let gate = budget_gate(tx, cx, &limit)?;
    let by = LimitedBy::Budget(budget.clone());
    let state = State::Limited(Limited { gate: gate.row, by, then: Ready::Waiting });
    let data = json!({ "budget": budget });
    leave(tx, cx, execution, LeaseEnd::Paused { budget }, state, Cause::Pause)?;
    execution.gated = false;
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::Paused, Some(&worker), Some(data))?;
    // What it had put by came back to the gate.
    let mut gate = budget_gate(tx, cx, &limit)?;
    wait(tx, cx, &mut gate)
}
