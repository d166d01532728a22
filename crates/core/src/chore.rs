//! Long work in slices: a chore is a row that says what is left to do, so that no transaction
//! holds the writer for long and a crash resumes it where it stopped.

use serde::{Deserialize, Serialize};

use crate::command::Context;
use crate::delete;
use crate::model::{ChoreId, NamespaceId, Result, Timestamp};
use crate::store::Tx;
use crate::worker;

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
}

/// What a slice of a chore leaves behind.
pub(crate) enum Slice {
    /// Nothing: the chore is done.
    Done,
    /// More, to go on with at that time.
    More { due_at: Timestamp },
}

/// Works off one slice of at most about `rows` rows.
pub(crate) fn work(tx: &mut dyn Tx, cx: &Context, mut chore: Chore, rows: usize) -> Result<()> {
    let slice = match &chore.kind {
        ChoreKind::Retention => delete::sweep(tx, cx, rows)?,
        ChoreKind::WorkerGone { namespace, instance, by } => {
            worker::dispossess(tx, cx, *namespace, instance, *by, rows)?
        }
    };
    match slice {
        Slice::Done => tx.drop_chore(chore.id),
        Slice::More { due_at } => {
            chore.due_at = due_at;
            tx.save_chore(&chore)
        }
    }
}
