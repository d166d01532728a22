//! Members of a flow that is held or being closed are not handed out.
//!
//! Eligibility is a fact of the member's own row, so that a claim never looks at what it can not
//! have. While the rows of a large flow are being rewritten, whoever meets one asks the flow.

use super::cascade::Cascade;
use super::chores::FlowWork;
use super::close;
use crate::command::Context;
use crate::event::{EventKind, log};
use crate::finish::leave;
use crate::model::{CancelScope, Cause, Execution, Flow, LeaseEnd, Result, State};
use crate::store::Tx;

/// The flow of a member, if that is held or being closed.
fn gated(tx: &mut dyn Tx, execution: &Execution) -> Result<Option<Flow>> {
    match &execution.member {
        Some(member) if tx.is_gated(member.flow)? => tx.flow_by_row(member.flow).map(Some),
        _ => Ok(None),
    }
}

/// Whether a member's flow is being closed in a way that stops it where it is.
pub(crate) fn is_stopped(tx: &mut dyn Tx, execution: &Execution) -> Result<bool> {
    let flow = gated(tx, execution)?;
    let closing = flow.as_ref().and_then(Flow::closing);
    Ok(closing.is_some_and(|closing| close::stops(closing, execution)))
}

/// The same for a member that is about to end, for which its flow is loaded in any case.
pub(crate) fn is_stopped_at_end(tx: &mut dyn Tx, execution: &Execution) -> Result<bool> {
    let Some(member) = &execution.member else { return Ok(false) };
    let flow = tx.flow_by_row(member.flow)?;
    Ok(flow.closing().is_some_and(|closing| close::stops(closing, execution)))
}

/// Whether a member's flow is held.
pub(crate) fn is_held(tx: &mut dyn Tx, execution: &Execution) -> Result<bool> {
    Ok(gated(tx, execution)?.is_some_and(|flow| flow.held))
}

/// Stops a member that loses its owner while its flow is being closed, and says whether it did.
/// One whose flow is held is kept from workers; the caller saves it.
pub(crate) fn stops(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<bool> {
    let Some(flow) = gated(tx, execution)? else { return Ok(false) };
    execution.gated = flow.held;
    match flow.closing().cloned() {
        Some(closing) if closing.scope != CancelScope::Pending => {
            let (end, cause) = close::end_of(&closing);
            let lease_end = LeaseEnd::Cancelled { acknowledged: true };
            let mut cascade = Cascade::new(flow);
            cascade.end(tx, cx, execution, lease_end, end, cause)?;
            cascade.finish(tx, cx)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Does to a member that was about to be claimed what its flow has in store for it; says whether
/// it must not be claimed.
pub(crate) fn refuses(tx: &mut dyn Tx, cx: &Context, execution: &mut Execution) -> Result<bool> {
    let Some(flow) = gated(tx, execution)? else { return Ok(false) };
    if flow.held {
        execution.gated = true;
        tx.save(execution)?;
        return Ok(true);
    }
    match flow.closing().cloned() {
        Some(closing) if close::stops(&closing, execution) => {
            let mut cascade = Cascade::new(flow);
            close::stop(&mut cascade, tx, cx, &closing, execution)?;
            cascade.finish(tx, cx)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Makes some members as their flow is, held or not; answers with where to go on.
pub(super) fn slice(
    cascade: &mut Cascade,
    tx: &mut dyn Tx,
    cx: &Context,
    after: Option<&str>,
) -> Result<Option<FlowWork>> {
    let (page, next) = cascade.members(tx, after)?;
    let held = cascade.flow.held;
    for mut member in page {
        let same = member.gated == held;
        match &member.state {
            State::Waiting | State::Resumable | State::Delayed(_) if !same => {
                member.gated = held;
                tx.save(&member)?;
            }
            State::Granted(grant) if held => {
                let back = grant.back.into();
                leave(tx, cx, &mut member, LeaseEnd::WorkerGone, back, Cause::Hold)?;
                member.gated = true;
                tx.save(&member)?;
                log(tx, cx, &member, EventKind::GrantEnded, None, None)?;
            }
            _ => {}
        }
    }
    Ok(next.map(|after| FlowWork::Gate { after: Some(after) }))
}
