//! Putting nodes and edges into a flow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::cascade::{Cascade, is_trouble};
use super::graph::{After, NewNode, default_rest};
use super::plan::Plan;
use crate::command::Context;
use crate::event::{EventKind, log};
use crate::limit;
use crate::model::{
    Blocked, Cause, Check, DelayCause, Edge, EdgeId, Error, Execution, ExecutionId, FlowRow, Join,
    Limits, Member, Namespace, Need, Otherwise, Ready, Result, RowId, State, Verdict, When,
};
use crate::store::Tx;
use crate::submit::{Place, insert};

impl Plan<'_> {
    /// Puts everything into the flow. Nothing can be claimed before all its edges exist.
    pub(super) fn plant(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        namespace: &Namespace,
        cascade: &mut Cascade,
        parent: Option<RowId>,
        id_of: &dyn Fn(&NewNode) -> ExecutionId,
    ) -> Result<Planted> {
        let mut rows: HashMap<&str, RowId> =
            self.known.iter().map(|(name, known)| (name.as_str(), known.row)).collect();
        let ended = self.known.values().filter(|known| known.status().is_terminal());
        let ended: HashMap<RowId, &Execution> = ended.map(|known| (known.row, known)).collect();
        let mut planted = Planted { ids: BTreeMap::new() };
        for node in self.nodes {
            let flow = &cascade.flow;
            let member = Member { flow: flow.row, flow_id: flow.id, node: node.name.clone() };
            let place = Place {
                member: Some(Arc::new(member)),
                parent,
                terms: Some(Arc::clone(&flow.terms)),
                gated: flow.held && node.after.is_none(),
                blocked: node.after.is_some(),
            };
            let id = id_of(node);
            let execution = insert(tx, cx, namespace, &node.execution, id, None, place)?;
            rows.insert(&node.name, execution.row);
            planted.ids.insert(node.name.clone(), execution.id);
        }
        cascade.flow.counts.nodes += self.nodes.len() as u64;
        for node in self.nodes {
            if let Some(after) = &node.after {
                let target = rows[node.name.as_str()];
                let edges = edges_into(target, after, &rows, cascade.flow.row);
                tie(tx, cx, cascade, new_join(target, after), &edges, &ended)?;
            }
        }
        for edge in self.edges {
            let new = Tie {
                source: rows[edge.from.as_str()],
                target: rows[edge.to.as_str()],
                when: edge.when,
                bind: edge.bind.clone(),
                id: None,
            };
            tie_one(tx, cx, cascade, new)?;
        }
        Ok(planted)
    }
}

/// The edges into a new node, by source.
fn edges_into(
    target: RowId,
    after: &After,
    rows: &HashMap<&str, RowId>,
    flow: FlowRow,
) -> Vec<Edge> {
    let mut ordinals = HashMap::<&str, u32>::new();
    let mut edges = Vec::with_capacity(after.of.len());
    for upstream in &after.of {
        let ordinal = ordinals.entry(&upstream.node).or_default();
        edges.push(Edge {
            source: rows[upstream.node.as_str()],
            target,
            ordinal: *ordinal,
            flow,
            when: upstream.when,
            bind: upstream.bind.clone(),
            id: None,
            applied: true,
        });
        *ordinal += 1;
    }
    edges.sort_by_key(|edge| (edge.source, edge.ordinal));
    edges
}

fn new_join(target: RowId, after: &After) -> Join {
    Join {
        target,
        need: after.need,
        rest: after.rest(),
        otherwise: Otherwise::Skip,
        sources: 0,
        met: 0,
        unmet: 0,
        verdict: None,
    }
}

/// Ties a new node to its sources, of which some may be over.
fn tie(
    tx: &mut dyn Tx,
    cx: &Context,
    cascade: &mut Cascade,
    mut join: Join,
    edges: &[Edge],
    ended: &HashMap<RowId, &Execution>,
) -> Result<()> {
    let mut because = None;
    for group in edges.chunk_by(|one, other| one.source == other.source) {
        join.sources += 1;
        if let Some(source) = ended.get(&group[0].source)
            && let Some(end) = source.state.end()
        {
            adopt(tx, cascade, source, group)?;
            join.count(group, end.outcome);
            because.get_or_insert_with(|| because_of(source));
        }
        for edge in group {
            tx.add_edge(edge)?;
        }
    }
    cascade.flow.counts.edges += edges.len() as u64;
    cascade.judge(tx, cx, join, || because.unwrap_or_default())
}

/// What was put into a flow.
pub(super) struct Planted {
    pub(super) ids: BTreeMap<String, ExecutionId>,
}

/// An edge to add between two members.
pub(super) struct Tie {
    pub(super) source: RowId,
    pub(super) target: RowId,
    pub(super) when: When,
    pub(super) bind: Option<String>,
    pub(super) id: Option<EdgeId>,
}

/// Adds an edge into a member that has not started, which waits from then on.
pub(super) fn tie_one(
    tx: &mut dyn Tx,
    cx: &Context,
    cascade: &mut Cascade,
    new: Tie,
) -> Result<()> {
    let missing = || Error::bug("a member of a flow has no row");
    let mut target = tx.execution(new.target)?.ok_or_else(missing)?;
    let source = tx.execution(new.source)?.ok_or_else(missing)?;
    let others = tx.edges_into(new.target, false)?;
    let parallel: Vec<_> = others.iter().filter(|edge| edge.source == new.source).collect();
    check_room(&others, &parallel, &new)?;
    let edge = Edge {
        source: new.source,
        target: new.target,
        ordinal: parallel.iter().map(|edge| edge.ordinal + 1).max().unwrap_or(0),
        flow: cascade.flow.row,
        when: new.when,
        bind: new.bind,
        applied: new.id.is_none(),
        id: new.id,
    };
    let mut join = match tx.join(new.target)? {
        Some(join) => join,
        None => Join {
            target: new.target,
            need: Need::All,
            rest: default_rest(Need::All),
            otherwise: Otherwise::Skip,
            sources: 0,
            met: 0,
            unmet: 0,
            verdict: None,
        },
    };
    adopt(tx, cascade, &source, std::slice::from_ref(&edge))?;
    let is_new = parallel.is_empty();
    tx.add_edge(&edge)?;
    cascade.flow.counts.edges += 1;
    match cascade.told(&source) {
        _ if !is_new => recount(tx, cascade, &mut join)?,
        Some(end) => {
            join.sources += 1;
            join.count(std::slice::from_ref(&edge), end.outcome);
        }
        None => join.sources += 1,
    }
    // A join that needs all of its sources needs the new one too.
    if join.need != Need::All && join.verdict.is_some() {
        return tx.put_join(&join);
    }
    if !matches!(target.state, State::WaitingChildren(_))
        && join.judge() != Some(Verdict::Satisfied)
    {
        block(tx, cx, &mut target)?;
    }
    cascade.judge(tx, cx, join, || because_of(&source))
}

fn check_room(others: &[Edge], parallel: &[&Edge], new: &Tie) -> Result<()> {
    let mut check = Check::default();
    let sources: BTreeSet<RowId> =
        others.iter().map(|edge| edge.source).chain([new.source]).collect();
    check.at_most("from", sources.len(), Limits::FAN_IN);
    check.at_most("from", parallel.len() + 1, Limits::PARALLEL_EDGES);
    if let Some(bind) = &new.bind {
        let taken = others.iter().any(|edge| edge.bind.as_ref() == Some(bind));
        check.that(!taken, "bind", || format!("`{bind}` is bound already"));
    }
    check.finish()
}

fn block(tx: &mut dyn Tx, cx: &Context, target: &mut Execution) -> Result<()> {
    let start_at = match &target.state {
        State::Delayed(timer) if timer.cause == DelayCause::Start => Some(timer.until),
        _ => None,
    };
    let blocked = Blocked { then: Ready::Waiting, delay: None, start_at };
    limit::gone(tx, target)?;
    target.gated = false;
    target.enter(State::WaitingChildren(blocked), Cause::Stage, cx.now);
    tx.save(target)?;
    log(tx, cx, target, EventKind::Blocked, None, None)
}

/// Counts a join anew from the edges into its execution.
pub(super) fn recount(tx: &mut dyn Tx, cascade: &Cascade, join: &mut Join) -> Result<()> {
    (join.sources, join.met, join.unmet) = (0, 0, 0);
    let edges = tx.edges_into(join.target, false)?;
    for group in edges.chunk_by(|one, other| one.source == other.source) {
        let Some(source) = tx.execution(group[0].source)? else { continue };
        if !join.counts(&group[0], source.parent) {
            continue;
        }
        join.sources += 1;
        if let Some(end) = cascade.told(&source) {
            join.count(group, end.outcome);
        }
    }
    Ok(())
}

/// Takes an ended source's failure as handled when an edge that handles it comes late.
pub(super) fn adopt(
    tx: &mut dyn Tx,
    cascade: &mut Cascade,
    source: &Execution,
    edges: &[Edge],
) -> Result<()> {
    let own = source.member.as_ref().is_some_and(|member| member.flow == cascade.flow.row);
    let trouble = source.state.end().is_some_and(is_trouble);
    if !own || !trouble || !edges.iter().any(Edge::handles_failure) {
        return Ok(());
    }
    let before = tx.edges_from(source.row, None, usize::MAX)?;
    if !before.iter().any(Edge::handles_failure) {
        cascade.flow.counts.unhandled -= 1;
    }
    Ok(())
}

pub(super) fn because_of(source: &Execution) -> String {
    let node = source.member.as_ref().map_or("", |member| &member.node);
    format!("`{node}` {}", source.status())
}
