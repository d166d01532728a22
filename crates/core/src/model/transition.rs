use std::fmt;

use serde::{Deserialize, Serialize};

use super::Status;

/// Why an execution changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was submitted.
    Submit,
    /// A worker took it.
    Claim,
    /// It was reserved for a worker.
    Grant,
    /// The worker took what was reserved for it.
    Redeem,
    /// The reservation was not used in time.
    GrantLapsed,
    /// An operator held it.
    Hold,
    /// Its delay is over.
    Due,
    /// Its worker delivered the result.
    Complete,
    /// Its worker, or a timeout, failed the attempt.
    Fail,
    /// Its worker asked to continue later.
    Delay,
    /// Its worker gave it back.
    Release,
    /// An operator took it from its worker.
    Revoke,
    /// Its worker did not renew in time.
    LeaseExpired,
    /// Its worker registered again or was marked dead.
    WorkerGone,
    /// Someone cancelled it.
    Cancel,
    /// Its deadline passed.
    Deadline,
    /// An operator started it anew.
    Replay,
    /// Its join was decided.
    Join,
    /// It was given something to wait for before it started.
    Stage,
    /// Its worker waits for its children.
    WaitChildren,
    /// Its worker waits for signals.
    Suspend,
    /// A signal met the condition it was suspended for.
    Signal,
    /// An operator resumed it.
    Resume,
    /// What it was suspended for did not come in time.
    SuspensionTimeout,
    /// A budget or quota did not let it pass.
    Limit,
    /// The budget or quota it waits for may let it pass.
    Free,
    /// Its budget was used up while it ran, and its worker did not stop.
    Pause,
}

impl Cause {
    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Claim => "claim",
            Self::Grant => "grant",
            Self::Redeem => "redeem",
            Self::GrantLapsed => "grant_lapsed",
            Self::Hold => "hold",
            Self::Due => "due",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Delay => "delay",
            Self::Release => "release",
            Self::Revoke => "revoke",
            Self::LeaseExpired => "lease_expired",
            Self::WorkerGone => "worker_gone",
            Self::Cancel => "cancel",
            Self::Deadline => "deadline",
            Self::Replay => "replay",
            Self::Join => "join",
            Self::Stage => "stage",
            Self::WaitChildren => "wait_children",
            Self::Suspend => "suspend",
            Self::Signal => "signal",
            Self::Resume => "resume",
            Self::SuspensionTimeout => "suspension_timeout",
            Self::Limit => "limit",
            Self::Free => "free",
            Self::Pause => "pause",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One edge of the state diagram. No `from` means that the execution is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The state before.
    pub from: Option<Status>,
    /// What happened.
    pub cause: Cause,
    /// The state after.
    pub to: Status,
}

macro_rules! transitions {
    ($($($from:ident)|+ => $cause:ident => $($to:ident)|+;)*) => {
        transitions!(@all [] $([$($from)|+] $cause [$($to)|+])*);
    };
    (@all [$($done:tt)*]) => {
        /// Every change of state there is. [`crate::Execution::enter`] makes no other, and a test
        /// keeps the diagram in the documentation equal to it.
        pub const TRANSITIONS: &[Transition] = &[$($done)*];
    };
    (@all [$($done:tt)*] [$from:ident] $cause:ident [$to:ident] $($rest:tt)*) => {
        transitions!(@all [$($done)* Transition {
            from: transitions!(@from $from), cause: Cause::$cause, to: Status::$to
        },] $($rest)*);
    };
    (@all [$($done:tt)*] [$from:ident] $cause:ident [$to:ident | $($tos:ident)|+] $($rest:tt)*) => {
        transitions!(@all [$($done)*] [$from] $cause [$to] [$from] $cause [$($tos)|+] $($rest)*);
    };
    (@all [$($done:tt)*] [$from:ident | $($froms:ident)|+] $cause:ident [$($to:ident)|+] $($rest:tt)*) => {
        transitions!(@all [$($done)*] [$from] $cause [$($to)|+] [$($froms)|+] $cause [$($to)|+] $($rest)*);
    };
    (@from New) => { None };
    (@from $from:ident) => { Some(Status::$from) };
}

transitions! {
    New => Submit => Waiting | Delayed | WaitingChildren;
    Waiting | Delayed | RateLimited => Stage => WaitingChildren;
    WaitingChildren => Join => Waiting | Resumable | Delayed | Skipped;
    Delayed => Due => Waiting | Resumable;
    Waiting | Resumable => Claim => Active;
    Waiting | Resumable => Grant => Granted;
    Granted => Redeem => Active;
    Granted => GrantLapsed => Waiting | Resumable;
    Granted => Revoke => Waiting | Resumable;
    Granted => Hold => Waiting | Resumable;
    Granted => WorkerGone => Waiting | Resumable;
    Waiting | Resumable => Limit => RateLimited;
    RateLimited => Free => Waiting | Resumable;
    RateLimited => Hold => Waiting | Resumable;
    Active => Pause => RateLimited;
    Active => Complete => Completed;
    Active => Fail => Waiting | Delayed | Failed;
    Active => Delay => Resumable | Delayed;
    Active => WaitChildren => WaitingChildren;
    Active => Suspend => Suspended;
    Suspended => Signal => Resumable | Delayed;
    Suspended => Resume => Resumable | Delayed;
    Suspended => SuspensionTimeout => Resumable | Failed | Cancelled | Expired;
    Active => Release => Waiting;
    Active => Revoke => Waiting;
    Active => WorkerGone => Waiting;
    Active => LeaseExpired => Waiting | Delayed | Failed;
    Waiting | Resumable | Delayed | Granted | Active | WaitingChildren | Suspended | RateLimited => Cancel => Cancelled;
    Waiting | Resumable | Delayed | Granted | Active | WaitingChildren | Suspended | RateLimited => Deadline => Expired;
    Completed | Failed | Cancelled | Expired | Skipped => Replay => Waiting | WaitingChildren;
}

impl Transition {
    /// Whether the state diagram has this edge.
    pub fn exists(&self) -> bool {
        TRANSITIONS.contains(self)
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.map_or("[*]", Status::as_str);
        write!(f, "{from} --> {}: {}", self.to, self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_reached_and_every_waiting_one_left() {
        for status in Status::ALL {
            assert!(TRANSITIONS.iter().any(|edge| edge.to == status), "{status} is unreachable");
            assert!(TRANSITIONS.iter().any(|edge| edge.from == Some(status)), "{status} is a trap");
        }
    }

    #[test]
    fn cancel_and_deadline_leave_from_every_non_terminal_state() {
        for from in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
            for (cause, to) in
                [(Cause::Cancel, Status::Cancelled), (Cause::Deadline, Status::Expired)]
            {
                assert!(Transition { from: Some(from), cause, to }.exists(), "{from} {cause}");
            }
        }
    }

    #[test]
    fn no_edge_is_listed_twice() {
        for (index, edge) in TRANSITIONS.iter().enumerate() {
            assert!(!TRANSITIONS[..index].contains(edge), "{edge}");
        }
    }
}
