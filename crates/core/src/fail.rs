//! Failing an attempt: it is tried again as its policy says, or the execution fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cancel::{acknowledge, acknowledged};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::{finish, requeue};
use crate::flow::gate;
use crate::lease::{Fenced, fence, lease_of};
use crate::model::{
    Cause, Check, DelayCause, End, EndReason, Error, Execution, LeaseEnd, LeaseToken, Limits,
    Outcome, Ready, Result, State, Timer, Timestamp, default_name, option_duration_ms,
};
use crate::retry::{Failure, Verdict, judge};
use crate::store::Tx;

/// Ends an attempt without success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// What went wrong.
    pub failure: Failure,
    /// Try again after this long, whatever the policy's backoff says.
    #[serde(rename = "retry_after_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// What follows from a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FailOutcome {
    /// It is tried again.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// The execution has failed.
    Failed {
        /// Why it is not tried again.
        reason: EndReason,
    },
    /// The execution was to be cancelled, and is.
    Cancelled,
}

impl Command for Fail {
    const NAME: &'static str = "fail";
    type Output = FailOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FailOutcome> {
        let mut check = Check::default();
        self.failure.check(&mut check, cx.limits());
        if let Some(after) = self.retry_after {
            check.duration("retry_after_ms", after, Duration::ZERO, Limits::DURATION_MAX);
        }
        check.finish()?;
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) => {
                return match past.end {
                    LeaseEnd::Failed { retry_at: Some(at), .. } => Ok(FailOutcome::Retry { at }),
                    LeaseEnd::Failed { reason: Some(reason), .. } => {
                        Ok(FailOutcome::Failed { reason })
                    }
                    end if acknowledged(&end) => Ok(FailOutcome::Cancelled),
                    end => Err(Error::lease_lost(self.lease.execution, end.why_lost())),
                };
            }
        };
        let asked = lease_of(&mut execution)?.cancel.is_some();
        if (asked || gate::is_stopped(tx, &execution)?) && acknowledge(tx, cx, &mut execution)? {
            return Ok(FailOutcome::Cancelled);
        }
        let worker = lease_of(&mut execution)?.worker.clone();
        fail_attempt(tx, cx, &mut execution, &self.failure, self.retry_after, Ending::By(worker))
    }
}

/// Who ended the attempt.
pub(crate) enum Ending {
    By(String),
    TimedOut,
}

/// Ends an active execution's attempt as failed, by its worker or by the clock.
pub(crate) fn fail_attempt(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    failure: &Failure,
    retry_after: Option<Duration>,
    ending: Ending,
) -> Result<FailOutcome> {
    let policy = &execution.policy;
    let verdict =
        judge(policy, execution.retries, failure, retry_after, cx.now, |wait| cx.shorten(wait));
    let lease_end = |retry_at, reason| match ending {
        Ending::By(_) => LeaseEnd::Failed { failure: failure.clone(), retry_at, reason },
        Ending::TimedOut => LeaseEnd::TimedOut { retry_at },
    };
    execution.reclaims = 0;
    match verdict {
        Verdict::Retry { at } => {
            execution.retries += 1;
            let event = json!({
                "retry_at": at,
                "retries": execution.retries,
                "class": failure.class,
                "message": failure.message,
            });
            let event = (EventKind::Retrying, Some(event));
            let state = after(at, cx.now);
            requeue(tx, cx, execution, lease_end(Some(at), None), state, Cause::Fail, event)?;
            // There is no next attempt in a flow that is being closed.
            match execution.status().is_terminal() {
                true => Ok(FailOutcome::Cancelled),
                false => Ok(FailOutcome::Retry { at }),
            }
        }
        Verdict::Fail { reason } => {
            let lease_end = lease_end(None, Some(reason));
            let by = match ending {
                Ending::By(worker) => worker,
                Ending::TimedOut => "clock".to_owned(),
            };
            let end = End {
                outcome: Outcome::Failed,
                reason,
                message: Some(failure.message.clone()),
                by: Some(by),
            };
            finish(tx, cx, execution, lease_end, end, Cause::Fail)?;
            Ok(FailOutcome::Failed { reason })
        }
    }
}

/// A new attempt no earlier than `at`.
pub(crate) fn after(at: Timestamp, now: Timestamp) -> State {
    match at > now {
        true => {
            State::Delayed(Timer { until: at, cause: DelayCause::Backoff, then: Ready::Waiting })
        }
        false => State::Waiting,
    }
}
