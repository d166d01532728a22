//! Looking at a flow and its nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::load;
use crate::command::{Context, Query};
use crate::event::default_page;
use crate::model::{
    Check, Closing, EdgeId, Execution, ExecutionId, Flow, FlowCounts, FlowId, FlowStatus, Limits,
    Need, OnMemberFailure, Outcome, Payload, Policy, Rest, Result, Status, Tags, Timestamp,
    Verdict, When, default_name,
};
use crate::store::{MemberCount, Read};

/// What a node was handed over from one it waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The execution it came from.
    pub execution: ExecutionId,
    /// How that ended.
    pub status: Status,
    /// Its result, if it has one that fits; `GetResult` has it in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// What its end has to say, if it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the result was left out because the answer would have become too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// What an execution is handed over, by name, as far as it fits.
pub(crate) fn bindings(
    read: &mut dyn Read,
    execution: &Execution,
    room: &mut usize,
) -> Result<BTreeMap<String, Bound>> {
    let mut bound = BTreeMap::new();
    if execution.member.is_none() && !execution.beside.children {
        return Ok(bound);
    }
    for edge in read.edges_into(execution.row, true)? {
        let Some(source) = read.execution(edge.source)? else { continue };
        let met = source.state.end().is_some_and(|end| edge.when.is_met_by(end.outcome));
        // Who made its sources sees also those that did not end as it hoped.
        let child = source.parent == Some(execution.row);
        let own = child && edge.applied && source.status().is_terminal();
        let met = met && !child;
        if let Some(name) = edge.bind.filter(|_| met || own) {
            bound.insert(name, bind_one(read, &source, room)?);
        }
    }
    Ok(bound)
}

pub(super) fn bind_one(read: &mut dyn Read, source: &Execution, room: &mut usize) -> Result<Bound> {
    let end = source.state.end();
    let completed = end.is_some_and(|end| end.outcome == Outcome::Completed);
    let result = if completed { read.result(source.row)? } else { None };
    let fits = result.as_ref().is_none_or(|result| result.bytes.len() <= *room);
    let result = result.filter(|_| fits);
    *room -= result.as_ref().map_or(0, |result| result.bytes.len());
    Ok(Bound {
        execution: source.id,
        status: source.status(),
        result,
        message: end.and_then(|end| end.message.clone()),
        left_out: !fits,
    })
}

/// Looks at a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetFlow {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub flow: FlowId,
    /// Leave out how many members are in which state: that looks at each of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
}

/// A flow as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowView {
    /// Its id.
    pub id: FlowId,
    /// Where it belongs.
    pub namespace: String,
    /// What sort of flow it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it is doing.
    pub status: FlowStatus,
    /// Since when.
    pub since: Timestamp,
    /// How it was or is being closed, if it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Closing>,
    /// 1, and one more with every replay.
    pub run: u32,
    /// Nodes and edges.
    pub revision: u64,
    /// How much there is of everything.
    pub counts: FlowCounts,
    /// Whether effects of what happened are still being worked off.
    pub settling: bool,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// What a member's failure does to the others.
    pub on_member_failure: OnMemberFailure,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What nodes inherit.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// The idempotency key it was submitted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The execution that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// Its members by state, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberCount>,
}

impl Query for GetFlow {
    const NAME: &'static str = "get_flow";
    type Output = FlowView;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<FlowView> {
        let flow = load(read, &self.namespace, self.flow)?;
        let members = if self.brief { vec![] } else { read.count_members(flow.row)? };
        Ok(FlowView { members, ..view(read, &flow)? })
    }
}

pub(super) fn view(read: &mut dyn Read, flow: &Flow) -> Result<FlowView> {
    let parent = match flow.parent {
        Some(row) => read.execution(row)?.map(|parent| parent.id),
        None => None,
    };
    let closing = match &flow.state {
        crate::FlowState::Open => None,
        crate::FlowState::Closing(closing) => Some(closing.clone()),
        crate::FlowState::Ended(end) => end.closing.clone(),
    };
    Ok(FlowView {
        id: flow.id,
        namespace: read.namespace_by_id(flow.namespace)?.name.clone(),
        kind: flow.kind.clone(),
        status: flow.status(),
        since: flow.since,
        closing,
        run: flow.run,
        revision: flow.revision(),
        counts: flow.counts,
        settling: flow.counts.unsettled > 0,
        created_at: flow.created_at,
        created_by: flow.terms.created_by.clone(),
        deadline_at: flow.deadline_at,
        on_member_failure: flow.terms.on_member_failure,
        tags: (*flow.tags).clone(),
        policy: flow.terms.policy.clone(),
        key: flow.terms.key.clone(),
        parent,
        members: vec![],
    })
}

/// Lists a flow's nodes by name, with what each waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNodes {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// From the first one after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListNodes {
    /// The first page.
    pub fn new(flow: FlowId) -> Self {
        Self { namespace: default_name(), flow, after: None, limit: Limits::PAGE }
    }
}

/// A page of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePage {
    /// The nodes, by name.
    pub nodes: Vec<NodeView>,
    /// Read on after this name; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A node as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its execution.
    pub execution: ExecutionId,
    /// Which handler does it.
    pub kind: String,
    /// What it is doing.
    pub status: Status,
    /// Whether it or the flow is held.
    pub held: bool,
    /// What its end has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinView>,
}

/// A join as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinView {
    /// How many sources it needs.
    pub need: Need,
    /// What happens to those it no longer needs.
    pub rest: Rest,
    /// Distinct sources.
    pub sources: u32,
    /// Sources whose end satisfied it.
    pub met: u32,
    /// Sources whose end did not.
    pub unmet: u32,
    /// What came of it; nothing yet if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The edges.
    pub edges: Vec<EdgeView>,
}

/// An edge as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeView {
    /// The node that is waited for.
    pub from: String,
    /// Its execution.
    pub execution: ExecutionId,
    /// Which outcome counts.
    pub when: When,
    /// Under which name the result is handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
    /// The name it was staged under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EdgeId>,
    /// Whether it was acknowledged.
    pub applied: bool,
    /// Whether it is satisfied; absent until its source is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub satisfied: Option<bool>,
    /// Whether the node has made what it waits for. Such an edge is no part of the flow's graph.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub child: bool,
}

impl Query for ListNodes {
    const NAME: &'static str = "list_nodes";
    type Output = NodePage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<NodePage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let flow = load(read, &self.namespace, self.flow)?;
        let mut members = read.members(flow.row, self.after.as_deref(), self.limit + 1)?;
        let more = members.len() > self.limit;
        members.truncate(self.limit);
        let mut nodes = Vec::with_capacity(members.len());
        for member in &members {
            nodes.push(node_view(read, member)?);
        }
        let next = nodes.last().filter(|_| more).map(|last| last.name.clone());
        Ok(NodePage { nodes, next })
    }
}

pub(super) fn node_view(read: &mut dyn Read, member: &Execution) -> Result<NodeView> {
    let routes = read.routes(member.namespace)?;
    Ok(NodeView {
        name: member.member.as_ref().map_or_else(String::new, |member| member.node.clone()),
        execution: member.id,
        kind: routes.get(member.route).map_or_else(String::new, |route| route.kind.clone()),
        status: member.status(),
        held: member.is_held(),
        message: member.state.end().and_then(|end| end.message.clone()),
        join: join_view(read, member)?,
    })
}

/// What an execution waits for.
pub(super) fn join_view(read: &mut dyn Read, target: &Execution) -> Result<Option<JoinView>> {
    let Some(join) = read.join(target.row)? else { return Ok(None) };
    let mut edges = Vec::new();
    for edge in read.edges_into(target.row, false)? {
        let Some(source) = read.execution(edge.source)? else { continue };
        let end = source.state.end();
        edges.push(EdgeView {
            from: source.member.as_ref().map_or_else(String::new, |member| member.node.clone()),
            execution: source.id,
            when: edge.when,
            bind: edge.bind,
            id: edge.id,
            applied: edge.applied,
            satisfied: end.map(|end| edge.when.is_met_by(end.outcome)),
            child: source.parent == Some(target.row),
        });
    }
    Ok(Some(JoinView {
        need: join.need,
        rest: join.rest,
        sources: join.sources,
        met: join.met,
        unmet: join.unmet,
        verdict: join.verdict,
        edges,
    }))
}
