//! How a suspension ends: its condition is met, an operator resumes it, its time is over, or the
//! execution ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::waitpoint::{close, open_waitpoints};
use super::{current, numbered};
use crate::cancel::{already_terminal, operator};
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::finish::finish;
use crate::flow::gate;
use crate::lease::load;
use crate::model::{
    Cause, Check, CloseReason, Code, DelayCause, End, EndReason, EndedBy, Error, Execution,
    ExecutionId, LeaseEnd, Limits, OnTimeout, Outcome, Payload, Ready, Result, Signal, SignalFacts,
    State, Status, SuspendReason, Suspended, Suspension, SuspensionEnd, TakenSignal, Timer,
    default_name, duration_ms,
};
use crate::store::Tx;

/// Lets a suspended execution go on, whatever it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// After how long it goes on.
    #[serde(rename = "delay_ms", with = "duration_ms")]
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub delay: Duration,
}

impl Resume {
    /// An operator's resume, at once.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            by: operator(),
            reason: None,
            delay: Duration::ZERO,
        }
    }
}

/// The execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The state it is in now.
    pub status: Status,
}

impl Command for Resume {
    const NAME: &'static str = "resume";
    type Output = Resumed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Resumed> {
        let mut check = Check::default();
        check.name("by", &self.by);
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.duration("delay_ms", self.delay, Duration::ZERO, Limits::DURATION_MAX);
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let State::Suspended(suspended) = execution.state.clone() else {
            return Err(match execution.status().is_terminal() {
                true => already_terminal(&execution),
                false => Error::new(
                    Code::WrongState,
                    format!("execution {} is {}, not suspended", execution.id, execution.status()),
                ),
            });
        };
        let suspension = current(tx, &execution, &suspended)?;
        let by = EndedBy::Operator { by: self.by.clone(), reason: self.reason.clone() };
        let why = Why { by, close: CloseReason::Resumed, cause: Cause::Resume, delay: self.delay };
        resume(tx, cx, &mut execution, suspension, why)?;
        Ok(Resumed { status: execution.status() })
    }
}

/// Why an execution goes on, and when.
pub(super) struct Why {
    pub(super) by: EndedBy,
    pub(super) close: CloseReason,
    pub(super) cause: Cause,
    pub(super) delay: Duration,
}

/// Lets a suspended execution go on.
pub(super) fn resume(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    suspension: Suspension,
    why: Why,
) -> Result<()> {
    if gate::stops(tx, cx, execution)? {
        return Ok(());
    }
    let number = suspension.number;
    let data = json!({ "suspension": number, "resumed": why.by });
    end_suspension(tx, cx, suspension, why.by)?;
    let state = match why.delay.is_zero() {
        true => State::Resumable,
        false => State::Delayed(Timer {
            until: cx.now + why.delay,
            cause: DelayCause::Resume,
            then: Ready::Resumable,
        }),
    };
    execution.enter(state, why.cause, cx.now);
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::Resumed, None, Some(data))?;
    for mut waitpoint in open_waitpoints(tx, execution)? {
        if waitpoint.state.suspension() == Some(number) {
            close(tx, cx, execution, &mut waitpoint, why.close.clone())?;
        }
    }
    Ok(())
}

fn end_suspension(
    tx: &mut dyn Tx,
    cx: &Context,
    mut suspension: Suspension,
    by: EndedBy,
) -> Result<()> {
    suspension.course.end = Some(SuspensionEnd { at: cx.now, by });
    tx.save_suspension(&suspension)
}

/// Closes everything that waited beside an execution that has ended, in a suspension if it was in
/// one.
pub(crate) fn ended(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    number: Option<u32>,
) -> Result<()> {
    if !execution.beside.mail {
        return Ok(());
    }
    let mut in_vain = CloseReason::Ended;
    if let Some(number) = number {
        let suspension = numbered(tx, execution, number)?;
        match &suspension.course.end {
            Some(_) => in_vain = CloseReason::TimedOut,
            None => end_suspension(tx, cx, suspension, EndedBy::Execution)?,
        }
    }
    for mut waitpoint in tx.open_waitpoints(execution.row)? {
        let why = match waitpoint.state.suspension() {
            of if of == number => in_vain.clone(),
            _ => CloseReason::Ended,
        };
        close(tx, cx, execution, &mut waitpoint, why)?;
    }
    Ok(())
}

/// Does what was to happen when a suspension's time is over.
pub(crate) fn time_out(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<()> {
    let State::Suspended(suspended) = execution.state.clone() else { return Ok(()) };
    let suspension = current(tx, execution, &suspended)?;
    let (condition, tally) = (&suspension.terms.condition, &suspension.course.tally);
    let on_timeout = match tally.is_met_in_time(condition) && !condition.is_met_by_time() {
        true => OnTimeout::Resume,
        false => suspended.on_timeout,
    };
    let outcome = match on_timeout {
        OnTimeout::Fail => Outcome::Failed,
        OnTimeout::Cancel => Outcome::Cancelled,
        OnTimeout::Expire => Outcome::Expired,
        OnTimeout::Resume => {
            tell(tx, cx, execution, &suspension)?;
            let why = Why {
                by: EndedBy::Timeout,
                close: CloseReason::TimedOut,
                cause: Cause::SuspensionTimeout,
                delay: Duration::ZERO,
            };
            return resume(tx, cx, execution, suspension, why);
        }
        OnTimeout::Escalate => return escalate(tx, cx, execution, &suspended, suspension),
    };
    let waited_for = tally.tell(condition);
    end_suspension(tx, cx, suspension, EndedBy::Timeout)?;
    let end = End {
        outcome,
        reason: EndReason::SuspensionTimeout,
        message: Some(shortened(format!("it waited in vain for {waited_for}"))),
        by: Some("clock".to_owned()),
    };
    finish(tx, cx, execution, LeaseEnd::DeadlinePassed, end, Cause::SuspensionTimeout)
}

/// A message no longer than messages may be.
fn shortened(mut text: String) -> String {
    if text.len() > Limits::TEXT {
        text.truncate(text.floor_char_boundary(Limits::TEXT - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// Adds the signal that tells a handler that its time was over.
fn tell(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    suspension: &Suspension,
) -> Result<()> {
    let signal = Signal {
        execution: execution.row,
        seq: tx.last_signal(execution.row)? + 1,
        id: cx.signal_id(),
        waitpoint: None,
        key: None,
        run: execution.run,
        facts: SignalFacts {
            at: cx.now,
            name: "timeout".to_owned(),
            source: "clock".to_owned(),
            waitpoint: None,
            correlation: None,
            token: None,
            approval: None,
            size: 0,
        },
        taken: Some(TakenSignal { suspension: suspension.number, counted: true }),
    };
    tx.add_signal(&signal, &Payload::default())
}

/// Passes a suspension on to an operator: it stays, and has no more time limit.
fn escalate(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    suspended: &Suspended,
    mut suspension: Suspension,
) -> Result<()> {
    if suspension.course.escalated_at.is_some() {
        return Ok(());
    }
    suspension.course.escalated_at = Some(cx.now);
    tx.save_suspension(&suspension)?;
    let reason = SuspendReason::WaitingForOperatorReview;
    execution.state = State::Suspended(Suspended { reason, until: None, ..suspended.clone() });
    tx.save(execution)?;
    let data = json!({
        "suspension": suspension.number,
        "waits_for": suspension.course.tally.tell(&suspension.terms.condition),
        "note": suspension.terms.note,
    });
    log(tx, cx, execution, EventKind::Escalated, None, Some(data))
}

/// Treats a suspension that no signal can satisfy any more, because a waitpoint has closed, as if
/// its time were over: nobody would ever end it.
pub(super) fn time_out_if_hopeless(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
) -> Result<()> {
    let State::Suspended(suspended) = &execution.state else { return Ok(()) };
    let Suspension { terms, course, number, .. } = current(tx, execution, suspended)?;
    let open: Vec<_> = open_waitpoints(tx, execution)?
        .into_iter()
        .filter(|one| one.state.suspension() == Some(number))
        .map(|one| one.key)
        .collect();
    let is_open = |key: &str| open.iter().any(|one| one == key);
    match course.tally.can_be_met(&terms.condition, &is_open) {
        true => Ok(()),
        false => time_out(tx, cx, execution),
    }
}
