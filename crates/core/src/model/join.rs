use serde::{Deserialize, Serialize};

use super::{EdgeId, Error, FlowRow, Outcome, Result, RowId};

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
    /// How many sources it needs to start.
    pub need: Need,
    /// What becomes of sources it does not need to start.
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
