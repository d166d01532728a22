//! Long work in slices: a chore is a row that says what is left to do, so that no transaction
//! holds the writer for long and a crash resumes it where it stopped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Context;
use crate::delete;
use crate::flow::{self, FlowWork};
use crate::limit::{self, BreachWork};
use crate::misses::Misses;
use crate::model::{
    ChoreId, FlowRow, GateRow, LimitRow, NamespaceId, Result, RowId, Timestamp, WaitpointId,
};
use crate::store::Tx;
use crate::{stream, suspend, worker};

/// Work that is done in slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Chore {
    /// Its row.
    pub id: ChoreId,
    /// What is left to do.
    pub kind: ChoreKind,
    /// When it goes on.
    pub due_at: Timestamp,
}

/// What there is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "chore", rename_all = "snake_case")]
pub enum ChoreKind {
    /// Remove ended executions, events and idempotency keys whose time is over. Never done.
    Retention,
    /// Take from a worker what it owned at a time.
    WorkerGone {
        /// The worker's namespace.
        namespace: NamespaceId,
        /// The worker.
        instance: String,
        /// What it has owned since then or before.
        by: Timestamp,
    },
    /// Go on with what follows from what happened to a flow's members.
    Flow {
        /// The flow.
        flow: FlowRow,
        /// What to do.
        #[serde(flatten)]
        work: FlowWork,
    },
    /// Close a flow, because its deadline has passed.
    FlowDeadline {
        /// The flow.
        flow: FlowRow,
    },
    /// Remove an ended flow, because its time is over.
    RemoveFlow {
        /// The flow.
        flow: FlowRow,
    },
    /// Cancel what an ended execution has made.
    CancelChildren {
        /// The execution.
        parent: RowId,
        /// The last child that was looked at.
        after: Option<RowId>,
    },
    /// Remove what executions that are gone have put out.
    RemoveFrames {
        /// The executions.
        gone: Vec<RowId>,
    },
    /// Close a waitpoint, because its time is over.
    ExpireWaitpoint {
        /// The execution.
        execution: RowId,
        /// The waitpoint.
        waitpoint: WaitpointId,
    },
    /// Look after what waits before a gate, because it may have opened.
    OpenGate {
        /// The gate.
        gate: GateRow,
    },
    /// Look anew at what waits for a limit that has changed.
    Reconsider {
        /// The limit.
        limit: LimitRow,
        /// The key of the last gate that was looked at.
        after: Option<String>,
    },
    /// Do to the work under a budget what its breach demands.
    Breach {
        /// The budget.
        limit: LimitRow,
        /// When the breach was.
        at: Timestamp,
        /// What is left to do.
        #[serde(flatten)]
        work: BreachWork,
    },
}

/// What a slice of a chore leaves behind.
pub(crate) enum Slice {
    /// Nothing: the chore is done.
    Done,
    /// More, to go on with at that time.
    More { due_at: Timestamp },
}

/// How many chores that are each worth a slice go on in one tick.
const OTHERS: usize = 20;

/// Works off a slice of at most about `rows` rows of each of these chores, which are due.
pub(crate) fn work(tx: &mut dyn Tx, cx: &Context, due: Vec<Chore>, rows: usize) -> Result<()> {
    let mut flows = BTreeMap::<FlowRow, Vec<(Chore, FlowWork)>>::new();
    let mut misses = Misses::default();
    let mut others = 0;
    for chore in due {
        match &chore.kind {
            ChoreKind::Flow { flow, work } => {
                let (flow, work) = (*flow, work.clone());
                flows.entry(flow).or_default().push((chore, work));
            }
            ChoreKind::ExpireWaitpoint { .. } | ChoreKind::OpenGate { .. } => {
                misses.pass(slice(tx, cx, chore, rows))?;
            }
            _ if others < OTHERS => {
                others += 1;
                misses.pass(slice(tx, cx, chore, rows))?;
            }
            // It stays due.
            _ => {}
        }
    }
    for (flow, chores) in flows {
        misses.pass(flow::work(tx, cx, flow, chores))?;
    }
    misses.finish()
}

fn slice(tx: &mut dyn Tx, cx: &Context, mut chore: Chore, rows: usize) -> Result<()> {
    let slice = match &mut chore.kind {
        ChoreKind::Retention => delete::sweep(tx, cx, rows)?,
        ChoreKind::WorkerGone { namespace, instance, by } => {
            worker::dispossess(tx, cx, *namespace, instance, *by, rows)?
        }
        ChoreKind::FlowDeadline { flow } => {
            flow::expire(tx, cx, *flow)?;
            Slice::Done
        }
        ChoreKind::RemoveFlow { flow } => flow::remove(tx, cx, *flow, rows, "retention")?,
        ChoreKind::CancelChildren { parent, after } => {
            flow::children::cancel(tx, cx, *parent, after, rows)?
        }
        ChoreKind::RemoveFrames { gone } => stream::remove_frames(tx, cx, gone, rows)?,
        ChoreKind::ExpireWaitpoint { execution, waitpoint } => {
            suspend::expire(tx, cx, *execution, *waitpoint)?
        }
        ChoreKind::OpenGate { gate } => limit::look(tx, cx, *gate, chore.due_at)?,
        ChoreKind::Reconsider { limit, after } => limit::reconsider(tx, cx, *limit, after, rows)?,
        ChoreKind::Breach { limit, at, work } => limit::bite(tx, cx, *limit, *at, work, rows)?,
        ChoreKind::Flow { .. } => Slice::Done,
    };
    match slice {
        Slice::Done => tx.drop_chore(chore.id),
        Slice::More { due_at } => {
            chore.due_at = due_at;
            tx.save_chore(&chore)
        }
    }
}
