//! The waitpoints of an execution.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Condition, Execution, ExecutionId, Fingerprint, Result, SuspendReason, Suspension, Tally,
    Timestamp, Waitpoint, WaitpointId, WaitpointState, default_name,
};
use crate::page::{check_page, cut};
use crate::store::Read;

/// A waitpoint as a reader sees it. Its token is not shown: only its fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointView {
    /// Its name for everyone.
    pub id: WaitpointId,
    /// The execution.
    pub execution: ExecutionId,
    /// Which handler that has.
    pub kind: String,
    /// What conditions call it.
    pub key: String,
    /// 1, 2, 3 … among the execution's.
    pub seq: u32,
    /// What it is doing.
    #[serde(flatten)]
    pub state: WaitpointState,
    /// The signing key of its token.
    pub kid: String,
    /// By which its token can be recognised.
    pub fingerprint: Fingerprint,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it closes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why the execution waits, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SuspendReason>,
    /// What those who are to answer should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When the suspension times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<Timestamp>,
    /// The names of signals that are waited for there; none means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The approvals that are asked for there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalAsked>,
}

/// An approval that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// How many different people must approve.
    pub approvers: u32,
    /// How many rejections settle it as well; with 0 none does.
    pub rejections: u32,
    /// The role they must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Who has spoken, and whether they approve.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, bool>,
}

/// The approvals a condition asks for at a waitpoint, with what was said so far.
fn asked(condition: &Condition, tally: &Tally, at: &str, found: &mut Vec<ApprovalAsked>) {
    match (condition, tally) {
        (
            Condition::Approval { waitpoint, approvers, rejections, role },
            Tally::Verdicts(verdicts),
        ) if waitpoint == at => found.push(ApprovalAsked {
            approvers: *approvers,
            rejections: *rejections,
            role: role.clone(),
            verdicts: verdicts.clone(),
        }),
        (Condition::All { of } | Condition::Any { of }, Tally::Parts(parts)) => {
            of.iter().zip(parts).for_each(|(part, tally)| asked(part, tally, at, found));
        }
        _ => {}
    }
}

/// Turns rows into views, and reads what belongs to one execution only once in a row.
#[derive(Default)]
pub(super) struct Viewer {
    execution: Option<Execution>,
    suspension: Option<Suspension>,
}

impl Viewer {
    pub(super) fn view(
        &mut self,
        read: &mut dyn Read,
        waitpoint: Waitpoint,
    ) -> Result<Option<WaitpointView>> {
        if self.execution.as_ref().is_none_or(|known| known.row != waitpoint.execution) {
            self.execution = read.execution(waitpoint.execution)?;
            self.suspension = None;
        }
        let Some(execution) = &self.execution else { return Ok(None) };
        if let WaitpointState::Active { suspension: number, .. } = waitpoint.state
            && self.suspension.as_ref().is_none_or(|known| known.number != number)
        {
            self.suspension = read.suspension(execution.row, Some(number))?;
        }
        let active = matches!(waitpoint.state, WaitpointState::Active { .. });
        let suspension = self.suspension.as_ref().filter(|_| active);
        let terms = suspension.map(|suspension| &suspension.terms);
        let mut approvals = Vec::new();
        let mut names = Vec::new();
        if let Some(Suspension { terms, course, .. }) = suspension {
            asked(&terms.condition, &course.tally, &waitpoint.key, &mut approvals);
            let wanted = terms.condition.names_at(Some(&waitpoint.key));
            names = wanted.into_iter().map(str::to_owned).collect();
        }
        let routes = read.routes(execution.namespace)?;
        let kind = routes.get(execution.route).map(|route| route.kind.clone());
        Ok(Some(WaitpointView {
            id: waitpoint.id,
            execution: execution.id,
            kind: kind.unwrap_or_default(),
            reason: terms.map(|terms| terms.reason),
            note: terms.and_then(|terms| terms.note.clone()),
            timeout_at: terms.and_then(|terms| terms.timeout_at),
            names,
            approvals,
            key: waitpoint.key,
            seq: waitpoint.seq,
            state: waitpoint.state,
            kid: waitpoint.kid,
            fingerprint: waitpoint.fingerprint,
            created_at: waitpoint.created_at,
            expires_at: waitpoint.expires_at,
        }))
    }
}

/// Lists an execution's waitpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWaitpoints {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Closed ones too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListWaitpoints {
    /// The open ones.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            closed: false,
            after: 0,
            limit: default_page(),
        }
    }
}

/// A page of waitpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitpointPage {
    /// The waitpoints, the first one first.
    pub waitpoints: Vec<WaitpointView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Query for ListWaitpoints {
    const NAME: &'static str = "list_waitpoints";
    type Output = WaitpointPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<WaitpointPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let mut found = match self.closed {
            true => read.waitpoints(execution.row, self.after, self.limit + 1)?,
            false => {
                let mut open = read.open_waitpoints(execution.row)?;
                open.retain(|one| one.seq > self.after);
                open
            }
        };
        let next = cut(&mut found, self.limit, |last| last.seq);
        let mut viewer = Viewer::default();
        let mut waitpoints = Vec::with_capacity(found.len());
        for waitpoint in found {
            waitpoints.extend(viewer.view(read, waitpoint)?);
        }
        Ok(WaitpointPage { waitpoints, next })
    }
}
