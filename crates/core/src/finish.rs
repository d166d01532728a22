//! The two seams every other rule goes through: a lease ends, and an execution ends.
//!
//! A capability that must act when ownership or an execution ends attaches here, once, and not in
//! the rules that cause it.

use serde_json::{Value, json};

use crate::command::Context;
use crate::event::{EventKind, log};
use crate::flow::{Cascade, children, gate};
use crate::model::{Cause, End, Execution, Lane, LeaseEnd, Outcome, PastLease, Result, State};
use crate::store::Tx;
use crate::{limit, stream, suspend};

/// Takes an execution from its owner, if it has one, and puts it into `state`.
///
/// Remembers how the lease ended, for late calls of its holder, and gives back the lane's slot and
/// what budgets and quotas have let it have.
/// The caller saves the execution.
pub(crate) fn leave(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    end: LeaseEnd,
    state: State,
    cause: Cause,
) -> Result<()> {
    let owned = execution.state.worker().is_some();
    match &execution.state {
        State::Active(lease) => {
            tx.add_past_lease(&PastLease {
                execution: execution.row,
                epoch: execution.epoch,
                attempt: execution.attempt,
                run: execution.run,
                worker: lease.worker.clone(),
                secret: lease.secret,
                claimed_at: execution.since,
                ended_at: cx.now,
                end,
            })?;
            free_slot(tx, execution)?;
        }
        State::Granted(_) => free_slot(tx, execution)?,
        State::Waiting
        | State::Resumable
        | State::Delayed(_)
        | State::WaitingChildren(_)
        | State::Suspended(_)
        | State::Ended(_) => {}
        State::Limited(_) => limit::gone(tx, execution)?,
    }
    limit::left(tx, cx, execution, owned, matches!(state, State::Ended(_)))?;
    execution.enter(state, cause, cx.now);
    Ok(())
}

/// Takes slots of a lane that has a maximum.
pub(crate) fn take_slots(tx: &mut dyn Tx, lane: &Lane, slots: u32) -> Result<()> {
    match lane.max_active {
        Some(_) => tx.save_lane(&Lane { active: lane.active + slots, ..lane.clone() }),
        None => Ok(()),
    }
}

fn free_slot(tx: &mut dyn Tx, execution: &Execution) -> Result<()> {
    let lane = tx.lane_by_id(execution.lane)?;
    match lane.max_active {
        Some(_) => tx.save_lane(&Lane { active: lane.active.saturating_sub(1), ..(*lane).clone() }),
        None => Ok(()),
    }
}

/// Ends an execution, and lets everything follow that follows from it.
pub(crate) fn finish(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    lease_end: LeaseEnd,
    end: End,
    cause: Cause,
) -> Result<()> {
    match execution.member.clone() {
        None => end_run(tx, cx, execution, lease_end, end, cause),
        Some(member) => {
            let mut cascade = Cascade::of(tx, member.flow)?;
            cascade.end(tx, cx, execution, lease_end, end, cause)?;
            cascade.finish(tx, cx).map(drop)
        }
    }
}

/// Ends an execution: the one place where a run becomes terminal, with its one event.
///
/// A member of a flow is ended through its [`Cascade`].
pub(crate) fn end_run(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    lease_end: LeaseEnd,
    end: End,
    cause: Cause,
) -> Result<()> {
    let why = end.outcome.into();
    let suspension = execution.state.suspension();
    let worker = execution.state.worker().map(str::to_owned);
    let (kind, data) = (terminal_event(end.outcome), terminal_data(&end));
    leave(tx, cx, execution, lease_end, State::Ended(end), cause)?;
    execution.held = false;
    execution.gated = false;
    tx.save(execution)?;
    log(tx, cx, execution, kind, worker.as_deref(), data)?;
    suspend::ended(tx, cx, execution, suspension)?;
    stream::ended(tx, cx, execution, why)?;
    match execution.beside.children {
        true => children::parent_ended(tx, cx, execution.row),
        false => Ok(()),
    }
}

fn terminal_event(outcome: Outcome) -> EventKind {
    match outcome {
        Outcome::Completed => EventKind::Completed,
        Outcome::Failed => EventKind::Failed,
        Outcome::Cancelled => EventKind::Cancelled,
        Outcome::Expired => EventKind::Expired,
        Outcome::Skipped => EventKind::Skipped,
    }
}

// A completed execution needs no words: most events of a busy log are of this kind.
fn terminal_data(end: &End) -> Option<Value> {
    match end.outcome {
        Outcome::Completed => None,
        Outcome::Failed | Outcome::Cancelled | Outcome::Expired | Outcome::Skipped => Some(json!({
            "reason": end.reason,
            "message": end.message,
            "by": end.by,
        })),
    }
}

/// Takes an execution from its owner and queues it again, or lets it sleep.
pub(crate) fn requeue(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    lease_end: LeaseEnd,
    state: State,
    cause: Cause,
    (kind, data): (EventKind, Option<Value>),
) -> Result<()> {
    if gate::stops(tx, cx, execution)? {
        return Ok(());
    }
    // What waits for something else is kept from workers when that has come, if it still is then.
    execution.gated &= matches!(state, State::Waiting | State::Resumable | State::Delayed(_));
    let worker = execution.state.worker().map(str::to_owned);
    leave(tx, cx, execution, lease_end, state, cause)?;
    tx.save(execution)?;
    log(tx, cx, execution, kind, worker.as_deref(), data)
}
