//! Work that a running execution makes, and waits for without holding a lease.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cascade::{Cascade, is_trouble};
use super::chores::FlowWork;
use super::create::{NewFlow, submitted};
use super::graph::{NewNode, check_need};
use super::plan::Plan;
use super::plant::adopt;
use super::read::bind_one;
use super::replay::replay;
use super::{Bound, expect_open, expect_settled, flow_event};
use crate::cancel::{acknowledge, acknowledged};
use crate::chore::{ChoreKind, Slice};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::requeue;
use crate::lease::{Fenced, fence};
use crate::model::{
    Beginning, Blocked, Cause, Check, Code, Edge, End, EndReason, Error, Execution, ExecutionId,
    FlowId, FlowRow, Join, LeaseEnd, LeaseToken, Need, OnParentEnd, Otherwise, Outcome, Ready,
    Rest, Result, RowId, State, Verdict, When, default_name, derived,
};
use crate::store::{Read, Tx};

/// Makes executions from within a running one. Doing it again under the same step makes nothing
/// new, so that a retried handler does not do its work twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// Names this spawning among all of the execution's.
    pub step: String,
    /// What to make. In the execution's own flow they may wait for its nodes.
    pub nodes: Vec<NewNode>,
    /// Which flow they go into.
    #[serde(default)]
    pub into: SpawnInto,
}

/// Which flow new work goes into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnInto {
    /// The flow of the execution that makes it; a new one if that has none.
    #[default]
    Own,
    /// A new one.
    New,
}

/// The work is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spawned {
    /// The flow it is in.
    pub flow: FlowId,
    /// Whether an earlier call under the same step made it.
    pub repeated: bool,
    /// The executions, by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl Command for Spawn {
    const NAME: &'static str = "spawn";
    type Output = Spawned;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Spawned> {
        let mut check = Check::default();
        check.key("step", &self.step);
        check.that(!self.nodes.is_empty(), "nodes", || "name at least one".into());
        let mut parent = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        let own = match (self.into, &parent.member) {
            (SpawnInto::Own, Some(member)) => Some(member.flow),
            _ => None,
        };
        let id = match (own, &parent.member) {
            (Some(_), Some(member)) => member.flow_id,
            _ => FlowId(derived(parent.id.0, &["flow", &self.step])),
        };
        let id_of = |node: &NewNode| self.child_id(parent.id, node);
        let nodes = self.nodes.iter().map(|node| (node.name.clone(), id_of(node))).collect();
        if let Some(children) = self.made(tx, &parent, &id_of)? {
            check.finish()?;
            revive(tx, cx, &children)?;
            return Ok(Spawned { flow: id, repeated: true, nodes });
        }
        let namespace = tx.namespace_by_id(parent.namespace)?;
        let flow = own.map(|row| tx.flow_by_row(row)).transpose()?;
        if let Some(flow) = &flow {
            expect_open(flow)?;
        }
        let plan = Plan::check(tx, cx, Some(&namespace), flow.as_ref(), &self.nodes, &[], check)?;
        let (count, edges) = (self.nodes.len() as u64, plan.edge_count());
        let flow = match flow {
            Some(flow) => {
                let data = json!({ "nodes": count, "edges": edges, "by": parent.id });
                tx.add_event(&flow_event(EventKind::FlowExtended, cx.now, &flow, Some(data)))?;
                flow
            }
            None => {
                let flow = NewFlow::new().begin(tx, cx, &namespace, id, Some(parent.row))?;
                tx.add_event(&submitted(cx, &flow, count, edges))?;
                flow
            }
        };
        let mut cascade = Cascade::new(flow);
        plan.plant(tx, cx, &namespace, &mut cascade, Some(parent.row), &id_of)?;
        cascade.finish(tx, cx)?;
        if !parent.beside.children {
            parent.beside.children = true;
            tx.save(&parent)?;
        }
        Ok(Spawned { flow: id, repeated: false, nodes })
    }
}

impl Spawn {
    fn child_id(&self, parent: ExecutionId, node: &NewNode) -> ExecutionId {
        let derived = || ExecutionId(derived(parent.0, &["child", &self.step, &node.name]));
        node.execution.id.unwrap_or_else(derived)
    }

    /// What an earlier call under the same step has made.
    fn made(
        &self,
        read: &mut dyn Read,
        parent: &Execution,
        id_of: &dyn Fn(&NewNode) -> ExecutionId,
    ) -> Result<Option<Vec<Execution>>> {
        if !parent.beside.children {
            return Ok(None);
        }
        let ids: Vec<_> = self.nodes.iter().map(id_of).collect();
        let found = read.find(parent.namespace, &ids)?.into_iter().flatten();
        let own: Vec<_> = found.filter(|child| child.parent == Some(parent.row)).collect();
        Ok((!own.is_empty()).then_some(own))
    }
}

/// Runs children again that were cancelled only because the one that made them had ended: it runs
/// again, and counts on them.
fn revive(tx: &mut dyn Tx, cx: &Context, children: &[Execution]) -> Result<()> {
    let mut flows = BTreeMap::<FlowRow, Vec<String>>::new();
    for child in children {
        let end = child.state.end();
        if let Some(member) = &child.member
            && end.is_some_and(|end| end.reason == EndReason::ParentEnded)
        {
            flows.entry(member.flow).or_default().push(member.node.clone());
        }
    }
    for (row, nodes) in flows {
        let flow = tx.flow_by_row(row)?;
        if flow.closing().is_none() {
            replay(tx, cx, flow, &nodes)?;
        }
    }
    Ok(())
}

/// Waits for executions that this one has made, holding no lease meanwhile: when enough of them
/// are over it may be claimed again, with their results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitChildren {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease, which ends unless there is nothing to wait for.
    pub lease: LeaseToken,
    /// Which ones, 1 to 1000.
    pub of: Vec<ExecutionId>,
    /// How many of them.
    #[serde(default)]
    pub need: Need,
    /// Which outcome counts. When enough can not end so any more, it may be claimed again too.
    #[serde(default = "done")]
    pub when: When,
    /// What happens to those it no longer needs.
    #[serde(default = "run")]
    pub rest: Rest,
}

fn done() -> When {
    When::Done
}

fn run() -> Rest {
    Rest::Run
}

impl WaitChildren {
    /// Waits until all of them are over, however they end.
    pub fn new(lease: LeaseToken, of: impl IntoIterator<Item = ExecutionId>) -> Self {
        Self {
            namespace: default_name(),
            lease,
            of: of.into_iter().collect(),
            need: Need::All,
            when: When::Done,
            rest: Rest::Run,
        }
    }
}

/// What follows from waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WaitChildrenOutcome {
    /// It waits; the lease has ended.
    Waiting,
    /// There is nothing to wait for; the lease is held on.
    Ready {
        /// Whether enough of them ended so.
        satisfied: bool,
        /// What became of them, by name.
        children: BTreeMap<String, Bound>,
    },
    /// The execution was to be cancelled, and is.
    Cancelled,
}

impl Command for WaitChildren {
    const NAME: &'static str = "wait_children";
    type Output = WaitChildrenOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<WaitChildrenOutcome> {
        let mut of = self.of.clone();
        of.sort_unstable();
        of.dedup();
        let mut check = Check::default();
        check.batch("of", of.len());
        check_need(&mut check, "need", self.need, of.len());
        check.finish()?;
        let mut parent = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) => {
                return match past.end {
                    LeaseEnd::WaitedForChildren => Ok(WaitChildrenOutcome::Waiting),
                    end if acknowledged(&end) => Ok(WaitChildrenOutcome::Cancelled),
                    end => Err(Error::lease_lost(self.lease.execution, end.why_lost())),
                };
            }
        };
        let children = self.children(tx, &parent, &of)?;
        self.expect_settled(tx, &children)?;
        refuse_circle(tx, &parent, &children)?;
        if acknowledge(tx, cx, &mut parent)? {
            return Ok(WaitChildrenOutcome::Cancelled);
        }
        let join = self.tie(tx, &parent, &children)?;
        match join.verdict {
            None => {
                let blocked = Blocked { then: Ready::Resumable, delay: None, start_at: None };
                let state = State::WaitingChildren(blocked);
                let event = (EventKind::Blocked, Some(json!({ "children": children.len() })));
                let (end, cause) = (LeaseEnd::WaitedForChildren, Cause::WaitChildren);
                requeue(tx, cx, &mut parent, end, state, cause, event)?;
                match parent.status().is_terminal() {
                    true => Ok(WaitChildrenOutcome::Cancelled),
                    false => Ok(WaitChildrenOutcome::Waiting),
                }
            }
            Some(verdict) => {
                let mut room = cx.limits().batch_bytes;
                let mut bound = BTreeMap::new();
                for child in &children {
                    bound.insert(name_of(child), bind_one(tx, child, &mut room)?);
                }
                let satisfied = verdict == Verdict::Satisfied;
                self.cancel_rest(tx, cx, &parent, &children)?;
                Ok(WaitChildrenOutcome::Ready { satisfied, children: bound })
            }
        }
    }
}

impl WaitChildren {
    fn children(
        &self,
        read: &mut dyn Read,
        parent: &Execution,
        of: &[ExecutionId],
    ) -> Result<Vec<Execution>> {
        let mut children = Vec::with_capacity(of.len());
        for (id, found) in of.iter().zip(read.find(parent.namespace, of)?) {
            match found {
                Some(child) if child.parent == Some(parent.row) => children.push(child),
                Some(_) => {
                    return Err(Error::new(
                        Code::NotAMember,
                        format!("execution {id} was not made by {}", parent.id),
                    )
                    .with_field("of"));
                }
                None => {
                    let place = format!("{id} in namespace `{}`", self.namespace);
                    return Err(Error::not_found("execution", place).with_field("of"));
                }
            }
        }
        Ok(children)
    }

    /// An end that is still to be passed on would be counted twice.
    fn expect_settled(&self, tx: &mut dyn Tx, children: &[Execution]) -> Result<()> {
        let mut flows: Vec<_> =
            children.iter().filter_map(|child| Some(child.member.as_ref()?.flow)).collect();
        flows.sort_unstable();
        flows.dedup();
        for flow in flows {
            expect_settled(&tx.flow_by_row(flow)?)?;
        }
        Ok(())
    }

    /// Makes the parent wait for these, and for no others it has made.
    fn tie(&self, tx: &mut dyn Tx, parent: &Execution, children: &[Execution]) -> Result<Join> {
        let began = match tx.join(parent.row)? {
            Some(Join { otherwise: Otherwise::Resume { began }, .. }) => began,
            Some(Join { need, rest, .. }) => Some(Beginning { need, rest }),
            None => None,
        };
        self.untie(tx, parent, children)?;
        let mut join = Join {
            target: parent.row,
            need: self.need,
            rest: self.rest,
            otherwise: Otherwise::Resume { began },
            sources: 0,
            met: 0,
            unmet: 0,
            verdict: None,
        };
        for child in children {
            let Some(member) = &child.member else {
                return Err(Error::bug("an execution that was made by another is in no flow"));
            };
            let edge = Edge {
                source: child.row,
                target: parent.row,
                ordinal: 0,
                flow: member.flow,
                when: self.when,
                bind: Some(member.node.clone()),
                id: None,
                applied: true,
            };
            join.sources += 1;
            if let Some(end) = child.state.end() {
                join.count(std::slice::from_ref(&edge), end.outcome);
                let mut cascade = Cascade::of(tx, member.flow)?;
                let before = cascade.flow.counts;
                adopt(tx, &mut cascade, child, std::slice::from_ref(&edge))?;
                if cascade.flow.counts != before {
                    tx.save_flow(&cascade.flow)?;
                }
            }
            tx.add_edge(&edge)?;
        }
        join.verdict = join.judge();
        tx.put_join(&join)?;
        Ok(join)
    }

    /// Removes the edges of an earlier wait. One that took care of a failure stays, without being
    /// waited for: the failure is still taken care of.
    fn untie(&self, tx: &mut dyn Tx, parent: &Execution, children: &[Execution]) -> Result<()> {
        for edge in tx.edges_into(parent.row, false)? {
            let Some(source) = tx.execution(edge.source)? else { continue };
            if source.parent != Some(parent.row) {
                continue;
            }
            let again = children.iter().any(|child| child.row == source.row);
            let handled = source.state.end().is_some_and(is_trouble) && edge.handles_failure();
            match (handled, again) {
                (true, false) => tx.save_edge(&Edge { applied: false, ..edge })?,
                (true, true) => {
                    tx.drop_edge(&edge)?;
                    disown(tx, &source)?;
                }
                (false, _) => tx.drop_edge(&edge)?,
            }
        }
        Ok(())
    }

    /// Cancels those it no longer needs, of a wait that was over before it began.
    fn cancel_rest(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        parent: &Execution,
        children: &[Execution],
    ) -> Result<()> {
        let member = children.first().and_then(|child| child.member.clone());
        let Some(member) = member.filter(|_| self.rest == Rest::Cancel) else { return Ok(()) };
        let mut cascade = Cascade::of(tx, member.flow)?;
        cascade.push(FlowWork::CancelRest { target: parent.row });
        cascade.finish(tx, cx).map(drop)
    }
}

/// Takes a failure as unhandled again, whose only handler is gone.
fn disown(tx: &mut dyn Tx, source: &Execution) -> Result<()> {
    let Some(member) = &source.member else { return Ok(()) };
    let others = tx.edges_from(source.row, None, usize::MAX)?;
    if !others.iter().any(Edge::handles_failure) {
        let mut flow = tx.flow_by_row(member.flow)?;
        flow.counts.unhandled += 1;
        tx.save_flow(&flow)?;
    }
    Ok(())
}

/// Refuses to wait for what waits itself for the one that made it.
fn refuse_circle(tx: &mut dyn Tx, parent: &Execution, children: &[Execution]) -> Result<()> {
    let below = tx.reach(&[parent.row])?;
    let waits = |child: &&Execution| below.iter().any(|(_, target)| *target == child.row);
    match children.iter().find(waits) {
        Some(child) => Err(Error::new(
            Code::Cycle,
            format!("`{}` waits for {} to end, which would wait for it", name_of(child), parent.id),
        )
        .with_field("of")),
        None => Ok(()),
    }
}

/// A child's name among its siblings.
fn name_of(child: &Execution) -> String {
    child.member.as_ref().map_or_else(|| child.id.to_string(), |member| member.node.clone())
}

/// Sees to it that what an execution has made does not outlive it.
pub(crate) fn parent_ended(tx: &mut dyn Tx, cx: &Context, parent: RowId) -> Result<()> {
    tx.add_chore(&ChoreKind::CancelChildren { parent, after: None }, cx.now).map(drop)
}

/// Cancels some of what an ended execution has made.
pub(crate) fn cancel(
    tx: &mut dyn Tx,
    cx: &Context,
    parent: RowId,
    after: &mut Option<RowId>,
    rows: usize,
) -> Result<Slice> {
    // A replayed one takes up again what it has made.
    if tx.execution(parent)?.is_some_and(|parent| !parent.status().is_terminal()) {
        return Ok(Slice::Done);
    }
    let children = tx.children(parent, *after, rows)?;
    *after = children.last().map(|child| child.row);
    let more = children.len() == rows;
    let mut flows = BTreeMap::<_, Vec<Execution>>::new();
    for child in children {
        let goes_on = child.policy.on_parent_end.unwrap_or_default() == OnParentEnd::Abandon;
        if let Some(member) = child.member.clone().filter(|_| !goes_on) {
            flows.entry(member.flow).or_default().push(child);
        }
    }
    let mut misses = crate::misses::Misses::default();
    for (flow, children) in flows {
        misses.pass(cancel_in(tx, cx, flow, children))?;
    }
    misses.finish()?;
    Ok(if more { Slice::More { due_at: cx.now } } else { Slice::Done })
}

fn cancel_in(
    tx: &mut dyn Tx,
    cx: &Context,
    flow: crate::FlowRow,
    children: Vec<Execution>,
) -> Result<()> {
    let mut cascade = Cascade::of(tx, flow)?;
    for mut child in children {
        let end = End {
            outcome: Outcome::Cancelled,
            reason: EndReason::ParentEnded,
            message: Some("the execution that made it has ended".to_owned()),
            by: Some("engine".to_owned()),
        };
        let lease_end = LeaseEnd::Cancelled { acknowledged: false };
        cascade.end(tx, cx, &mut child, lease_end, end, Cause::Cancel)?;
    }
    cascade.finish(tx, cx).map(drop)
}
