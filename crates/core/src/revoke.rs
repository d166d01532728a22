//! Taking work from its worker.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cancel::{end_cancelled, operator};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::requeue;
use crate::lease::load;
use crate::model::{
    Cause, Check, Epoch, ExecutionId, LeaseEnd, Result, State, Status, default_name,
};
use crate::store::Tx;

/// Ends a lease or a grant: the work may be claimed again at once, and no retry is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeLease {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Only if this worker has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Only if this is the fence of its lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
}

impl RevokeLease {
    /// An operator's revoke, whoever has the work.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            worker: None,
            epoch: None,
            reason: None,
            by: operator(),
        }
    }
}

/// What became of a revoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RevokeOutcome {
    /// The worker has lost the work.
    Revoked {
        /// Who had it.
        worker: String,
        /// What the execution is now.
        status: Status,
    },
    /// There was nothing to revoke.
    NothingToRevoke {
        /// Why.
        why: NothingToRevoke,
    },
}

/// Why there was nothing to revoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NothingToRevoke {
    /// Nobody has it.
    NotOwned {
        /// What it is doing.
        status: Status,
    },
    /// Someone else has it.
    OtherWorker {
        /// Who.
        worker: String,
    },
    /// It was claimed again since.
    OtherLease {
        /// The fence of its present lease.
        epoch: Epoch,
    },
}

impl Command for RevokeLease {
    const NAME: &'static str = "revoke_lease";
    type Output = RevokeOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<RevokeOutcome> {
        let mut check = Check::default();
        check.name("by", &self.by);
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let nothing = |why| Ok(RevokeOutcome::NothingToRevoke { why });
        let Some(worker) = execution.state.worker().map(str::to_owned) else {
            return nothing(NothingToRevoke::NotOwned { status: execution.status() });
        };
        if self.worker.as_ref().is_some_and(|expected| *expected != worker) {
            return nothing(NothingToRevoke::OtherWorker { worker });
        }
        if self.epoch.is_some_and(|expected| expected != execution.epoch) {
            return nothing(NothingToRevoke::OtherLease { epoch: execution.epoch });
        }
        let (to, cancel) = match &execution.state {
            State::Granted(grant) => (grant.back.into(), None),
            State::Active(lease) => (State::Waiting, lease.cancel.clone()),
            State::Waiting
            | State::Resumable
            | State::Delayed(_)
            | State::WaitingChildren(_)
            | State::Suspended(_)
            | State::Limited(_)
            | State::Ended(_) => {
                return nothing(NothingToRevoke::NotOwned { status: execution.status() });
            }
        };
        match cancel {
            Some(request) => end_cancelled(tx, cx, &mut execution, &request, false)?,
            None => {
                let end = LeaseEnd::Revoked { reason: self.reason.clone(), by: self.by.clone() };
                let data = json!({ "reason": self.reason, "by": self.by });
                let event = (EventKind::Revoked, Some(data));
                requeue(tx, cx, &mut execution, end, to, Cause::Revoke, event)?;
            }
        }
        Ok(RevokeOutcome::Revoked { worker, status: execution.status() })
    }
}
