//! Running an ended execution again.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::model::{Cause, Code, Error, ExecutionId, Result, State, Status, default_name};
use crate::store::Tx;

/// Starts a new run of an ended execution: retries and reclaims begin at zero, its deadline is as
/// far away as it was when it was submitted, and it keeps its rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
}

/// The execution runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// The state it is in now.
    pub status: Status,
    /// The number of the run that begins.
    pub run: u32,
}

impl Command for Replay {
    const NAME: &'static str = "replay";
    type Output = Replayed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Replayed> {
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let State::Ended(end) = &execution.state else {
            return Err(Error::new(
                Code::WrongState,
                format!(
                    "execution {} is {}; only an ended one can be replayed",
                    execution.id,
                    execution.status()
                ),
            ));
        };
        let replays = execution.run - 1;
        if replays >= execution.policy.max_replays() {
            return Err(Error::new(
                Code::WrongState,
                format!(
                    "execution {} was replayed {replays} times, as often as its policy allows; submit it anew",
                    execution.id
                ),
            ));
        }
        let data = json!({ "ended": end.outcome, "run": execution.run + 1 });
        execution.deadline_at = execution.policy.deadline.map(|allowed| cx.now + allowed);
        execution.retries = 0;
        execution.reclaims = 0;
        execution.run += 1;
        execution.progress = None;
        execution.enter(State::Waiting, Cause::Replay, cx.now);
        tx.drop_result(execution.row)?;
        tx.save(&execution)?;
        log(tx, cx, &execution, EventKind::Replayed, None, Some(data))?;
        Ok(Replayed { status: execution.status(), run: execution.run })
    }
}
