//! What an execution that waits for signals keeps beside it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Condition, NamespaceId, Offer, RowId, SignalId, Tally, Timestamp, WaitpointId};

/// Why an execution is suspended, for people and for searches; no rule depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    /// A signal is to come.
    #[default]
    WaitingForSignal,
    /// Someone has to approve.
    WaitingForApproval,
    /// Another system will call back.
    WaitingForCallback,
    /// A tool is at work.
    WaitingForToolResult,
    /// An operator has to look at it.
    WaitingForOperatorReview,
    /// A policy stopped it.
    PausedByPolicy,
    /// A budget stopped it.
    PausedByBudget,
    /// It stops between two steps.
    StepBoundary,
    /// Someone stopped it.
    ManualPause,
}

impl SuspendReason {
    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForSignal => "waiting_for_signal",
            Self::WaitingForApproval => "waiting_for_approval",
            Self::WaitingForCallback => "waiting_for_callback",
            Self::WaitingForToolResult => "waiting_for_tool_result",
            Self::WaitingForOperatorReview => "waiting_for_operator_review",
            Self::PausedByPolicy => "paused_by_policy",
            Self::PausedByBudget => "paused_by_budget",
            Self::StepBoundary => "step_boundary",
            Self::ManualPause => "manual_pause",
        }
    }
}

impl fmt::Display for SuspendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What becomes of a suspended execution whose condition was not met in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It fails, and is not retried.
    #[default]
    Fail,
    /// It is cancelled.
    Cancel,
    /// It expires.
    Expire,
    /// It goes on, with a signal named `timeout`.
    Resume,
    /// It stays, for an operator to look at; signals still count.
    Escalate,
}

/// That an execution is suspended, and until when: what its own row keeps. The rest is in its
/// [`Suspension`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    /// Which of its suspensions this is.
    pub number: u32,
    /// Why.
    pub reason: SuspendReason,
    /// When it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What happens then.
    pub on_timeout: OnTimeout,
}

/// One suspension of an execution, from its beginning to after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// The execution.
    pub execution: RowId,
    /// 1, 2, 3 … over all runs.
    pub number: u32,
    /// The run it belongs to.
    pub run: u32,
    /// Names it among those of the run.
    pub key: Option<String>,
    /// What was asked for; fixed from then on.
    pub terms: SuspensionTerms,
    /// How it went.
    pub course: SuspensionCourse,
}

/// What a suspension was asked to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspensionTerms {
    /// Why.
    pub reason: SuspendReason,
    /// What those who answer should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it goes on.
    pub condition: Condition,
    /// The waitpoints it waits at, in the order the condition names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waitpoints: Vec<WaitpointId>,
    /// When it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<Timestamp>,
    /// What happens then.
    pub on_timeout: OnTimeout,
    /// The attempt that was suspended.
    pub attempt: u32,
    /// When it began.
    pub began_at: Timestamp,
}

/// How a suspension went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspensionCourse {
    /// What its condition has seen.
    pub tally: Tally,
    /// When it was passed on to an operator because its time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SuspensionEnd>,
}

/// How a suspension ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspensionEnd {
    /// When.
    pub at: Timestamp,
    /// By what.
    #[serde(flatten)]
    pub by: EndedBy,
}

/// What ended a suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ended_by", rename_all = "snake_case")]
pub enum EndedBy {
    /// The signal that met the condition.
    Signal {
        /// Which one.
        signal: SignalId,
    },
    /// An operator.
    Operator {
        /// Who.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Its time was over.
    Timeout,
    /// The execution ended.
    Execution,
}

/// A place where signals can be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// Its name for everyone.
    pub id: WaitpointId,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// The execution.
    pub execution: RowId,
    /// 1, 2, 3 … in the order they were created, over all runs.
    pub seq: u32,
    /// What conditions call it; no two open ones of an execution share it.
    pub key: String,
    /// The signing key of its token.
    pub kid: String,
    /// By which its token can be recognised and not guessed.
    pub fingerprint: Fingerprint,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it closes by itself.
    pub expires_at: Option<Timestamp>,
    /// What it is doing.
    pub state: WaitpointState,
    /// How many signals came by its token.
    pub borne: u32,
}

impl Waitpoint {
    /// What changes of it while signals come.
    pub fn course(&self) -> WaitpointCourse {
        WaitpointCourse { state: self.state.clone(), borne: self.borne }
    }

    /// Whether signals can still be delivered there.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, WaitpointState::Closed { .. })
    }
}

/// What changes of a waitpoint while signals come, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitpointCourse {
    /// What it is doing.
    #[serde(flatten)]
    pub state: WaitpointState,
    /// How many signals came by its token.
    #[serde(default, skip_serializing_if = "is_none")]
    pub borne: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// What a waitpoint is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum WaitpointState {
    /// Nothing waits for it yet: signals are kept.
    Pending,
    /// A suspension waits for it.
    Active {
        /// Which one.
        suspension: u32,
        /// Since when.
        since: Timestamp,
    },
    /// No more signals are taken.
    Closed {
        /// Since when.
        at: Timestamp,
        /// Why.
        #[serde(flatten)]
        why: CloseReason,
    },
}

impl WaitpointState {
    /// The suspension that waits for it.
    pub fn suspension(&self) -> Option<u32> {
        match self {
            Self::Active { suspension, .. } => Some(*suspension),
            Self::Pending | Self::Closed { .. } => None,
        }
    }
}

/// Why a waitpoint is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum CloseReason {
    /// The condition it was part of was met.
    Satisfied,
    /// An operator resumed the execution.
    Resumed,
    /// The suspension timed out.
    TimedOut,
    /// The execution ended.
    Ended,
    /// Its own time was over.
    Expired,
    /// Someone closed it.
    ByHand {
        /// Who.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl CloseReason {
    /// The stable text.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Satisfied => "satisfied",
            Self::Resumed => "resumed",
            Self::TimedOut => "timed_out",
            Self::Ended => "ended",
            Self::Expired => "expired",
            Self::ByHand { .. } => "by_hand",
        }
    }
}

/// The first bytes of a MAC: tells tokens apart and gives none away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let mut bytes = [0; 8];
        super::signing::from_hex(&text, &mut bytes)
            .then_some(Self(bytes))
            .ok_or_else(|| de::Error::custom("not a fingerprint"))
    }
}

/// A signal as a store keeps it; its payload lies beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The execution.
    pub execution: RowId,
    /// 1, 2, 3 … in the order they came, over all runs.
    pub seq: u32,
    /// Its name for everyone.
    pub id: SignalId,
    /// The waitpoint it came to; none if it came to the execution itself.
    pub waitpoint: Option<WaitpointId>,
    /// Names it among the execution's, together with the waitpoint if it came with a token: who
    /// bears one token can not take the names of others.
    pub key: Option<String>,
    /// The run it came in.
    pub run: u32,
    /// What it says; fixed from then on.
    pub facts: SignalFacts,
    /// The suspension that it belongs to; none while it is kept for one to come.
    pub taken: Option<TakenSignal>,
}

/// Which suspension took a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenSignal {
    /// Its number.
    pub suspension: u32,
    /// Whether it brought the condition on.
    pub counted: bool,
}

/// What a signal says, except for its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalFacts {
    /// When it came.
    pub at: Timestamp,
    /// Its name.
    pub name: String,
    /// Who sent it: whom the caller named, or the token it was sent with.
    pub source: String,
    /// The key of the waitpoint it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waitpoint: Option<String>,
    /// What connects it with others, for its readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// The token it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenTrace>,
    /// What it says about an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Bytes of its payload.
    pub size: u64,
}

impl SignalFacts {
    /// The signal as a condition sees it.
    pub(crate) fn offer(&self) -> Offer<'_> {
        let approval = self.approval.as_ref();
        Offer {
            waitpoint: self.waitpoint.as_deref(),
            name: &self.name,
            source: &self.source,
            approves: approval.map(|approval| approval.approved),
            roles: match self.token {
                Some(_) => None,
                None => Some(approval.map_or(&[], |approval| &approval.roles)),
            },
        }
    }
}

/// What is remembered of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenTrace {
    /// The signing key.
    pub kid: String,
    /// By which it can be recognised.
    pub fingerprint: Fingerprint,
}

/// What someone said who was asked for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Whether they approve.
    pub approved: bool,
    /// In their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The roles they had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}
