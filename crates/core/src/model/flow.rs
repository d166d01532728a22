use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Error, ExecutionId, FlowId, FlowRow, NamespaceId, Outcome, Policy, Result, RowId, Tags,
    Timestamp,
};

/// A flow as a store keeps it: its members, edges and joins lie beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its row.
    pub row: FlowRow,
    /// Its name for everyone else.
    pub id: FlowId,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// What sort of flow it is, for people; nothing reads it.
    pub kind: Option<String>,
    /// What it is doing.
    pub state: FlowState,
    /// Since when.
    pub since: Timestamp,
    /// Whether none of its members may be claimed until it is unheld.
    pub held: bool,
    /// 1, and one more with every replay.
    pub run: u32,
    /// How much there is of everything.
    pub counts: FlowCounts,
    /// How it was made; fixed from then on.
    pub terms: Arc<FlowTerms>,
    /// When it expires.
    pub deadline_at: Option<Timestamp>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// Its labels.
    pub tags: Arc<Tags>,
    /// The execution that made it, if one did.
    pub parent: Option<RowId>,
    /// What was asked for when it was submitted.
    pub fingerprint: [u8; 16],
}

/// What a flow is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FlowState {
    /// Members run and may be added.
    Open,
    /// It is being ended before its members are through.
    Closing(Closing),
    /// Over, until it is replayed or removed.
    Ended(FlowEnd),
}

/// How a flow is ended before its members are through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// What led to it.
    pub cause: ClosingCause,
    /// Which members are stopped.
    pub scope: CancelScope,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// How long a worker may take to stop.
    #[serde(rename = "grace_ms", with = "super::duration_ms")]
    pub grace: Duration,
    /// How many members it concerned.
    pub extent: Extent,
}

/// How many members a closing concerned when it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Members that are stopped.
    pub stopped: u64,
    /// Members that run on, to the end of their attempt or of their own accord.
    pub running: u64,
    /// Members that were over before.
    pub finished: u64,
}

impl Closing {
    /// What the flow ends as.
    pub fn outcome(&self) -> FlowOutcome {
        match self.cause {
            ClosingCause::Cancel => FlowOutcome::Cancelled,
            ClosingCause::Deadline => FlowOutcome::Expired,
            ClosingCause::MemberFailure => FlowOutcome::Failed,
        }
    }
}

/// Why a flow is ended before its members are through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosingCause {
    /// Someone cancelled it.
    Cancel,
    /// Its deadline passed.
    Deadline,
    /// A member failed, and the flow was to stop then.
    MemberFailure,
}

/// Which members of a flow a cancel stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelScope {
    /// What runs may finish its attempt; everything else is stopped.
    RunningFinish,
    /// What has never started.
    Pending,
    /// Everything that is not over.
    #[default]
    All,
}

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEnd {
    /// The terminal state.
    pub outcome: FlowOutcome,
    /// How it was closed, unless it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Closing>,
}

/// The terminal states of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOutcome {
    /// Every member is over, and no failure went unhandled.
    Completed,
    /// A member failed and nothing handled it.
    Failed,
    /// Someone stopped it.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

/// A flow's state for people; what reads show and searches ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowStatus {
    /// Members run and may be added.
    Open,
    /// No member may be claimed until it is unheld.
    Held,
    /// It is being ended before its members are through.
    Cancelling,
    /// Every member is over, and no failure went unhandled.
    Completed,
    /// A member failed and nothing handled it.
    Failed,
    /// Someone stopped it.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

impl FlowStatus {
    /// Every status, in the order of a flow's life.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Held,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Held => "held",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Codes from here on are terminal.
    pub const FIRST_TERMINAL: i64 = 10;

    /// The number a store saves.
    pub const fn code(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Held => 1,
            Self::Cancelling => 2,
            Self::Completed => 10,
            Self::Failed => 11,
            Self::Cancelled => 12,
            Self::Expired => 13,
        }
    }

    /// Whether a flow in it is over.
    pub const fn is_terminal(self) -> bool {
        self.code() >= Self::FIRST_TERMINAL
    }
}

impl std::fmt::Display for FlowStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<FlowOutcome> for FlowStatus {
    fn from(outcome: FlowOutcome) -> Self {
        match outcome {
            FlowOutcome::Completed => Self::Completed,
            FlowOutcome::Failed => Self::Failed,
            FlowOutcome::Cancelled => Self::Cancelled,
            FlowOutcome::Expired => Self::Expired,
        }
    }
}

/// How much there is of everything in a flow; equal to a recount at every commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// Members.
    pub nodes: u64,
    /// Edges; without those of members that wait for what they have made.
    pub edges: u64,
    /// Members that ended with a result.
    pub completed: u64,
    /// Members that failed.
    pub failed: u64,
    /// Members that were stopped.
    pub cancelled: u64,
    /// Members whose deadline passed.
    pub expired: u64,
    /// Members that were never to run.
    pub skipped: u64,
    /// Members that did not succeed and whose failure nothing handled.
    pub unhandled: u64,
    /// Ends and decisions whose effects are still to be worked off.
    pub unsettled: u64,
}

impl FlowCounts {
    /// Members that are over.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled + self.expired + self.skipped
    }

    /// Members that are not over.
    pub fn open(&self) -> u64 {
        self.nodes - self.ended()
    }

    pub(crate) fn of(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Completed => &mut self.completed,
            Outcome::Failed => &mut self.failed,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Expired => &mut self.expired,
            Outcome::Skipped => &mut self.skipped,
        }
    }
}

/// What is fixed when a flow is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowTerms {
    /// What a member's failure does to the others.
    pub on_member_failure: OnMemberFailure,
    /// What members inherit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// What members inherit; the flow is kept as long as its retention says.
    #[serde(skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// How long after its submission, or its replay, the flow expires.
    #[serde(rename = "deadline_ms", with = "super::option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Who submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The idempotency key it was submitted under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What a member's failure does to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMemberFailure {
    /// What depends on it is skipped, the others go on.
    #[default]
    Continue,
    /// Everything that is not over is cancelled, unless something handles the failure.
    CancelRest,
}

impl Flow {
    /// The state's name.
    pub fn status(&self) -> FlowStatus {
        match &self.state {
            FlowState::Open if self.held => FlowStatus::Held,
            FlowState::Open => FlowStatus::Open,
            FlowState::Closing(_) => FlowStatus::Cancelling,
            FlowState::Ended(end) => end.outcome.into(),
        }
    }

    /// Whether its members must not be claimed as they are: it is held or being closed.
    pub fn is_gated(&self) -> bool {
        self.held || matches!(self.state, FlowState::Closing(_))
    }

    /// Nodes and edges: changes whenever the graph does.
    pub fn revision(&self) -> u64 {
        self.counts.nodes + self.counts.edges
    }

    /// How it is being closed, if it is.
    pub fn closing(&self) -> Option<&Closing> {
        match &self.state {
            FlowState::Closing(closing) => Some(closing),
            FlowState::Open | FlowState::Ended(_) => None,
        }
    }
}

impl FlowState {
    /// How it is or was closed: with the status, all that a store saves of it.
    pub fn saved_closing(&self) -> Option<&Closing> {
        match self {
            Self::Open => None,
            Self::Closing(closing) => Some(closing),
            Self::Ended(end) => end.closing.as_ref(),
        }
    }

    /// The state of a flow with that status, [`FlowStatus::code`], and that closing.
    pub fn from_saved(code: i64, closing: Option<Closing>) -> Result<Self> {
        let status = FlowStatus::ALL.into_iter().find(|status| status.code() == code);
        let ended = |outcome, closing| Ok(Self::Ended(FlowEnd { outcome, closing }));
        match (status, closing) {
            (Some(FlowStatus::Open | FlowStatus::Held), None) => Ok(Self::Open),
            (Some(FlowStatus::Cancelling), Some(closing)) => Ok(Self::Closing(closing)),
            (Some(FlowStatus::Completed), closing) => ended(FlowOutcome::Completed, closing),
            (Some(FlowStatus::Failed), closing) => ended(FlowOutcome::Failed, closing),
            (Some(FlowStatus::Cancelled), closing) => ended(FlowOutcome::Cancelled, closing),
            (Some(FlowStatus::Expired), closing) => ended(FlowOutcome::Expired, closing),
            (_, closing) => Err(Error::bug(format!(
                "a stored flow contradicts itself: state {code}, closing {closing:?}"
            ))),
        }
    }
}

/// An execution's place in a flow; fixed from when it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The flow's row.
    pub flow: FlowRow,
    /// The flow.
    pub flow_id: FlowId,
    /// Its name within the flow.
    pub node: String,
}

/// The id of a member that was given none: the same for the same flow and name.
pub(crate) fn member_id(flow: FlowId, node: &str) -> ExecutionId {
    ExecutionId(super::id::derived(flow.0, &["member", node]))
}
