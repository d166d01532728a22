//! Ending a flow before its members are through.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cascade::Cascade;
use super::chores::FlowWork;
use super::{already_terminal, flow_event, load};
use crate::cancel::{ask_to_stop, check_request, operator};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::misses::Misses;
use crate::model::{
    CancelRequest, CancelScope, Cause, Closing, ClosingCause, End, EndReason, Execution,
    ExecutionId, Extent, Flow, FlowId, FlowState, FlowStatus, LeaseEnd, Limits, Outcome, Result,
    State, Status, Timestamp, default_name, duration_ms,
};
use crate::store::{MemberCount, Read, Tx};

/// Stops a flow: no member that is stopped is ever claimed again. Asking twice answers what the
/// first one did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// Which members are stopped.
    #[serde(default)]
    pub scope: CancelScope,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
    /// How long workers may take to stop; none by default: they are fenced off at once.
    #[serde(rename = "grace_ms", with = "duration_ms")]
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub grace: Duration,
}

impl CancelFlow {
    /// An operator's cancel of everything, at once.
    pub fn new(flow: FlowId) -> Self {
        Self {
            namespace: default_name(),
            flow,
            scope: CancelScope::All,
            reason: None,
            by: operator(),
            grace: Duration::ZERO,
        }
    }
}

/// What became of a cancel, by this or an earlier call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCancelled {
    /// What the flow is now: cancelled, or cancelling while members run on.
    pub status: FlowStatus,
    /// Which members are stopped.
    pub scope: CancelScope,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether an earlier call had done it.
    pub repeated: bool,
    /// How many members it concerns.
    pub extent: Extent,
    /// The first 1000 of the members that are stopped, by name.
    pub members: Vec<ExecutionId>,
}

impl Command for CancelFlow {
    const NAME: &'static str = "cancel_flow";
    type Output = FlowCancelled;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowCancelled> {
        check_request(&self.by, self.reason.as_deref(), self.grace)?;
        let flow = load(tx, &self.namespace, self.flow)?;
        match &flow.state {
            FlowState::Open => {}
            FlowState::Closing(closing) => return answer(tx, &flow, closing, true),
            FlowState::Ended(end) => match &end.closing {
                Some(closing) if closing.cause == ClosingCause::Cancel => {
                    return answer(tx, &flow, closing, true);
                }
                _ => return Err(already_terminal(&flow)),
            },
        }
        let closing = Closing {
            cause: ClosingCause::Cancel,
            scope: self.scope,
            reason: self.reason.clone(),
            by: self.by.clone(),
            at: cx.now,
            grace: self.grace,
            extent: Extent::default(),
        };
        let closing = Closing { extent: extent(tx, &flow, &closing)?, ..closing };
        let answer = answer(tx, &flow, &closing, false)?;
        let mut cascade = Cascade::new(flow);
        begin(&mut cascade, tx, cx, closing)?;
        let status = cascade.finish(tx, cx)?;
        Ok(FlowCancelled { status, ..answer })
    }
}

fn answer(
    read: &mut dyn Read,
    flow: &Flow,
    closing: &Closing,
    repeated: bool,
) -> Result<FlowCancelled> {
    let is_stopped = |execution: &Execution| match execution.state.end() {
        Some(end) => end.reason == reason(closing.cause),
        None => stops(closing, execution),
    };
    let mut members = Vec::new();
    let mut after: Option<String> = None;
    while members.len() < Limits::PAGE {
        let page = read.members(flow.row, after.as_deref(), Limits::PAGE)?;
        members.extend(page.iter().filter(|one| is_stopped(one)).map(|one| one.id));
        if page.len() < Limits::PAGE {
            break;
        }
        after = page.last().and_then(|last| Some(last.member.as_ref()?.node.clone()));
    }
    members.truncate(Limits::PAGE);
    Ok(FlowCancelled {
        status: flow.status(),
        scope: closing.scope,
        reason: closing.reason.clone(),
        by: closing.by.clone(),
        at: closing.at,
        repeated,
        extent: closing.extent,
        members,
    })
}

/// How many members a closing concerns.
pub(super) fn extent(read: &mut dyn Read, flow: &Flow, closing: &Closing) -> Result<Extent> {
    let open = flow.counts.open();
    let running = match closing.scope {
        CancelScope::All if closing.grace.is_zero() => 0,
        scope => {
            let runs_on = |one: &&MemberCount| match scope {
                CancelScope::Pending => !one.status.is_terminal() && one.started,
                CancelScope::RunningFinish | CancelScope::All => one.status == Status::Active,
            };
            let counts = read.count_members(flow.row)?;
            counts.iter().filter(runs_on).map(|one| one.count).sum()
        }
    };
    Ok(Extent { stopped: open.saturating_sub(running), running, finished: flow.counts.ended() })
}

/// Begins to close a flow.
pub(super) fn begin(
    cascade: &mut Cascade,
    tx: &mut dyn Tx,
    cx: &Context,
    closing: Closing,
) -> Result<()> {
    let flow = &mut cascade.flow;
    flow.since = cx.now;
    let data = json!({
        "cause": closing.cause,
        "scope": closing.scope,
        "reason": closing.reason,
        "by": closing.by,
    });
    flow.state = FlowState::Closing(closing);
    tx.add_event(&flow_event(EventKind::FlowCancelling, cx.now, flow, Some(data)))?;
    cascade.push(FlowWork::Close { after: None });
    Ok(())
}

/// Whether a closing stops a member that is not over.
pub(super) fn stops(closing: &Closing, execution: &Execution) -> bool {
    let is_active = matches!(execution.state, State::Active(_));
    match closing.scope {
        CancelScope::All => !is_active || closing.grace.is_zero(),
        CancelScope::RunningFinish => !is_active,
        CancelScope::Pending => execution.started_at.is_none(),
    }
}

/// Stops some members; answers with where to go on.
pub(super) fn slice(
    cascade: &mut Cascade,
    tx: &mut dyn Tx,
    cx: &Context,
    after: Option<&str>,
) -> Result<Option<FlowWork>> {
    let Some(closing) = cascade.flow.closing().cloned() else { return Ok(None) };
    let (page, next) = cascade.members(tx, after)?;
    let mut misses = Misses::default();
    for mut member in page {
        if member.status().is_terminal() {
            continue;
        }
        let done = match stops(&closing, &member) {
            true => stop(cascade, tx, cx, &closing, &mut member),
            false if closing.scope == CancelScope::All => ask(tx, cx, &closing, &mut member),
            false => Ok(()),
        };
        misses.pass(done)?;
    }
    misses.finish()?;
    Ok(next.map(|after| FlowWork::Close { after: Some(after) }))
}

/// Stops a member.
pub(super) fn stop(
    cascade: &mut Cascade,
    tx: &mut dyn Tx,
    cx: &Context,
    closing: &Closing,
    member: &mut Execution,
) -> Result<()> {
    let (end, cause) = end_of(closing);
    let lease_end = match cause {
        Cause::Deadline => LeaseEnd::DeadlinePassed,
        _ => LeaseEnd::Cancelled { acknowledged: false },
    };
    cascade.end(tx, cx, member, lease_end, end, cause)
}

/// How a member that a closing stops ends.
pub(super) fn end_of(closing: &Closing) -> (End, Cause) {
    let (outcome, cause) = match closing.cause {
        ClosingCause::Deadline => (Outcome::Expired, Cause::Deadline),
        ClosingCause::Cancel | ClosingCause::MemberFailure => (Outcome::Cancelled, Cause::Cancel),
    };
    let (message, by) = (closing.reason.clone(), Some(closing.by.clone()));
    (End { outcome, reason: reason(closing.cause), message, by }, cause)
}

/// Asks a running member's worker to stop.
fn ask(tx: &mut dyn Tx, cx: &Context, closing: &Closing, member: &mut Execution) -> Result<()> {
    match &member.state {
        State::Active(lease) if lease.cancel.is_none() => {
            let request = CancelRequest {
                reason: closing.reason.clone(),
                by: closing.by.clone(),
                requested_at: cx.now,
                force_at: cx.now + closing.grace,
            };
            ask_to_stop(tx, cx, member, request)
        }
        _ => Ok(()),
    }
}

fn reason(cause: ClosingCause) -> EndReason {
    match cause {
        ClosingCause::Cancel => EndReason::FlowCancelled,
        ClosingCause::Deadline => EndReason::FlowDeadline,
        ClosingCause::MemberFailure => EndReason::MemberFailed,
    }
}
