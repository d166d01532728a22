//! Sleeping: the worker gives the work back and goes on with the same attempt later.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cancel::{acknowledge, acknowledged};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::requeue;
use crate::lease::{Fenced, fence};
use crate::model::{
    Cause, Check, DelayCause, Error, LeaseEnd, LeaseToken, Limits, Ready, Result, State, Timer,
    Timestamp, default_name, option_duration_ms,
};
use crate::store::Tx;

/// Ends a lease and lets the attempt go on later. Not a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// When to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// After how long to go on; instead of `until`.
    #[serde(rename = "for_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

/// What follows from a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DelayOutcome {
    /// It goes on later.
    Delayed {
        /// When.
        until: Timestamp,
    },
    /// The execution was to be cancelled, and is.
    Cancelled,
}

impl Command for Delay {
    const NAME: &'static str = "delay";
    type Output = DelayOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<DelayOutcome> {
        let mut check = Check::default();
        check.that(self.until.is_some() != self.duration.is_some(), "until", || {
            "give either `until` or `for_ms`".into()
        });
        if let Some(duration) = self.duration {
            check.duration("for_ms", duration, Duration::ZERO, Limits::DURATION_MAX);
        }
        check.finish()?;
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) => {
                return match past.end {
                    LeaseEnd::Delayed { until } => Ok(DelayOutcome::Delayed { until }),
                    end if acknowledged(&end) => Ok(DelayOutcome::Cancelled),
                    end => Err(Error::lease_lost(self.lease.execution, end.why_lost())),
                };
            }
        };
        if acknowledge(tx, cx, &mut execution)? {
            return Ok(DelayOutcome::Cancelled);
        }
        let asked = self.duration.map(|duration| cx.now + duration).or(self.until);
        let until = asked.unwrap_or(cx.now);
        let state = match until > cx.now {
            true => {
                State::Delayed(Timer { until, cause: DelayCause::Sleep, then: Ready::Resumable })
            }
            false => State::Resumable,
        };
        execution.reclaims = 0;
        let event = (EventKind::Delayed, Some(json!({ "until": until })));
        requeue(tx, cx, &mut execution, LeaseEnd::Delayed { until }, state, Cause::Delay, event)?;
        Ok(DelayOutcome::Delayed { until })
    }
}
