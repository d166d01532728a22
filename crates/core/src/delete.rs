//! Removing ended executions: by hand, or because their time is over.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::chore::Slice;
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::model::{Code, Error, Execution, ExecutionId, Key, KeyOf, Result, default_name};
use crate::store::Tx;
use crate::stream;

/// Removes an ended execution with all that belongs to it. Its events stay as long as events do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
}

impl Command for Delete {
    const NAME: &'static str = "delete";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let execution = load(tx, &self.namespace, self.execution)?;
        if let Some(member) = &execution.member {
            return Err(Error::new(
                Code::InUse,
                format!(
                    "execution {} is a member of flow {}; delete that",
                    execution.id, member.flow_id
                ),
            ));
        }
        if !execution.status().is_terminal() {
            return Err(Error::new(
                Code::WrongState,
                format!(
                    "execution {} is {}; cancel it before deleting it",
                    execution.id,
                    execution.status()
                ),
            ));
        }
        if let Some(key) = own_key(tx, &execution)? {
            tx.drop_key(key.namespace, &key.key)?;
        }
        remove(tx, cx, &[execution], "operator")
    }
}

/// The idempotency key that stands for this execution and for no later one.
fn own_key(tx: &mut dyn Tx, execution: &Execution) -> Result<Option<Key>> {
    let Some(name) = &execution.key else {
        return Ok(None);
    };
    let key = tx.keys(execution.namespace, &[name])?.pop().flatten();
    Ok(key.filter(|key| key.of == KeyOf::Execution(execution.id)))
}

/// Lets an execution's idempotency key stand alone for what is left of its window.
pub(crate) fn retire_key(tx: &mut dyn Tx, cx: &Context, execution: &Execution) -> Result<()> {
    let Some(key) = own_key(tx, execution)? else { return Ok(()) };
    let expires_at = execution.since + execution.policy.key_window();
    match cx.now < expires_at {
        true => tx.put_key(&Key { expires_at: Some(expires_at), ..key }),
        false => tx.drop_key(key.namespace, &key.key),
    }
}

/// Removes executions. What they have put out goes in slices.
pub(crate) fn remove(
    tx: &mut dyn Tx,
    cx: &Context,
    executions: &[Execution],
    by: &str,
) -> Result<()> {
    for execution in executions {
        tx.remove(execution)?;
        log(tx, cx, execution, EventKind::Deleted, None, Some(json!({ "by": by })))?;
    }
    stream::removed(tx, cx, executions)
}

/// A slice of retention: removes about `rows` of what has had its time.
pub(crate) fn sweep(tx: &mut dyn Tx, cx: &Context, rows: usize) -> Result<Slice> {
    let retired = tx.retired(cx.now, rows)?;
    for execution in &retired {
        retire_key(tx, cx, execution)?;
    }
    remove(tx, cx, &retired, "retention")?;
    let keys = tx.trim_keys(cx.now, rows)?;
    let kept = cx.settings.event_retention;
    let events = match kept.is_zero() {
        true => 0,
        false => tx.trim_events(cx.now.before(kept), rows)?,
    };
    let gates = tx.trim_gates(cx.now, rows)?;
    let more = [retired.len(), keys, events, gates].into_iter().any(|done| done >= rows);
    let due_at = if more { cx.now } else { cx.now + cx.settings.sweep_every };
    Ok(Slice::More { due_at })
}
