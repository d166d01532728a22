use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Error, GateRow, OnTimeout, Result, Secret, SuspendReason, Suspended, Timestamp,
    option_duration_ms,
};

/// What an execution is doing, with exactly the data that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// May be claimed; the next claim begins a new attempt.
    Waiting,
    /// May be claimed; the next claim continues the attempt.
    Resumable,
    /// Not before a time.
    Delayed(Timer),
    /// Reserved for one worker for a short while.
    Granted(Grant),
    /// Leased to a worker.
    Active(Lease),
    /// Its join is open: it waits for what comes before it, or for its children.
    WaitingChildren(Blocked),
    /// It waits for signals, for an operator or for time, and nobody owns it.
    Suspended(Suspended),
    /// A budget or quota does not let it pass, and nobody owns it.
    Limited(Limited),
    /// Over, until it is replayed or removed.
    Ended(End),
}

/// Before which gate an execution waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The gate.
    pub gate: GateRow,
    /// Whose gate it is.
    pub by: LimitedBy,
    /// What it becomes when it may pass.
    pub then: Ready,
}

/// What does not let an execution pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The budget of that name.
    Budget(String),
    /// The quota of that name.
    Quota(String),
    /// Others with the same concurrency key.
    ConcurrencyKey(String),
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(name) => write!(f, "budget `{name}`"),
            Self::Quota(name) => write!(f, "quota `{name}`"),
            Self::ConcurrencyKey(key) => write!(f, "concurrency key `{key}`"),
        }
    }
}

/// The two ways of being claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// The next claim begins a new attempt.
    Waiting,
    /// The next claim continues the attempt.
    Resumable,
}

impl From<Ready> for State {
    fn from(ready: Ready) -> Self {
        match ready {
            Ready::Waiting => Self::Waiting,
            Ready::Resumable => Self::Resumable,
        }
    }
}

/// Until when an execution sleeps, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it may be claimed.
    pub until: Timestamp,
    /// Why not before.
    pub cause: DelayCause,
    /// What it becomes then.
    pub then: Ready,
}

/// Why an execution is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayCause {
    /// It was submitted to start later.
    Start,
    /// An attempt failed or lost its worker.
    Backoff,
    /// Its worker asked to continue later.
    Sleep,
    /// Whoever resumed it asked for it to go on later.
    Resume,
}

/// What becomes of an execution when its join is satisfied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// What it becomes then.
    pub then: Ready,
    /// How long after that it may be claimed.
    #[serde(rename = "delay_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
}

impl Blocked {
    /// The state of an execution whose join is satisfied now.
    pub(crate) fn release(&self, now: Timestamp) -> State {
        let start_at = self.delay.map(|delay| now + delay).or(self.start_at);
        match start_at.filter(|at| *at > now) {
            Some(until) => {
                State::Delayed(Timer { until, cause: DelayCause::Start, then: self.then })
            }
            None => self.then.into(),
        }
    }
}

/// A reservation for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who may redeem it.
    pub worker: String,
    /// Known to the holder of the grant only.
    pub secret: Secret,
    /// When it lapses.
    pub until: Timestamp,
    /// What the execution was, and becomes again if the grant lapses.
    pub back: Ready,
}

/// Ownership of an execution by one worker, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub worker: String,
    /// Known to the holder only.
    pub secret: Secret,
    /// When it ends unless it is renewed.
    pub until: Timestamp,
    /// How long a renewal lasts.
    pub ttl: Duration,
    /// Set when someone wants the work to stop.
    pub cancel: Option<CancelRequest>,
    /// Set when a budget is used up and the work should stop until there is more.
    pub pause: Option<PauseRequest>,
}

/// A request to give work back until its budget has more, which the worker has not honoured yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRequest {
    /// The budget that is used up.
    pub budget: String,
    /// When the engine stops waiting for the worker.
    pub force_at: Timestamp,
}

/// A request to stop, which the worker has not honoured yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked.
    pub by: String,
    /// When the request was made.
    pub requested_at: Timestamp,
    /// When the engine stops waiting for the worker.
    pub force_at: Timestamp,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The terminal state.
    pub outcome: Outcome,
    /// What led to it.
    pub reason: EndReason,
    /// In words: the failure's message, the reason of the cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Who ended it: a worker, an operator, or `clock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The terminal states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A worker delivered the result.
    Completed,
    /// No attempt succeeded.
    Failed,
    /// Someone stopped it.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// What it waited for can not happen any more: it never ran.
    Skipped,
}

/// What led to a terminal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// A worker completed it.
    Completed,
    /// An attempt failed for good.
    Permanent,
    /// An attempt failed in a way its policy does not retry.
    NotRetryable,
    /// The last retry failed.
    RetriesExhausted,
    /// It lost its worker too often in a row.
    MaxReclaims,
    /// Someone cancelled it.
    Cancelled,
    /// Its deadline passed.
    Deadline,
    /// What it waited for can not happen any more.
    Unreachable,
    /// What waited for it no longer does.
    NotNeeded,
    /// Its flow was cancelled.
    FlowCancelled,
    /// Its flow's deadline passed.
    FlowDeadline,
    /// Another member failed, and the flow was to stop then.
    MemberFailed,
    /// The execution that made it has ended.
    ParentEnded,
    /// What it was suspended for did not come in time.
    SuspensionTimeout,
    /// Its budget was used up.
    Budget,
}

impl EndReason {
    /// Whether the engine stopped it for a reason that lies in its flow: nobody's failure.
    pub const fn is_by_flow(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::NotNeeded
                | Self::FlowCancelled
                | Self::FlowDeadline
                | Self::MemberFailed
                | Self::ParentEnded
        )
    }

    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Permanent => "permanent",
            Self::NotRetryable => "not_retryable",
            Self::RetriesExhausted => "retries_exhausted",
            Self::MaxReclaims => "max_reclaims",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
            Self::Unreachable => "unreachable",
            Self::NotNeeded => "not_needed",
            Self::FlowCancelled => "flow_cancelled",
            Self::FlowDeadline => "flow_deadline",
            Self::MemberFailed => "member_failed",
            Self::ParentEnded => "parent_ended",
            Self::SuspensionTimeout => "suspension_timeout",
            Self::Budget => "budget",
        }
    }
}

/// A state's name for people; what reads show and searches ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// May be claimed.
    Waiting,
    /// May be claimed, and continues where it stopped.
    Resumable,
    /// Not before a time.
    Delayed,
    /// Reserved for one worker.
    Granted,
    /// Leased to a worker.
    Active,
    /// Its join is open: it waits for what comes before it, or for its children.
    WaitingChildren,
    /// It waits for signals, for an operator or for time.
    Suspended,
    /// A budget or quota does not let it pass.
    RateLimited,
    /// A worker delivered the result.
    Completed,
    /// No attempt succeeded.
    Failed,
    /// Someone stopped it.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// What it waited for can not happen any more: it never ran.
    Skipped,
}

impl Status {
    /// Every status, in the order of an execution's life.
    pub const ALL: [Self; 13] = [
        Self::Waiting,
        Self::Resumable,
        Self::Delayed,
        Self::Granted,
        Self::Active,
        Self::WaitingChildren,
        Self::Suspended,
        Self::RateLimited,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Skipped,
    ];

    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Resumable => "resumable",
            Self::Delayed => "delayed",
            Self::Granted => "granted",
            Self::Active => "active",
            Self::WaitingChildren => "waiting_children",
            Self::Suspended => "suspended",
            Self::RateLimited => "rate_limited",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Skipped => "skipped",
        }
    }

    /// Whether an execution in it is over.
    pub const fn is_terminal(self) -> bool {
        self.code() >= Self::FIRST_TERMINAL
    }

    /// Codes from here on are terminal. Partial indexes of the stores rely on it.
    pub const FIRST_TERMINAL: i64 = 10;

    /// The number a store saves. Gaps are for states of later capabilities.
    pub const fn code(self) -> i64 {
        match self {
            Self::Waiting => 0,
            Self::Resumable => 1,
            Self::Delayed => 2,
            Self::Granted => 3,
            Self::Active => 4,
            Self::WaitingChildren => 5,
            Self::Suspended => 6,
            Self::RateLimited => 7,
            Self::Completed => 10,
            Self::Failed => 11,
            Self::Cancelled => 12,
            Self::Expired => 13,
            Self::Skipped => 14,
        }
    }

    /// The status that number stands for.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Outcome> for Status {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Expired => Self::Expired,
            Outcome::Skipped => Self::Skipped,
        }
    }
}

impl State {
    /// The state's name.
    pub fn status(&self) -> Status {
        match self {
            Self::Waiting => Status::Waiting,
            Self::Resumable => Status::Resumable,
            Self::Delayed(_) => Status::Delayed,
            Self::Granted(_) => Status::Granted,
            Self::Active(_) => Status::Active,
            Self::WaitingChildren(_) => Status::WaitingChildren,
            Self::Suspended(_) => Status::Suspended,
            Self::Limited(_) => Status::RateLimited,
            Self::Ended(end) => end.outcome.into(),
        }
    }

    /// Who leases or has reserved it.
    pub fn worker(&self) -> Option<&str> {
        match self {
            Self::Granted(grant) => Some(&grant.worker),
            Self::Active(lease) => Some(&lease.worker),
            Self::Waiting
            | Self::Resumable
            | Self::Delayed(_)
            | Self::WaitingChildren(_)
            | Self::Suspended(_)
            | Self::Limited(_)
            | Self::Ended(_) => None,
        }
    }

    /// Which of its suspensions it is in.
    pub fn suspension(&self) -> Option<u32> {
        match self {
            Self::Suspended(suspended) => Some(suspended.number),
            _ => None,
        }
    }

    /// How it ended, if it did.
    pub fn end(&self) -> Option<&End> {
        match self {
            Self::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// The columns a relational store saves; [`State::from_columns`] reads them back.
    pub fn columns(&self) -> StateColumns<'_> {
        let mut columns = StateColumns { state: self.status().code(), ..Default::default() };
        let detail = match self {
            Self::Waiting | Self::Resumable => None,
            Self::Delayed(Timer { until, cause, then }) => {
                columns.until = Some(*until);
                Some(to_json(&DelayDetail { cause: *cause, then: *then }))
            }
            Self::Granted(Grant { worker, secret, until, back }) => {
                columns.until = Some(*until);
                columns.worker = Some(worker);
                columns.secret = Some(*secret);
                Some(to_json(back))
            }
            Self::Active(Lease { worker, secret, until, ttl, cancel, pause }) => {
                columns.until = Some(*until);
                columns.worker = Some(worker);
                columns.secret = Some(*secret);
                columns.ttl_ms = Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
                let asked = cancel.is_some() || pause.is_some();
                asked
                    .then(|| to_json(&LeaseDetail { cancel: cancel.clone(), pause: pause.clone() }))
            }
            Self::WaitingChildren(blocked) => Some(to_json(blocked)),
            Self::Suspended(Suspended { number, reason, until, on_timeout }) => {
                columns.until = *until;
                let (number, reason, on_timeout) = (*number, *reason, *on_timeout);
                Some(to_json(&SuspendedDetail { number, reason, on_timeout }))
            }
            Self::Limited(Limited { gate, by, then }) => {
                columns.gate = Some(*gate);
                Some(to_json(&LimitedDetail { by: by.clone(), then: *then }))
            }
            Self::Ended(end) => Some(to_json(&EndDetail {
                reason: end.reason,
                message: end.message.as_deref(),
                by: end.by.as_deref(),
            })),
        };
        columns.detail = detail;
        columns
    }

    /// The state those columns describe.
    pub fn from_columns(columns: &StateColumns<'_>) -> Result<Self> {
        let corrupt = || Error::bug(format!("a stored state contradicts itself: {columns:?}"));
        let status = Status::from_code(columns.state).ok_or_else(corrupt)?;
        let detail = columns.detail.as_deref();
        let until = || columns.until.ok_or_else(corrupt);
        let worker = || columns.worker.map(str::to_owned).ok_or_else(corrupt);
        let secret = || columns.secret.ok_or_else(corrupt);
        Ok(match status {
            Status::Waiting => Self::Waiting,
            Status::Resumable => Self::Resumable,
            Status::Delayed => {
                let DelayDetail { cause, then } = detail.and_then(from_json).ok_or_else(corrupt)?;
                Self::Delayed(Timer { until: until()?, cause, then })
            }
            Status::Granted => Self::Granted(Grant {
                worker: worker()?,
                secret: secret()?,
                until: until()?,
                back: detail.and_then(from_json).ok_or_else(corrupt)?,
            }),
            Status::Active => {
                let LeaseDetail { cancel, pause } = match detail {
                    Some(text) => from_json(text).ok_or_else(corrupt)?,
                    None => LeaseDetail::default(),
                };
                let ttl = columns.ttl_ms.and_then(|ms| u64::try_from(ms).ok());
                Self::Active(Lease {
                    worker: worker()?,
                    secret: secret()?,
                    until: until()?,
                    ttl: ttl.map(Duration::from_millis).ok_or_else(corrupt)?,
                    cancel,
                    pause,
                })
            }
            Status::WaitingChildren => {
                Self::WaitingChildren(detail.and_then(from_json).ok_or_else(corrupt)?)
            }
            Status::Suspended => {
                let SuspendedDetail { number, reason, on_timeout } =
                    detail.and_then(from_json).ok_or_else(corrupt)?;
                Self::Suspended(Suspended { number, reason, until: columns.until, on_timeout })
            }
            Status::RateLimited => {
                let LimitedDetail { by, then } = detail.and_then(from_json).ok_or_else(corrupt)?;
                Self::Limited(Limited { gate: columns.gate.ok_or_else(corrupt)?, by, then })
            }
            Status::Completed
            | Status::Failed
            | Status::Cancelled
            | Status::Expired
            | Status::Skipped => {
                let outcome = match status {
                    Status::Completed => Outcome::Completed,
                    Status::Failed => Outcome::Failed,
                    Status::Cancelled => Outcome::Cancelled,
                    Status::Expired => Outcome::Expired,
                    _ => Outcome::Skipped,
                };
                let EndDetail { reason, message, by } =
                    detail.and_then(from_json::<EndDetail<String>>).ok_or_else(corrupt)?;
                Self::Ended(End { outcome, reason, message, by })
            }
        })
    }
}

fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data has a JSON form")
}

fn from_json<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[derive(Serialize, Deserialize)]
struct DelayDetail {
    cause: DelayCause,
    then: Ready,
}

#[derive(Default, Serialize, Deserialize)]
struct LeaseDetail {
    #[serde(flatten)]
    cancel: Option<CancelRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<PauseRequest>,
}

#[derive(Serialize, Deserialize)]
struct LimitedDetail {
    by: LimitedBy,
    then: Ready,
}

#[derive(Serialize, Deserialize)]
struct SuspendedDetail {
    number: u32,
    reason: SuspendReason,
    on_timeout: OnTimeout,
}

#[derive(Serialize, Deserialize)]
struct EndDetail<T> {
    reason: EndReason,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    message: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    by: Option<T>,
}

fn none<T>() -> Option<T> {
    None
}

/// A [`State`] as a row: its code, the few columns that are searched or hot, the rest as JSON.
#[derive(Clone, Debug, Default)]
pub struct StateColumns<'a> {
    /// [`Status::code`].
    pub state: i64,
    /// When the state ends by itself: delay, grant, lease or suspension.
    pub until: Option<Timestamp>,
    /// Who leases or has reserved it.
    pub worker: Option<&'a str>,
    /// The secret of the lease or grant.
    pub secret: Option<Secret>,
    /// The lease's time to live in milliseconds.
    pub ttl_ms: Option<i64>,
    /// Before which gate it waits.
    pub gate: Option<GateRow>,
    /// What is left, as JSON.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<State> {
        let at = Timestamp::from_millis(5);
        let secret = Secret::new([3; 16]);
        let cancel =
            CancelRequest { reason: None, by: "ops".into(), requested_at: at, force_at: at };
        let lease = |cancel, pause| Lease {
            worker: "w".into(),
            secret,
            until: at,
            ttl: Duration::from_secs(30),
            cancel,
            pause,
        };
        let pause = PauseRequest { budget: "b".into(), force_at: at };
        let end = |outcome, reason, message: Option<&str>| {
            State::Ended(End { outcome, reason, message: message.map(Into::into), by: None })
        };
        vec![
            State::Waiting,
            State::Resumable,
            State::Delayed(Timer { until: at, cause: DelayCause::Sleep, then: Ready::Resumable }),
            State::Granted(Grant { worker: "w".into(), secret, until: at, back: Ready::Waiting }),
            State::Active(lease(None, None)),
            State::Active(lease(Some(cancel.clone()), None)),
            State::Active(lease(None, Some(pause.clone()))),
            State::Active(lease(Some(cancel), Some(pause))),
            State::Limited(Limited {
                gate: GateRow(4),
                by: LimitedBy::Budget("b".into()),
                then: Ready::Resumable,
            }),
            State::WaitingChildren(Blocked {
                then: Ready::Waiting,
                delay: Some(Duration::from_secs(1)),
                start_at: None,
            }),
            State::Suspended(Suspended {
                number: 3,
                reason: SuspendReason::WaitingForApproval,
                until: Some(at),
                on_timeout: OnTimeout::Escalate,
            }),
            end(Outcome::Completed, EndReason::Completed, None),
            end(Outcome::Failed, EndReason::MaxReclaims, Some("gone")),
            end(Outcome::Cancelled, EndReason::Cancelled, None),
            end(Outcome::Expired, EndReason::Deadline, None),
            end(Outcome::Skipped, EndReason::Unreachable, None),
        ]
    }

    #[test]
    fn every_state_survives_its_columns() {
        for state in one_of_each() {
            assert_eq!(State::from_columns(&state.columns()).unwrap(), state);
        }
    }

    #[test]
    fn a_row_that_contradicts_itself_is_a_bug_and_not_a_panic() {
        let lonely = StateColumns { state: Status::Active.code(), ..Default::default() };
        assert_eq!(State::from_columns(&lonely).unwrap_err().code(), crate::Code::Internal);
    }

    #[test]
    fn terminal_codes_are_the_high_ones() {
        for status in Status::ALL {
            let over = matches!(
                status,
                Status::Completed
                    | Status::Failed
                    | Status::Cancelled
                    | Status::Expired
                    | Status::Skipped
            );
            assert_eq!(status.is_terminal(), over, "{status}");
        }
    }
}
