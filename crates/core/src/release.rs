//! Giving work back: the attempt ends, and no retry is used.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cancel::{acknowledge, acknowledged};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::requeue;
use crate::lease::{Fenced, fence};
use crate::model::{Cause, Check, Error, LeaseEnd, LeaseToken, Result, State, default_name};
use crate::store::Tx;

/// Ends a lease and lets another worker have the work. Not a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What follows from a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ReleaseOutcome {
    /// The work may be claimed again.
    Released,
    /// The execution was to be cancelled, and is.
    Cancelled,
}

impl Command for Release {
    const NAME: &'static str = "release";
    type Output = ReleaseOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<ReleaseOutcome> {
        let mut check = Check::default();
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.finish()?;
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) => {
                return match past.end {
                    LeaseEnd::Released { .. } => Ok(ReleaseOutcome::Released),
                    end if acknowledged(&end) => Ok(ReleaseOutcome::Cancelled),
                    end => Err(Error::lease_lost(self.lease.execution, end.why_lost())),
                };
            }
        };
        if acknowledge(tx, cx, &mut execution)? {
            return Ok(ReleaseOutcome::Cancelled);
        }
        execution.reclaims = 0;
        let end = LeaseEnd::Released { reason: self.reason.clone() };
        let data = self.reason.as_ref().map(|reason| json!({ "reason": reason }));
        let event = (EventKind::Released, data);
        requeue(tx, cx, &mut execution, end, State::Waiting, Cause::Release, event)?;
        Ok(ReleaseOutcome::Released)
    }
}
