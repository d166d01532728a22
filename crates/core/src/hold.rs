//! Keeping one execution from workers, whatever its state beneath.

use serde::{Deserialize, Serialize};

use crate::cancel::already_terminal;
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::finish::leave;
use crate::lease::load;
use crate::model::{
    Cause, Code, Error, Execution, ExecutionId, LeaseEnd, Result, State, default_name,
};
use crate::store::Tx;

/// Keeps an execution from workers until it is unheld. Time goes on for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
}

/// Lets a held execution go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unhold {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum HoldOutcome {
    /// It changed.
    Done,
    /// It was so already.
    Already,
}

impl Command for Hold {
    const NAME: &'static str = "hold";
    type Output = HoldOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<HoldOutcome> {
        let mut execution = load(tx, &self.namespace, self.execution)?;
        match &execution.state {
            State::Ended(_) => return Err(already_terminal(&execution)),
            State::Active(_) => {
                return Err(Error::new(
                    Code::WrongState,
                    format!("execution {} is active; revoke its lease first", execution.id),
                ));
            }
            State::Granted(grant) => {
                let back = grant.back.into();
                leave(tx, cx, &mut execution, LeaseEnd::WorkerGone, back, Cause::Hold)?;
            }
            State::Limited(limited) => {
                let back = limited.then.into();
                leave(tx, cx, &mut execution, LeaseEnd::WorkerGone, back, Cause::Hold)?;
            }
            State::Waiting
            | State::Resumable
            | State::Delayed(_)
            | State::WaitingChildren(_)
            | State::Suspended(_) => {}
        }
        set(tx, cx, execution, true)
    }
}

impl Command for Unhold {
    const NAME: &'static str = "unhold";
    type Output = HoldOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<HoldOutcome> {
        let execution = load(tx, &self.namespace, self.execution)?;
        if execution.status().is_terminal() {
            return Err(already_terminal(&execution));
        }
        set(tx, cx, execution, false)
    }
}

fn set(tx: &mut dyn Tx, cx: &Context, mut execution: Execution, held: bool) -> Result<HoldOutcome> {
    if execution.held == held {
        return Ok(HoldOutcome::Already);
    }
    execution.held = held;
    tx.save(&execution)?;
    let kind = if held { EventKind::Held } else { EventKind::Unheld };
    log(tx, cx, &execution, kind, None, None)?;
    Ok(HoldOutcome::Done)
}
