//! Completing work: the worker delivers the result.

use serde::{Deserialize, Serialize};

use crate::command::{Command, Context};
use crate::finish::finish;
use crate::flow::gate;
use crate::lease::{Fenced, fence, lease_of};
use crate::model::{
    Cause, Check, End, EndReason, Error, LeaseEnd, LeaseLost, LeaseToken, Outcome, Payload, Result,
    default_name,
};
use crate::store::Tx;

/// Ends an execution with its result. Wins over a cancel that was only requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// The result.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub result: Payload,
}

/// The execution is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// Whether an earlier call of the same lease had done it already; its result stays.
    pub repeated: bool,
}

impl Command for Complete {
    const NAME: &'static str = "complete";
    type Output = Completed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Completed> {
        let mut check = Check::default();
        check.payload("result", &self.result, cx.limits());
        check.finish()?;
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) if past.end == LeaseEnd::Completed => {
                return Ok(Completed { repeated: true });
            }
            Fenced::Ended(past) => {
                return Err(Error::lease_lost(self.lease.execution, past.end.why_lost()));
            }
        };
        if gate::is_stopped_at_end(tx, &execution)? {
            return Err(Error::lease_lost(self.lease.execution, LeaseLost::Cancelled));
        }
        let worker = lease_of(&mut execution)?.worker.clone();
        if !self.result.is_empty() {
            tx.put_result(execution.row, &self.result)?;
        }
        let end = End {
            outcome: Outcome::Completed,
            reason: EndReason::Completed,
            message: None,
            by: Some(worker),
        };
        finish(tx, cx, &mut execution, LeaseEnd::Completed, end, Cause::Complete)?;
        Ok(Completed { repeated: false })
    }
}
