//! Everything that happens because time passed: one clock instead of many scanners.

use serde::{Deserialize, Serialize};

use crate::cancel::end_cancelled;
use crate::chore::{self, ChoreKind};
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::fail::{Ending, after, fail_attempt};
use crate::finish::{finish, requeue};
use crate::misses::Misses;
use crate::model::{
    Cause, End, EndReason, Execution, LeaseEnd, Outcome, Ready, Result, State, Timer, Timestamp,
};
use crate::retry::{Failure, FailureClass};
use crate::store::Tx;
use crate::{limit, suspend, worker};

/// Makes sure that standing chores exist; an engine sends it when it opens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {}

impl Command for Prepare {
    const NAME: &'static str = "prepare";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        if tx.find_chore(&ChoreKind::Retention)?.is_none() {
            tx.add_chore(&ChoreKind::Retention, cx.now + cx.settings.sweep_every)?;
        }
        Ok(())
    }
}

/// Does a bounded slice of what is due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// About how many rows to change at most.
    #[serde(default = "default_slice")]
    pub slice: usize,
}

fn default_slice() -> usize {
    200
}

impl Default for Tick {
    fn default() -> Self {
        Self { slice: default_slice() }
    }
}

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticked {
    /// Executions, workers and chores that were due.
    pub done: usize,
    /// When the next one is due: at or before now if this slice did not reach the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Timestamp>,
    /// Whether something is due now.
    pub more: bool,
    /// Whether requests wait in the inbox. What strangers write there must not stop the clock, so
    /// that a command of its own applies them: [`crate::ApplyInbox`].
    #[serde(default)]
    pub requests: bool,
}

impl Command for Tick {
    const NAME: &'static str = "tick";
    type Output = Ticked;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Ticked> {
        let slice = self.slice.max(1);
        let due = tx.due(cx.now, slice)?;
        let mut done = due.len();
        let mut misses = Misses::default();
        for execution in due {
            misses.pass(settle_anew(tx, cx, execution))?;
        }
        misses.finish()?;
        done += worker::forget_lapsed(tx, cx, slice)?;
        let chores = tx.chores(cx.now, CHORES)?;
        done += chores.len();
        chore::work(tx, cx, chores, slice)?;
        let next_due = tx.next_due()?;
        let more = next_due.is_some_and(|due| due <= cx.now);
        let requests = !tx.requests(1)?.is_empty();
        Ok(Ticked { done, next_due, more, requests })
    }
}

/// How many chores a tick looks at. Most are small: ends in a flow that are still to be passed on.
const CHORES: usize = 200;

/// Does what is due to one of several, of which one's end may have changed another.
fn settle_anew(tx: &mut dyn Tx, cx: &Context, mut execution: Execution) -> Result<()> {
    if execution.member.is_some() || execution.beside.children {
        match tx.execution(execution.row)? {
            Some(current) => execution = current,
            None => return Ok(()),
        }
        if execution.status().is_terminal() || execution.due_at().is_none_or(|at| cx.now < at) {
            return Ok(());
        }
    }
    settle(tx, cx, &mut execution)
}

/// Does to an execution what is due by now.
pub(crate) fn settle(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    if execution.deadline_at.is_some_and(|deadline| deadline <= cx.now) {
        return expire(tx, cx, execution);
    }
    match &execution.state {
        State::Delayed(Timer { then, .. }) => {
            let to = (*then).into();
            execution.enter(to, Cause::Due, cx.now);
            tx.save(execution)?;
            log(tx, cx, execution, EventKind::BecameReady, None, None)
        }
        State::Granted(grant) => {
            let event = (EventKind::GrantEnded, None);
            let back = grant.back.into();
            requeue(tx, cx, execution, LeaseEnd::Expired, back, Cause::GrantLapsed, event)
        }
        State::Active(lease) => {
            let (lease_ends, cancel) = (lease.until, lease.cancel.clone());
            let times_out = execution.policy.attempt_timeout.map(|limit| execution.since + limit);
            let timed_out = times_out.is_some_and(|at| at <= cx.now && at < lease_ends);
            let pauses = lease.pause.as_ref().map(|pause| pause.force_at);
            let paused = pauses.is_some_and(|at| at <= cx.now && at < lease_ends);
            match cancel {
                Some(request) => end_cancelled(tx, cx, execution, &request, false),
                None if timed_out => time_out(tx, cx, execution),
                None if paused => limit::pause(tx, cx, execution),
                None => lose_lease(tx, cx, execution),
            }
        }
        State::Suspended(_) => suspend::time_out(tx, cx, execution),
        State::Waiting
        | State::Resumable
        | State::WaitingChildren(_)
        | State::Limited(_)
        | State::Ended(_) => Ok(()),
    }
}

fn expire(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let end = End {
        outcome: Outcome::Expired,
        reason: EndReason::Deadline,
        message: Some(format!("its deadline passed while it was {}", execution.status())),
        by: Some("clock".to_owned()),
    };
    finish(tx, cx, execution, LeaseEnd::DeadlinePassed, end, Cause::Deadline)
}

fn time_out(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let limit = execution.policy.attempt_timeout.unwrap_or_default();
    let failure = Failure {
        class: FailureClass::Timeout,
        category: None,
        message: format!("the attempt took longer than {} ms", limit.as_millis()),
        detail: None,
    };
    fail_attempt(tx, cx, execution, &failure, None, Ending::TimedOut).map(drop)
}

/// The worker did not renew in time: the work is taken up again, unless that happened too often.
fn lose_lease(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let max = execution.policy.max_reclaims();
    if execution.reclaims >= max {
        let end = End {
            outcome: Outcome::Failed,
            reason: EndReason::MaxReclaims,
            message: Some(format!("it lost its worker {} times in a row", max.saturating_add(1))),
            by: Some("clock".to_owned()),
        };
        return finish(tx, cx, execution, LeaseEnd::Expired, end, Cause::LeaseExpired);
    }
    execution.reclaims += 1;
    // A worker may die of bad luck once; from the second time on the work itself is suspect.
    let state = match execution.reclaims.checked_sub(2) {
        Some(retry) => after(cx.now + execution.policy.retry.wait(retry), cx.now),
        None => Ready::Waiting.into(),
    };
    let event = (EventKind::LeaseExpired, None);
    requeue(tx, cx, execution, LeaseEnd::Expired, state, Cause::LeaseExpired, event)
}
