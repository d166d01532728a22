use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Attempt, Axes, Blocking, Cause, DelayCause, Eligibility, Epoch, ExecutionId, LaneId, LaneMode,
    LimitedBy, Member, NamespaceId, Ownership, Phase, Policy, Ready, RouteId, RowId, State, Status,
    Tags, Timestamp, Transition,
};

/// An execution as a store keeps it; input and result lie beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Its row.
    pub row: RowId,
    /// Its name for everyone else.
    pub id: ExecutionId,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// The queue it stands in.
    pub lane: LaneId,
    /// What a worker must serve to get it.
    pub route: RouteId,
    /// Higher goes first.
    pub priority: i32,
    /// Within a priority, lower goes first.
    pub rank: i64,
    /// What it is doing.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// Whether an operator holds it: not claimable, whatever its state.
    pub held: bool,
    /// Whether its flow is held: not claimable either.
    pub gated: bool,
    /// When it expires.
    pub deadline_at: Option<Timestamp>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it was first claimed in this run.
    pub started_at: Option<Timestamp>,
    /// The fence.
    pub epoch: Epoch,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// Retries used in this run.
    pub retries: u32,
    /// How often in a row it lost its worker.
    pub reclaims: u32,
    /// 1, and one more with every replay.
    pub run: u32,
    /// How it is treated.
    pub policy: Arc<Policy>,
    /// Its labels.
    pub tags: Arc<Tags>,
    /// Who submitted it.
    pub created_by: Option<String>,
    /// What its worker last reported.
    pub progress: Option<Progress>,
    /// The idempotency key it was submitted under.
    pub key: Option<String>,
    /// Its place in a flow.
    pub member: Option<Arc<Member>>,
    /// The execution that made it, if one did.
    pub parent: Option<RowId>,
    /// What lies beside it.
    pub beside: Beside,
}

/// What lies beside an execution, so that nobody has to look for what is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// It has made others.
    pub children: bool,
    /// It has, or had, suspensions, waitpoints or signals.
    pub mail: bool,
    /// It has recorded steps.
    pub steps: bool,
    /// It has put out frames.
    pub stream: bool,
    /// It is, or was, under budgets or quotas.
    pub limits: bool,
}

impl Beside {
    /// The number a store saves.
    pub const fn code(self) -> i64 {
        self.children as i64
            | (self.mail as i64) << 1
            | (self.steps as i64) << 2
            | (self.stream as i64) << 3
            | (self.limits as i64) << 4
    }

    /// What that number stands for.
    pub const fn from_code(code: i64) -> Self {
        Self {
            children: code & 1 != 0,
            mail: code & 2 != 0,
            steps: code & 4 != 0,
            stream: code & 8 != 0,
            limits: code & 16 != 0,
        }
    }
}

/// What a worker last reported about its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Execution {
    /// The state's name.
    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// Whether a worker may take it, as far as it alone decides.
    pub fn claimable(&self) -> bool {
        !self.is_held() && matches!(self.state, State::Waiting | State::Resumable)
    }

    /// Whether it or its flow is held.
    pub fn is_held(&self) -> bool {
        self.held || self.gated
    }

    /// The earliest moment at which time alone changes this execution: for an ended one, when it
    /// is removed. A member of a flow is removed with the flow.
    pub fn due_at(&self) -> Option<Timestamp> {
        let own = match &self.state {
            State::Waiting | State::Resumable | State::WaitingChildren(_) | State::Limited(_) => {
                None
            }
            State::Delayed(delay) => Some(delay.until),
            State::Suspended(suspended) => suspended.until,
            State::Granted(grant) => Some(grant.until),
            State::Active(lease) => {
                let times_out = self.policy.attempt_timeout.map(|limit| self.since + limit);
                let forced = lease.cancel.as_ref().map(|cancel| cancel.force_at);
                let paused = lease.pause.as_ref().map(|pause| pause.force_at);
                [times_out, forced, paused].into_iter().flatten().chain([lease.until]).min()
            }
            State::Ended(_) if self.member.is_some() => return None,
            State::Ended(_) => return self.policy.retention().map(|kept| self.since + kept),
        };
        own.into_iter().chain(self.deadline_at).min()
    }

    /// Changes the state: the only place that does.
    ///
    /// The epoch rises whenever an owner comes or goes and whenever the execution ends or begins
    /// anew, so that whoever owned it before is fenced off.
    ///
    /// # Panics
    ///
    /// If the state diagram has no such edge: the command's rule is wrong, and it alone fails.
    pub fn enter(&mut self, state: State, cause: Cause, now: Timestamp) {
        let (from, to) = (self.status(), state.status());
        let edge = Transition { from: Some(from), cause, to };
        assert!(edge.exists(), "the state diagram has no edge `{edge}`");
        let owned = |status| matches!(status, Status::Granted | Status::Active);
        if owned(from) || owned(to) || from.is_terminal() || to.is_terminal() {
            self.epoch.0 += 1;
        }
        self.state = state;
        self.since = now;
    }

    /// The reference's state vector.
    pub fn axes(&self, lane: LaneMode, now: Timestamp) -> Axes {
        let blocked = match (self.is_held(), lane) {
            (true, _) => Some(Eligibility::BlockedByOperator),
            (false, LaneMode::Paused) => Some(Eligibility::BlockedByLaneState),
            (false, LaneMode::Open | LaneMode::Draining) => None,
        };
        let runnable = |eligibility: Eligibility, blocking| match blocked {
            Some(by) => (by, Blocking::PausedByOperator),
            None => (eligibility, blocking),
        };
        let (eligibility_state, blocking_reason) = match &self.state {
            State::Waiting | State::Resumable => {
                runnable(Eligibility::EligibleNow, Blocking::WaitingForWorker)
            }
            State::Delayed(delay) => {
                let blocking = match delay.cause {
                    DelayCause::Backoff => Blocking::WaitingForRetryBackoff,
                    DelayCause::Start | DelayCause::Sleep => Blocking::WaitingForDelay,
                    DelayCause::Resume => Blocking::WaitingForResumeDelay,
                };
                runnable(Eligibility::NotEligibleUntilTime, blocking)
            }
            State::WaitingChildren(_) => {
                (Eligibility::BlockedByDependencies, Blocking::WaitingForChildren)
            }
            State::Suspended(suspended) => (Eligibility::NotApplicable, suspended.reason.into()),
            State::Limited(limited) => match limited.by {
                LimitedBy::Budget(_) => {
                    runnable(Eligibility::BlockedByBudget, Blocking::WaitingForBudget)
                }
                LimitedBy::Quota(_) | LimitedBy::ConcurrencyKey(_) => {
                    runnable(Eligibility::BlockedByQuota, Blocking::WaitingForQuota)
                }
            },
            State::Granted(_) => (Eligibility::NotApplicable, Blocking::WaitingForWorker),
            State::Active(_) | State::Ended(_) => (Eligibility::NotApplicable, Blocking::None),
        };
        let lifecycle_phase = match &self.state {
            State::Waiting
            | State::Resumable
            | State::Delayed(_)
            | State::WaitingChildren(_)
            | State::Limited(_)
            | State::Granted(_) => Phase::Runnable,
            State::Suspended(_) => Phase::Suspended,
            State::Active(_) => Phase::Active,
            State::Ended(_) => Phase::Terminal,
        };
        let ownership_state = match &self.state {
            State::Active(lease) if lease.until <= now => Ownership::LeaseExpiredReclaimable,
            State::Active(_) => Ownership::Leased,
            _ => Ownership::Unowned,
        };
        Axes {
            lifecycle_phase,
            ownership_state,
            eligibility_state,
            blocking_reason,
            terminal_outcome: self.state.end().map(|end| end.outcome),
            attempt_state: self.attempt_state(),
            public_state: self.status(),
        }
    }

    fn attempt_state(&self) -> Attempt {
        let next = match &self.state {
            State::Active(_) => return Attempt::RunningAttempt,
            State::Ended(_) if self.attempt == 0 => return Attempt::None,
            State::Ended(_) => return Attempt::AttemptTerminal,
            State::Waiting => Ready::Waiting,
            State::Resumable | State::Suspended(_) => Ready::Resumable,
            State::Delayed(delay) => delay.then,
            State::WaitingChildren(blocked) => blocked.then,
            State::Limited(limited) => limited.then,
            State::Granted(grant) => grant.back,
        };
        match next {
            Ready::Resumable => Attempt::AttemptInterrupted,
            Ready::Waiting if self.attempt == 0 => Attempt::PendingFirstAttempt,
            Ready::Waiting if self.run > 1 && self.retries == 0 && self.reclaims == 0 => {
                Attempt::PendingReplayAttempt
            }
            Ready::Waiting => Attempt::PendingRetryAttempt,
        }
    }
}
