//! Cancelling: at once where nobody works, with the worker's help where somebody does.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::finish::finish;
use crate::flow::gate;
use crate::lease::{Fenced, fence, lease_of, load};
use crate::model::{
    CancelRequest, Cause, Check, Code, End, EndReason, Error, Execution, ExecutionId, LeaseEnd,
    LeaseToken, Limits, Outcome, Result, State, Status, Timestamp, default_name, duration_ms,
};
use crate::store::Tx;

/// Stops an execution.
///
/// One that nobody works on is cancelled at once. An active one is asked to stop, which its worker
/// sees when it renews; it ends cancelled when the worker stops, when its lease ends, or when the
/// grace is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
    /// How long a worker may take to stop.
    #[serde(rename = "grace_ms", with = "duration_ms", default = "default_grace")]
    pub grace: Duration,
    /// Do not wait for the worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

pub(crate) fn operator() -> String {
    "operator".to_owned()
}

fn default_grace() -> Duration {
    Duration::from_secs(30)
}

impl Cancel {
    /// An operator's cancel with the usual grace.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            reason: None,
            by: operator(),
            grace: default_grace(),
            force: false,
        }
    }
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CancelOutcome {
    /// It is cancelled, by this or an earlier call.
    Cancelled,
    /// Its worker was asked to stop, by this or an earlier call.
    Cancelling {
        /// When it is cancelled in any case.
        force_at: Timestamp,
    },
}

impl Command for Cancel {
    const NAME: &'static str = "cancel";
    type Output = CancelOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<CancelOutcome> {
        check_request(&self.by, self.reason.as_deref(), self.grace)?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let request = CancelRequest {
            reason: self.reason.clone(),
            by: self.by.clone(),
            requested_at: cx.now,
            force_at: cx.now + self.grace,
        };
        match &mut execution.state {
            State::Ended(end) if end.outcome == Outcome::Cancelled => Ok(CancelOutcome::Cancelled),
            State::Ended(_) => Err(already_terminal(&execution)),
            State::Active(lease) if !self.force && self.grace > Duration::ZERO => {
                if let Some(earlier) = &lease.cancel {
                    return Ok(CancelOutcome::Cancelling { force_at: earlier.force_at });
                }
                let force_at = request.force_at;
                ask_to_stop(tx, cx, &mut execution, request)?;
                Ok(CancelOutcome::Cancelling { force_at })
            }
            State::Waiting
            | State::Resumable
            | State::Delayed(_)
            | State::Granted(_)
            | State::WaitingChildren(_)
            | State::Suspended(_)
            | State::Limited(_)
            | State::Active(_) => {
                end_cancelled(tx, cx, &mut execution, &request, false)?;
                Ok(CancelOutcome::Cancelled)
            }
        }
    }
}

/// Checks who asks for a cancel, why, and with how much patience.
pub(crate) fn check_request(by: &str, reason: Option<&str>, grace: Duration) -> Result<()> {
    let mut check = Check::default();
    check.name("by", by);
    if let Some(reason) = reason {
        check.text("reason", reason);
    }
    check.duration("grace_ms", grace, Duration::ZERO, Limits::DURATION_MAX);
    check.finish()
}

/// Asks the worker of an active execution to stop.
pub(crate) fn ask_to_stop(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    request: CancelRequest,
) -> Result<()> {
    let CancelRequest { reason, by, force_at, .. } = &request;
    let data = json!({ "reason": reason, "by": by, "force_at": force_at });
    let lease = lease_of(execution)?;
    let worker = lease.worker.clone();
    lease.cancel = Some(request);
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::CancelRequested, Some(&worker), Some(data))
}

/// The refusal of calls that need an execution that is not over.
pub(crate) fn already_terminal(execution: &Execution) -> Error {
    Error::new(
        Code::AlreadyTerminal,
        format!(
            "execution {} is {} already; replay it to run it again",
            execution.id,
            execution.status()
        ),
    )
    .with_details(json!({ "status": execution.status() }))
}

/// Ends an execution as its cancel request says.
pub(crate) fn end_cancelled(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    request: &CancelRequest,
    acknowledged: bool,
) -> Result<()> {
    let end = End {
        outcome: Outcome::Cancelled,
        reason: EndReason::Cancelled,
        message: request.reason.clone(),
        by: Some(request.by.clone()),
    };
    finish(tx, cx, execution, LeaseEnd::Cancelled { acknowledged }, end, Cause::Cancel)
}

/// Ends an active execution that was asked to stop, or whose flow is being closed, because its
/// worker stopped. Says whether it did.
pub(crate) fn acknowledge(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
) -> Result<bool> {
    let Some(request) = lease_of(execution)?.cancel.clone() else {
        return gate::stops(tx, cx, execution);
    };
    end_cancelled(tx, cx, execution, &request, true)?;
    Ok(true)
}

/// Whether a lease ended because its holder honoured a cancel.
pub(crate) fn acknowledged(end: &LeaseEnd) -> bool {
    matches!(end, LeaseEnd::Cancelled { acknowledged: true })
}

/// Stops work its worker holds: because it was asked to, or of its own accord.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeCancel {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// Why, when the worker stops of its own accord.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The execution is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelAcknowledged {
    /// The state it ended in.
    pub status: Status,
}

impl Command for AcknowledgeCancel {
    const NAME: &'static str = "acknowledge_cancel";
    type Output = CancelAcknowledged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<CancelAcknowledged> {
        let mut check = Check::default();
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.finish()?;
        let done = CancelAcknowledged { status: Status::Cancelled };
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) if acknowledged(&past.end) => return Ok(done),
            Fenced::Ended(past) => {
                return Err(Error::lease_lost(self.lease.execution, past.end.why_lost()));
            }
        };
        let lease = lease_of(&mut execution)?;
        let request = lease.cancel.clone().unwrap_or_else(|| CancelRequest {
            reason: self.reason.clone(),
            by: lease.worker.clone(),
            requested_at: cx.now,
            force_at: cx.now,
        });
        end_cancelled(tx, cx, &mut execution, &request, true)?;
        Ok(done)
    }
}
