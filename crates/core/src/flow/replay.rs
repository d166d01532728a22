//! Running what did not succeed in a flow again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cascade::{Cascade, drop_chore, is_trouble};
use super::plant::{because_of, recount};
use super::{expect_settled, flow_event, load};
use crate::chore::ChoreKind;
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::misses::Misses;
use crate::model::{
    Blocked, Code, Edge, EndReason, Error, Execution, ExecutionId, Flow, FlowId, FlowRow,
    FlowState, FlowStatus, Join, Limits, Otherwise, Outcome, Ready, Result, RowId, State, Status,
    Verdict, default_name,
};
use crate::replay::{Replayed, check_replay, reopen};
use crate::store::Tx;

/// Runs nodes of a flow again, with everything below them that did not succeed because of them.
/// What succeeded is left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// Which nodes; all that failed, expired or were cancelled when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// The flow runs again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReplayed {
    /// What it is doing.
    pub status: FlowStatus,
    /// The number of its run.
    pub run: u32,
    /// The executions that run again, by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl Command for ReplayFlow {
    const NAME: &'static str = "replay_flow";
    type Output = FlowReplayed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowReplayed> {
        let flow = load(tx, &self.namespace, self.flow)?;
        replay(tx, cx, flow, &self.nodes)
    }
}

/// Replays one member, and what did not succeed because of it.
pub(crate) fn replay_member(
    tx: &mut dyn Tx,
    cx: &Context,
    flow: FlowRow,
    node: &str,
) -> Result<Replayed> {
    let flow = tx.flow_by_row(flow)?;
    let row = flow.row;
    replay(tx, cx, flow, &[node.to_owned()])?;
    match tx.member(row, node)? {
        Some(execution) => Ok(Replayed { status: execution.status(), run: execution.run }),
        None => Err(Error::bug("a replayed member has no row")),
    }
}

/// Replays nodes of a flow by name, or all that failed.
pub(super) fn replay(
    tx: &mut dyn Tx,
    cx: &Context,
    flow: Flow,
    nodes: &[String],
) -> Result<FlowReplayed> {
    if flow.closing().is_some() {
        return Err(Error::new(
            Code::WrongState,
            format!("flow {} is being cancelled; replay it when that is done", flow.id),
        ));
    }
    expect_settled(&flow)?;
    let removal = tx.find_chore(&ChoreKind::RemoveFlow { flow: flow.row })?;
    if removal.is_some_and(|chore| chore.due_at <= cx.now) {
        return Err(Error::new(
            Code::WrongState,
            format!("flow {} is being removed; submit it anew", flow.id),
        ));
    }
    let mut graph = Graph::load(tx, &flow)?;
    let chosen = graph.choose(&flow, nodes)?;
    let open = graph.reopened(tx, &chosen)?;
    let mut misses = Misses::default();
    for row in &open {
        misses.pass(check_replay(tx, &graph.members[row]))?;
        misses.pass(tx.edges_from(*row, None, usize::MAX))?;
    }
    misses.finish()?;
    let mut cascade = Cascade::new(flow);
    restart(tx, cx, &mut cascade.flow, open.len())?;
    let mut names = BTreeMap::new();
    for row in &open {
        let mut execution = graph.members[row].clone();
        if let Some(member) = &execution.member {
            names.insert(member.node.clone(), execution.id);
        }
        graph.forget_end(tx, &mut cascade.flow, &execution)?;
        let state = match graph.join(tx, *row)? {
            Some(_) => {
                let blocked = Blocked { then: Ready::Waiting, delay: None, start_at: None };
                State::WaitingChildren(blocked)
            }
            None => State::Waiting,
        };
        execution.gated = cascade.flow.held && state == State::Waiting;
        reopen(tx, cx, &mut execution, state)?;
    }
    for mut join in graph.affected(tx, &open)? {
        join.verdict = None;
        recount(tx, &cascade, &mut join)?;
        let because = graph.members.get(&join.target).map(because_of).unwrap_or_default();
        cascade.judge(tx, cx, join, || because)?;
    }
    let run = cascade.flow.run;
    let status = cascade.finish(tx, cx)?;
    Ok(FlowReplayed { status, run, nodes: names })
}

/// Lets an ended flow begin anew.
fn restart(tx: &mut dyn Tx, cx: &Context, flow: &mut Flow, nodes: usize) -> Result<()> {
    if flow.status().is_terminal() {
        flow.state = FlowState::Open;
        flow.since = cx.now;
        flow.run += 1;
        drop_chore(tx, &ChoreKind::RemoveFlow { flow: flow.row })?;
        flow.deadline_at = flow.terms.deadline.map(|allowed| cx.now + allowed);
        if let Some(at) = flow.deadline_at {
            tx.add_chore(&ChoreKind::FlowDeadline { flow: flow.row }, at)?;
        }
    }
    let data = json!({ "nodes": nodes, "run": flow.run });
    tx.add_event(&flow_event(EventKind::FlowReplayed, cx.now, flow, Some(data)))
}

/// A flow's members, and what was read of their edges.
struct Graph {
    members: BTreeMap<RowId, Execution>,
    into: BTreeMap<RowId, Vec<Edge>>,
    joins: BTreeMap<RowId, Option<Join>>,
    /// Members that ended because the one that made them did.
    made_by: BTreeMap<RowId, Vec<RowId>>,
}

impl Graph {
    fn load(tx: &mut dyn Tx, flow: &Flow) -> Result<Self> {
        let mut members = BTreeMap::new();
        let mut after: Option<String> = None;
        loop {
            let page = tx.members(flow.row, after.as_deref(), Limits::PAGE)?;
            let last = page.last().and_then(|last| last.member.clone());
            let more = page.len() == Limits::PAGE;
            members.extend(page.into_iter().map(|execution| (execution.row, execution)));
            match last.filter(|_| more) {
                Some(last) => after = Some(last.node.clone()),
                None => break,
            }
        }
        let mut made_by = BTreeMap::<RowId, Vec<RowId>>::new();
        for execution in members.values() {
            let end = execution.state.end();
            if let Some(parent) = execution.parent
                && end.is_some_and(|end| end.reason == EndReason::ParentEnded)
            {
                made_by.entry(parent).or_default().push(execution.row);
            }
        }
        Ok(Self { members, into: BTreeMap::new(), joins: BTreeMap::new(), made_by })
    }

    fn choose(&self, flow: &Flow, nodes: &[String]) -> Result<BTreeSet<RowId>> {
        if nodes.is_empty() {
            let failed = self.members.values().filter(|execution| has_failed(execution));
            let failed: BTreeSet<RowId> = failed.map(|execution| execution.row).collect();
            if failed.is_empty() {
                return Err(Error::new(
                    Code::WrongState,
                    format!("no node of flow {} has failed; name those to run again", flow.id),
                ));
            }
            return Ok(failed);
        }
        let by_name: BTreeMap<&str, &Execution> = (self.members.values())
            .filter_map(|execution| Some((execution.member.as_ref()?.node.as_str(), execution)))
            .collect();
        let mut chosen = BTreeSet::new();
        for node in nodes {
            let Some(execution) = by_name.get(node.as_str()) else {
                return Err(Error::not_found("node", format!("`{node}` in flow {}", flow.id)));
            };
            if !execution.status().is_terminal() {
                return Err(Error::new(
                    Code::WrongState,
                    format!(
                        "node `{node}` is {}; only an ended one can be replayed",
                        execution.status()
                    ),
                ));
            }
            chosen.insert(execution.row);
        }
        Ok(chosen)
    }

    /// The chosen ones, what did not succeed below them, and what was cancelled because they were
    /// not needed any more; without what could only be skipped again.
    fn reopened(&mut self, tx: &mut dyn Tx, chosen: &BTreeSet<RowId>) -> Result<BTreeSet<RowId>> {
        let mut out = BTreeMap::<RowId, BTreeSet<RowId>>::new();
        let mut open = BTreeSet::new();
        let mut next: Vec<RowId> = chosen.iter().copied().collect();
        while !next.is_empty() {
            for (source, target) in tx.reach(&next)? {
                out.entry(source).or_default().insert(target);
            }
            let mut made = Vec::new();
            while let Some(row) = next.pop() {
                if open.insert(row) {
                    let below = out.get(&row).into_iter().flatten().copied();
                    next.extend(below.filter(|target| self.has_not_succeeded(*target)));
                    made.extend(self.made_by.get(&row).into_iter().flatten());
                }
            }
            made.retain(|row| !open.contains(row));
            next = made;
            next.extend(self.needed_again(tx, &open)?);
        }
        self.leave_out_hopeless(tx, chosen, &mut open)?;
        Ok(open)
    }

    /// Sources that were cancelled because nothing needed them, and that something open needs now.
    fn needed_again(&mut self, tx: &mut dyn Tx, open: &BTreeSet<RowId>) -> Result<Vec<RowId>> {
        let mut misses = Misses::default();
        for row in open {
            misses.pass(self.join(tx, *row))?;
        }
        misses.finish()?;
        let mut needed = Vec::new();
        for row in open {
            if self.prospect(tx, *row, open)? == Some(Verdict::Satisfied) {
                continue;
            }
            let sources = self.edges_into(tx, *row)?.iter().map(|edge| edge.source);
            let spare: Vec<RowId> = sources.filter(|source| !open.contains(source)).collect();
            needed.extend(spare.into_iter().filter(|source| self.is_not_needed(*source)));
        }
        Ok(needed)
    }

    fn leave_out_hopeless(
        &mut self,
        tx: &mut dyn Tx,
        chosen: &BTreeSet<RowId>,
        open: &mut BTreeSet<RowId>,
    ) -> Result<()> {
        loop {
            let mut hopeless = Vec::new();
            for row in open.iter().copied() {
                if self.prospect(tx, row, open)? == Some(Verdict::Impossible) {
                    hopeless.push(row);
                }
            }
            if let Some(row) = hopeless.iter().find(|row| chosen.contains(row)) {
                let execution = &self.members[row];
                let node = execution.member.as_ref().map_or("", |member| &member.node);
                return Err(Error::new(
                    Code::WrongState,
                    format!(
                        "node `{node}` would be skipped again: what it waits for has not \
                         succeeded; replay that too"
                    ),
                ));
            }
            if hopeless.is_empty() {
                return Ok(());
            }
            for row in hopeless {
                open.remove(&row);
            }
        }
    }

    /// What the sources that are not open again decide.
    fn prospect(
        &mut self,
        tx: &mut dyn Tx,
        row: RowId,
        open: &BTreeSet<RowId>,
    ) -> Result<Option<Verdict>> {
        let Some(mut join) = self.join(tx, row)? else { return Ok(Some(Verdict::Satisfied)) };
        (join.sources, join.met, join.unmet) = (0, 0, 0);
        let edges = self.edges_into(tx, row)?.clone();
        for group in edges.chunk_by(|one, other| one.source == other.source) {
            join.sources += 1;
            let source = self.members.get(&group[0].source);
            let end = source.and_then(|source| source.state.end());
            if let Some(end) = end.filter(|_| !open.contains(&group[0].source)) {
                join.count(group, end.outcome);
            }
        }
        Ok(join.judge())
    }

    /// The joins to count anew: those of what is open again, and undecided ones that wait for it.
    fn affected(&mut self, tx: &mut dyn Tx, open: &BTreeSet<RowId>) -> Result<Vec<Join>> {
        let mut affected = BTreeMap::new();
        for row in open {
            affected.extend(self.join(tx, *row)?.map(|join| (*row, join)));
        }
        let mut targets = BTreeSet::new();
        for row in open {
            targets.extend(tx.edges_from(*row, None, usize::MAX)?.iter().map(|edge| edge.target));
        }
        let mut misses = Misses::default();
        for target in targets.difference(open) {
            if let Some(Some(join)) = misses.pass(waiting_join(tx, *target))? {
                affected.insert(*target, join);
            }
        }
        misses.finish()?;
        Ok(affected.into_values().collect())
    }

    /// Takes an end back out of the flow's counts.
    fn forget_end(&self, tx: &mut dyn Tx, flow: &mut Flow, execution: &Execution) -> Result<()> {
        let Some(end) = execution.state.end() else { return Ok(()) };
        *flow.counts.of(end.outcome) -= 1;
        if is_trouble(end) {
            let edges = tx.edges_from(execution.row, None, usize::MAX)?;
            if !edges.iter().any(Edge::handles_failure) {
                flow.counts.unhandled -= 1;
            }
        }
        Ok(())
    }

    /// The edges into a node from those that come before it.
    fn edges_into(&mut self, tx: &mut dyn Tx, row: RowId) -> Result<&Vec<Edge>> {
        if !self.into.contains_key(&row) {
            let mut edges = tx.edges_into(row, false)?;
            let child = |edge: &Edge| {
                self.members.get(&edge.source).is_none_or(|source| source.parent == Some(row))
            };
            edges.retain(|edge| !child(edge));
            self.into.insert(row, edges);
        }
        Ok(&self.into[&row])
    }

    /// The join of a node that decides whether it runs at all, if it has one. A node that has
    /// waited for its children since returns to what it waited for before.
    fn join(&mut self, tx: &mut dyn Tx, row: RowId) -> Result<Option<Join>> {
        if !self.joins.contains_key(&row) {
            let mut join = tx.join(row)?;
            if let Some(Join { otherwise: Otherwise::Resume { began }, .. }) = join {
                join = join.zip(began).map(|(join, began)| Join {
                    need: began.need,
                    rest: began.rest,
                    otherwise: Otherwise::Skip,
                    ..join
                });
            }
            let has_sources = !self.edges_into(tx, row)?.is_empty();
            self.joins.insert(row, join.filter(|_| has_sources));
        }
        Ok(self.joins[&row].clone())
    }

    fn has_not_succeeded(&self, row: RowId) -> bool {
        let end = self.members.get(&row).and_then(|execution| execution.state.end());
        end.is_some_and(|end| end.outcome != Outcome::Completed)
    }

    fn is_not_needed(&self, row: RowId) -> bool {
        let end = self.members.get(&row).and_then(|execution| execution.state.end());
        end.is_some_and(|end| end.reason == EndReason::NotNeeded)
    }
}

/// The join of an execution that waits for it to be decided.
fn waiting_join(tx: &mut dyn Tx, target: RowId) -> Result<Option<Join>> {
    let execution = tx.execution(target)?;
    let waits = |target: Execution| matches!(target.state, State::WaitingChildren(_));
    let join = tx.join(target)?.filter(|join| join.verdict.is_none());
    Ok(join.filter(|_| execution.is_some_and(waits)))
}

fn has_failed(execution: &Execution) -> bool {
    let failed = matches!(execution.status(), Status::Failed | Status::Expired | Status::Cancelled);
    failed && execution.state.end().is_some_and(|end| end.reason != EndReason::NotNeeded)
}
