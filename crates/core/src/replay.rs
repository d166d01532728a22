//! Running an ended execution again.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::model::{
    Cause, Code, Error, Execution, ExecutionId, Result, RowId, State, Status, default_name,
};
use crate::steps::KeepSteps;
use crate::store::{Read, Tx};
use crate::{flow, limit, stream};

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
    /// Which of its recorded steps it keeps.
    #[serde(default)]
    pub steps: KeepSteps,
}

impl Replay {
    /// A replay that keeps all recorded steps.
    pub fn new(execution: ExecutionId) -> Self {
        Self { namespace: default_name(), execution, steps: KeepSteps::All }
    }
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
        check_replay(tx, &execution)?;
        let dropped = self.steps.first_dropped(tx, &execution)?;
        if let Some(member) = execution.member.clone() {
            let replayed = flow::replay_member(tx, cx, member.flow, &member.node)?;
            drop_steps(tx, execution.row, dropped)?;
            return Ok(replayed);
        }
        reopen(tx, cx, &mut execution, State::Waiting)?;
        drop_steps(tx, execution.row, dropped)?;
        Ok(Replayed { status: execution.status(), run: execution.run })
    }
}

fn drop_steps(tx: &mut dyn Tx, row: RowId, from: Option<u32>) -> Result<()> {
    from.map_or(Ok(()), |from| tx.drop_steps(row, from))
}

/// Refuses to replay what has not ended, what was replayed too often, or what names limits that do
/// not exist any more.
pub(crate) fn check_replay(read: &mut dyn Read, execution: &Execution) -> Result<()> {
    if !execution.status().is_terminal() {
        return Err(Error::new(
            Code::WrongState,
            format!(
                "execution {} is {}; only an ended one can be replayed",
                execution.id,
                execution.status()
            ),
        ));
    }
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
    if execution.policy.names_limits() {
        let namespace = read.namespace_by_id(execution.namespace)?;
        limit::check_named(read, Some(&namespace), &execution.policy, "policy.")?;
    }
    Ok(())
}

/// Begins a new run.
pub(crate) fn reopen(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    state: State,
) -> Result<()> {
    let ended = execution.state.end().map(|end| end.outcome);
    execution.deadline_at = execution.policy.deadline.map(|allowed| cx.now + allowed);
    execution.retries = 0;
    execution.reclaims = 0;
    execution.run += 1;
    execution.progress = None;
    execution.started_at = None;
    execution.enter(state, Cause::Replay, cx.now);
    tx.drop_result(execution.row)?;
    tx.save(execution)?;
    stream::reopened(tx, execution)?;
    limit::reopened(tx, execution)?;
    let data = json!({ "ended": ended, "run": execution.run });
    log(tx, cx, execution, EventKind::Replayed, None, Some(data))
}
