//! Changing what goes first.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cancel::already_terminal;
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::limit::rank;
use crate::model::{Check, ExecutionId, Result, default_name};
use crate::store::Tx;

/// Changes the priority of an execution that is not over. It keeps its rank, unless keys take
/// turns in its lane: then it takes its turn among those of the new priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePriority {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// 0 to 9000, higher first.
    pub priority: i32,
}

/// The priority is as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityChanged {
    /// What it was.
    pub before: i32,
}

impl Command for ChangePriority {
    const NAME: &'static str = "change_priority";
    type Output = PriorityChanged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<PriorityChanged> {
        let mut check = Check::default();
        check.priority("priority", self.priority);
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        if execution.status().is_terminal() {
            return Err(already_terminal(&execution));
        }
        let before = execution.priority;
        if before != self.priority {
            execution.priority = self.priority;
            let lane = tx.lane_by_id(execution.lane)?;
            if lane.fairness.is_some() {
                // Ranks stay below what the next row would be given without turns.
                let row = tx.new_row()?;
                let (policy, tags) = (&execution.policy, &execution.tags);
                execution.rank = rank(tx, &lane, self.priority, policy, tags, row)?;
            }
            tx.save(&execution)?;
            let data = json!({ "before": before, "priority": self.priority });
            log(tx, cx, &execution, EventKind::PriorityChanged, None, Some(data))?;
        }
        Ok(PriorityChanged { before })
    }
}
