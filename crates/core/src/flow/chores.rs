//! What a flow leaves for later: ends to pass on, members to stop, and its own removal.

use serde::{Deserialize, Serialize};

use super::cascade::Cascade;
use super::{close, flow_event};
use crate::chore::{Chore, Slice};
use crate::command::Context;
use crate::delete;
use crate::event::EventKind;
use crate::limit::LimitChange;
use crate::model::{
    CancelScope, Closing, ClosingCause, Extent, Flow, FlowRow, FlowState, Key, KeyOf, LimitRow,
    Result, RowId,
};
use crate::store::Tx;

/// A piece of work on a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum FlowWork {
    /// Tell those who wait for an execution how it ended.
    PassOn {
        /// The execution.
        execution: RowId,
        /// The last one that was told.
        after: Option<RowId>,
        /// Whether one of those told takes care of a failure.
        handled: bool,
    },
    /// Cancel the sources of a decided join that nothing else needs.
    CancelRest {
        /// What has waited.
        target: RowId,
    },
    /// Stop members of a flow that is being closed.
    Close {
        /// The last node that was looked at.
        after: Option<String>,
    },
    /// Keep members of a held flow from workers, or let them go again.
    Gate {
        /// The last node that was looked at.
        after: Option<String>,
    },
    /// Put members under a limit, or take them out again.
    Limit {
        /// Which limit.
        limit: LimitRow,
        /// What changes.
        change: LimitChange,
        /// The last node that was looked at.
        after: Option<String>,
    },
}

/// Goes on with what chores of one flow have left.
pub(crate) fn work(
    tx: &mut dyn Tx,
    cx: &Context,
    flow: FlowRow,
    chores: Vec<(Chore, FlowWork)>,
) -> Result<()> {
    let mut cascade = Cascade::of(tx, flow)?;
    cascade.resume(chores);
    cascade.finish(tx, cx).map(drop)
}

/// Closes a flow whose deadline has passed.
pub(crate) fn expire(tx: &mut dyn Tx, cx: &Context, flow: FlowRow) -> Result<()> {
    let mut cascade = Cascade::of(tx, flow)?;
    if cascade.flow.state != FlowState::Open {
        return Ok(());
    }
    let closing = Closing {
        cause: ClosingCause::Deadline,
        scope: CancelScope::All,
        reason: Some("its deadline passed".to_owned()),
        by: "clock".to_owned(),
        at: cx.now,
        grace: std::time::Duration::ZERO,
        extent: Extent::default(),
    };
    let closing = Closing { extent: close::extent(tx, &cascade.flow, &closing)?, ..closing };
    close::begin(&mut cascade, tx, cx, closing)?;
    cascade.finish(tx, cx).map(drop)
}

/// Removes up to `rows` members of an ended flow, and then the flow.
pub(crate) fn remove(
    tx: &mut dyn Tx,
    cx: &Context,
    flow: FlowRow,
    rows: usize,
    by: &str,
) -> Result<Slice> {
    let flow = tx.flow_by_row(flow)?;
    // Whoever made it may still ask for what became of it.
    if let Some(parent) = flow.parent
        && tx.execution(parent)?.is_some_and(|parent| !parent.status().is_terminal())
    {
        return Ok(Slice::More { due_at: cx.now + cx.settings.sweep_every });
    }
    let members = tx.members(flow.row, None, rows)?;
    for member in &members {
        delete::retire_key(tx, cx, member)?;
    }
    delete::remove(tx, cx, &members, by)?;
    if members.len() == rows {
        return Ok(Slice::More { due_at: cx.now });
    }
    keep_key(tx, cx, &flow)?;
    tx.remove_flow(&flow)?;
    let data = serde_json::json!({ "by": by });
    tx.add_event(&flow_event(EventKind::FlowDeleted, cx.now, &flow, Some(data)))?;
    Ok(Slice::Done)
}

/// Lets a flow's idempotency key stand alone for what is left of its window.
fn keep_key(tx: &mut dyn Tx, cx: &Context, flow: &Flow) -> Result<()> {
    let Some(name) = &flow.terms.key else { return Ok(()) };
    let key = tx.keys(flow.namespace, &[name])?.pop().flatten();
    let Some(key) = key.filter(|key| key.of == KeyOf::Flow(flow.id)) else { return Ok(()) };
    let expires_at = flow.since + flow.terms.policy.key_window();
    match cx.now < expires_at {
        true => tx.put_key(&Key { expires_at: Some(expires_at), ..key }),
        false => tx.drop_key(flow.namespace, name),
    }
}
