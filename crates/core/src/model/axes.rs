//! An execution's state as readers of the reference know it: several axes at once.

use serde::{Deserialize, Serialize};

use super::{Outcome, Status, SuspendReason};

/// The reference's state vector, derived for readers who know it; nothing stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    /// Where in its life the execution is.
    pub lifecycle_phase: Phase,
    /// Whether someone owns it.
    pub ownership_state: Ownership,
    /// Whether it may be claimed.
    pub eligibility_state: Eligibility,
    /// What keeps it from running.
    pub blocking_reason: Blocking,
    /// How it ended.
    pub terminal_outcome: Option<Outcome>,
    /// What its attempt is doing.
    pub attempt_state: Attempt,
    /// The state's name.
    pub public_state: Status,
}

/// Where in its life an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not owned and not over.
    Runnable,
    /// Leased.
    Active,
    /// Not owned, and waiting for signals.
    Suspended,
    /// Over.
    Terminal,
}

/// Whether someone owns an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ownership {
    /// Nobody does.
    Unowned,
    /// A worker does.
    Leased,
    /// A worker did, and its lease has run out.
    LeaseExpiredReclaimable,
}

/// Whether an execution may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eligibility {
    /// It may.
    EligibleNow,
    /// Not before a time.
    NotEligibleUntilTime,
    /// It is held.
    BlockedByOperator,
    /// Its lane is paused.
    BlockedByLaneState,
    /// A budget does not let it pass.
    BlockedByBudget,
    /// A quota does not let it pass.
    BlockedByQuota,
    /// Its join is open.
    BlockedByDependencies,
    /// It is owned, reserved, suspended or over.
    NotApplicable,
}

/// What keeps an execution from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocking {
    /// Nothing.
    None,
    /// It waits for a worker to claim it.
    WaitingForWorker,
    /// It starts later.
    WaitingForDelay,
    /// It is retried later.
    WaitingForRetryBackoff,
    /// It, its flow or its lane is stopped by an operator.
    PausedByOperator,
    /// It waits for what comes before it, or for its children.
    WaitingForChildren,
    /// It was resumed, and goes on later.
    WaitingForResumeDelay,
    /// It waits for a signal.
    WaitingForSignal,
    /// It waits for an approval.
    WaitingForApproval,
    /// It waits for another system.
    WaitingForCallback,
    /// It waits for a tool.
    WaitingForToolResult,
    /// A policy stopped it.
    PausedByPolicy,
    /// It waits for a budget.
    WaitingForBudget,
    /// It waits for a quota.
    WaitingForQuota,
}

impl From<SuspendReason> for Blocking {
    fn from(reason: SuspendReason) -> Self {
        match reason {
            SuspendReason::WaitingForSignal | SuspendReason::StepBoundary => Self::WaitingForSignal,
            SuspendReason::WaitingForApproval => Self::WaitingForApproval,
            SuspendReason::WaitingForCallback => Self::WaitingForCallback,
            SuspendReason::WaitingForToolResult => Self::WaitingForToolResult,
            SuspendReason::WaitingForOperatorReview | SuspendReason::ManualPause => {
                Self::PausedByOperator
            }
            SuspendReason::PausedByPolicy => Self::PausedByPolicy,
            SuspendReason::PausedByBudget => Self::WaitingForBudget,
        }
    }
}

/// What an execution's attempt is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// There never was one.
    None,
    /// The first is to come.
    PendingFirstAttempt,
    /// One runs.
    RunningAttempt,
    /// One is to be continued.
    AttemptInterrupted,
    /// Another is to come.
    PendingRetryAttempt,
    /// The first one of a replay is to come.
    PendingReplayAttempt,
    /// The last one is over.
    AttemptTerminal,
}
