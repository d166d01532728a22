use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    EdgeId, Error, ExecutionId, FlowId, FlowRow, NamespaceId, Outcome, Policy, Result, RowId, Tags,
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

/// A dependency: the target waits for the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// What is waited for.
    pub source: RowId,
    /// What waits.
    pub target: RowId,
    /// Tells edges between the same two apart: 0, 1, 2 …
    pub ordinal: u32,
    /// The flow of the source.
    pub flow: FlowRow,
    /// Which outcome satisfies it.
    pub when: When,
    /// Under which name the target gets the source's result.
    pub bind: Option<String>,
    /// Its name, if it was staged under one.
    pub id: Option<EdgeId>,
    /// Whether it was acknowledged after it was staged, or is one that its target waits for now
    /// if the target made the source; others always are.
    pub applied: bool,
}

impl Edge {
    /// Whether a source that fails has someone who takes care of it.
    pub fn handles_failure(&self) -> bool {
        self.when.is_met_by(Outcome::Failed)
    }
}

/// Which outcome of a source satisfies an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It completed.
    #[default]
    Success,
    /// It failed, expired or was cancelled.
    Failure,
    /// It is over, however it ended; also skipped.
    Done,
}

impl When {
    /// The stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Done => "done",
        }
    }

    /// Whether that outcome satisfies it.
    pub const fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Success => matches!(outcome, Outcome::Completed),
            Self::Failure => {
                matches!(outcome, Outcome::Failed | Outcome::Expired | Outcome::Cancelled)
            }
            Self::Done => true,
        }
    }

    /// The number a store saves.
    pub const fn code(self) -> i64 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Done => 2,
        }
    }

    /// What that number means.
    pub fn from_code(code: i64) -> Result<Self> {
        match code {
            0 => Ok(Self::Success),
            1 => Ok(Self::Failure),
            2 => Ok(Self::Done),
            _ => Err(Error::bug(format!("an edge has the unknown condition {code}"))),
        }
    }
}

/// What an execution waits for: the edges into it, taken together by source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// What waits.
    pub target: RowId,
    /// How many sources it needs.
    pub need: Need,
    /// What happens to sources it no longer needs.
    pub rest: Rest,
    /// What follows when it can not be satisfied any more.
    pub otherwise: Otherwise,
    /// Distinct sources.
    pub sources: u32,
    /// Sources whose end satisfied it.
    pub met: u32,
    /// Sources whose end did not.
    pub unmet: u32,
    /// What came of it; nothing yet if absent.
    pub verdict: Option<Verdict>,
}

/// How many sources a join needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// All of them.
    #[default]
    All,
    /// One.
    Any,
    /// That many.
    Count(u32),
}

/// What happens to sources that a decided join no longer needs and that nothing else waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// They are cancelled.
    Cancel,
    /// They run on.
    Run,
}

/// What follows when a join can not be satisfied any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// The execution is skipped.
    Skip,
    /// The execution goes on and sees for itself.
    Resume {
        /// What it waited for before it started, to which a replay returns.
        began: Option<Beginning>,
    },
}

/// What an execution waited for before it started, when it has waited for its children since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// How many sources it needed.
    pub need: Need,
    /// What happened to sources it no longer needed.
    pub rest: Rest,
}

/// What came of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Enough sources ended as they should.
    Satisfied,
    /// Enough can not any more.
    Impossible,
    /// What waited ended before it was decided.
    Moot,
}

impl Join {
    /// What the counts so far decide.
    pub fn judge(&self) -> Option<Verdict> {
        let needed = match self.need {
            Need::All => self.sources,
            Need::Any => 1,
            Need::Count(count) => count,
        };
        let impossible = match needed > self.sources {
            // More sources may come as long as one of those it has is open.
            true => self.sources > 0 && self.met + self.unmet == self.sources,
            false => self.sources - self.unmet < needed,
        };
        match self.met >= needed {
            true => Some(Verdict::Satisfied),
            false => impossible.then_some(Verdict::Impossible),
        }
    }

    /// Whether it counts an edge into its execution, given who made the edge's source: an
    /// execution waits for its children, or for what comes before it, and never for both.
    pub(crate) fn counts(&self, edge: &Edge, maker: Option<RowId>) -> bool {
        let child = maker == Some(self.target);
        match self.otherwise {
            Otherwise::Skip => !child,
            Otherwise::Resume { .. } => child && edge.applied,
        }
    }

    /// Whether a source that ended so counts as met: with several edges from one source, all of
    /// them must be when all sources are needed, else one.
    pub fn is_met(&self, edges: &[Edge], outcome: Outcome) -> bool {
        let mut met = edges.iter().map(|edge| edge.when.is_met_by(outcome));
        match self.need {
            Need::All => met.all(|met| met),
            Need::Any | Need::Count(_) => met.any(|met| met),
        }
    }

    /// Counts a source that ended.
    pub(crate) fn count(&mut self, edges: &[Edge], outcome: Outcome) {
        match self.is_met(edges, outcome) {
            true => self.met += 1,
            false => self.unmet += 1,
        }
    }
}

impl Need {
    /// The number a store saves: how many, or 0 for all and -1 for any.
    pub fn code(self) -> i64 {
        match self {
            Self::All => 0,
            Self::Any => -1,
            Self::Count(count) => count.into(),
        }
    }

    /// What that number means.
    pub fn from_code(code: i64) -> Result<Self> {
        match code {
            0 => Ok(Self::All),
            -1 => Ok(Self::Any),
            _ => u32::try_from(code)
                .map(Self::Count)
                .map_err(|_| Error::bug(format!("a join has the unknown need {code}"))),
        }
    }
}

impl Rest {
    /// The number a store saves.
    pub const fn code(self) -> i64 {
        match self {
            Self::Run => 0,
            Self::Cancel => 1,
        }
    }

    /// What that number means.
    pub fn from_code(code: i64) -> Result<Self> {
        match code {
            0 => Ok(Self::Run),
            1 => Ok(Self::Cancel),
            _ => Err(Error::bug(format!("a join has the unknown rest {code}"))),
        }
    }
}

impl Otherwise {
    /// The number a store saves beside what the execution waited for before it started.
    pub const fn code(self) -> i64 {
        match self {
            Self::Skip => 0,
            Self::Resume { .. } => 1,
        }
    }

    /// What the execution waited for before it started, when it has waited for others since.
    pub const fn began(self) -> Option<Beginning> {
        match self {
            Self::Skip => None,
            Self::Resume { began } => began,
        }
    }

    /// What that number means.
    pub fn from_saved(code: i64, began: Option<Beginning>) -> Result<Self> {
        match (code, began) {
            (0, None) => Ok(Self::Skip),
            (1, began) => Ok(Self::Resume { began }),
            _ => Err(Error::bug(format!("a join has the unknown alternative {code}"))),
        }
    }
}

impl Verdict {
    /// The number a store saves.
    pub const fn code(self) -> i64 {
        match self {
            Self::Satisfied => 1,
            Self::Impossible => 2,
            Self::Moot => 3,
        }
    }

    /// What that number means.
    pub fn from_code(code: i64) -> Result<Self> {
        match code {
            1 => Ok(Self::Satisfied),
            2 => Ok(Self::Impossible),
            3 => Ok(Self::Moot),
            _ => Err(Error::bug(format!("a join has the unknown verdict {code}"))),
        }
    }
}

/// The id of a member that was given none: the same for the same flow and name.
pub(crate) fn member_id(flow: FlowId, node: &str) -> ExecutionId {
    ExecutionId(super::id::derived(flow.0, &["member", node]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(need: Need, sources: u32, met: u32, unmet: u32) -> Option<Verdict> {
        let (rest, otherwise) = (Rest::Run, Otherwise::Skip);
        let target = RowId(1);
        Join { target, need, rest, otherwise, sources, met, unmet, verdict: None }.judge()
    }

    #[test]
    fn all_needs_every_source_and_the_first_unmet_one_decides() {
        assert_eq!(join(Need::All, 3, 2, 0), None);
        assert_eq!(join(Need::All, 3, 3, 0), Some(Verdict::Satisfied));
        assert_eq!(join(Need::All, 3, 0, 1), Some(Verdict::Impossible));
    }

    #[test]
    fn a_count_is_decided_when_it_is_reached_or_can_not_be_any_more() {
        assert_eq!(join(Need::Count(2), 3, 1, 1), None);
        assert_eq!(join(Need::Count(2), 3, 2, 0), Some(Verdict::Satisfied));
        assert_eq!(join(Need::Count(2), 3, 1, 2), Some(Verdict::Impossible));
        assert_eq!(join(Need::Any, 3, 0, 2), None);
        assert_eq!(join(Need::Any, 3, 0, 3), Some(Verdict::Impossible));
    }

    #[test]
    fn a_count_beyond_the_sources_waits_for_more_of_them_until_all_are_over() {
        assert_eq!(join(Need::Count(2), 0, 0, 0), None);
        assert_eq!(join(Need::Count(2), 1, 0, 0), None);
        assert_eq!(join(Need::Count(2), 1, 1, 0), Some(Verdict::Impossible));
        assert_eq!(join(Need::Any, 0, 0, 0), None);
    }

    #[test]
    fn several_edges_from_one_source_count_as_one() {
        let edge = |when| Edge {
            source: RowId(1),
            target: RowId(2),
            ordinal: 0,
            flow: FlowRow(1),
            when,
            bind: None,
            id: None,
            applied: true,
        };
        let edges = [edge(When::Success), edge(When::Failure)];
        let of = |need| Join {
            target: RowId(2),
            need,
            rest: Rest::Run,
            otherwise: Otherwise::Skip,
            sources: 1,
            met: 0,
            unmet: 0,
            verdict: None,
        };
        assert!(!of(Need::All).is_met(&edges, Outcome::Completed));
        assert!(of(Need::Any).is_met(&edges, Outcome::Completed));
        assert!(!of(Need::Any).is_met(&edges, Outcome::Skipped));
    }
}
