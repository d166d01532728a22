//! What follows from the end of a member, in the transaction that ended it.
//!
//! A cascade is a queue of ends to pass on and of decided joins whose spare sources are to be
//! cancelled. It works first in, first out, level by level. What does not fit into one transaction
//! becomes chores, which later cascades of the flow queue up behind.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::json;

use super::chores::FlowWork;
use super::{close, flow_event, gate};
use crate::chore::{Chore, ChoreKind};
use crate::command::Context;
use crate::event::{EventKind, log};
use crate::finish::end_run;
use crate::limit;
use crate::misses::Misses;
use crate::model::{
    CancelScope, Cause, Closing, ClosingCause, Edge, End, EndReason, Execution, Extent, Flow,
    FlowEnd, FlowOutcome, FlowRow, FlowState, FlowStatus, Join, LeaseEnd, Member, OnMemberFailure,
    Otherwise, Outcome, Rest, Result, RowId, State, Status, Verdict,
};
use crate::store::Tx;

/// About how many joins and members one transaction looks at.
const STEPS: usize = 500;

/// How deep one transaction goes. A store that loads what is missing needs a few round trips for
/// each level.
const LEVELS: usize = 10;

/// How many edges are read at once. More than may lie between two nodes.
const PAGE: usize = 256;

/// The effects of what happens to a flow's members.
pub(crate) struct Cascade {
    pub(crate) flow: Flow,
    todo: VecDeque<Todo>,
    /// Members that ended in this transaction: their ends are counted when they are passed on.
    ended: HashSet<RowId>,
    /// Joins and members looked at.
    pub(super) steps: usize,
}

/// A piece of work.
struct Todo {
    work: FlowWork,
    /// The chore it came from.
    chore: Option<Chore>,
    /// The end to pass on, when it is known already.
    ended: Option<Ended>,
}

/// How an execution ended, as far as those who wait for it are concerned.
#[derive(Clone)]
struct Ended {
    outcome: Outcome,
    is_trouble: bool,
    member: Option<Arc<Member>>,
    maker: Option<RowId>,
}

impl Ended {
    fn of(execution: &Execution) -> Option<Self> {
        let end = execution.state.end()?;
        let (member, maker) = (execution.member.clone(), execution.parent);
        Some(Self { outcome: end.outcome, is_trouble: is_trouble(end), member, maker })
    }

    /// In words.
    fn because(&self) -> String {
        let node = self.member.as_ref().map_or("", |member| &member.node);
        format!("`{node}` {}", Status::from(self.outcome))
    }
}

impl Cascade {
    /// A cascade of a flow in which nothing has happened yet.
    pub(crate) fn of(tx: &mut dyn Tx, flow: FlowRow) -> Result<Self> {
        Ok(Self::new(tx.flow_by_row(flow)?))
    }

    pub(crate) fn new(flow: Flow) -> Self {
        Self { flow, todo: VecDeque::new(), ended: HashSet::new(), steps: 0 }
    }

    /// Takes up what chores have left.
    pub(crate) fn resume(&mut self, chores: impl IntoIterator<Item = (Chore, FlowWork)>) {
        for (chore, work) in chores {
            self.todo.push_back(Todo { work, chore: Some(chore), ended: None });
        }
    }

    /// Ends a member.
    pub(crate) fn end(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &mut Execution,
        lease_end: LeaseEnd,
        end: End,
        cause: Cause,
    ) -> Result<()> {
        let waited = matches!(execution.state, State::WaitingChildren(_)) && cause != Cause::Join;
        let trouble = is_trouble(&end);
        *self.flow.counts.of(end.outcome) += 1;
        end_run(tx, cx, execution, lease_end, end, cause)?;
        if self.flow.closing().is_some() {
            // Nothing else in the flow goes on; only one that made this may wait for it.
            if execution.parent.is_none() && !trouble {
                return Ok(());
            }
        } else if waited {
            give_up(tx, execution.row)?;
        }
        self.ended.insert(execution.row);
        let work = FlowWork::PassOn { execution: execution.row, after: None, handled: false };
        self.todo.push_back(Todo { work, chore: None, ended: Ended::of(execution) });
        Ok(())
    }

    /// How a source has ended, if those who wait for it were told.
    pub(super) fn told<'a>(&self, source: &'a Execution) -> Option<&'a End> {
        source.state.end().filter(|_| !self.ended.contains(&source.row))
    }

    pub(crate) fn push(&mut self, work: FlowWork) {
        self.todo.push_back(Todo { work, chore: None, ended: None });
    }

    /// Works off what there is, leaves the rest to chores, ends the flow if it is through, and
    /// saves it. Says what the flow is then.
    pub(crate) fn finish(mut self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowStatus> {
        self.run(tx, cx)?;
        self.forget_what_nobody_awaits(tx)?;
        self.leave_rest(tx, cx)?;
        self.roll_up(tx, cx)?;
        tx.save_flow(&self.flow)?;
        Ok(self.flow.status())
    }

    fn run(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        // What others have queued comes first.
        let fresh = self.todo.front().is_some_and(|todo| todo.chore.is_none());
        if fresh && self.flow.counts.unsettled > 0 {
            return Ok(());
        }
        for _ in 0..LEVELS {
            let mut misses = Misses::default();
            for _ in 0..self.todo.len() {
                if self.steps >= STEPS {
                    return misses.finish();
                }
                let Some(todo) = self.todo.pop_front() else { break };
                match misses.pass(self.step(tx, cx, &todo))? {
                    Some(Some(work)) => {
                        // A fan too wide for one transaction goes on before what follows from it.
                        self.todo.push_front(Todo { work, ..todo });
                        self.steps = STEPS;
                    }
                    Some(None) => self.settled(tx, todo.chore)?,
                    None => {}
                }
            }
            misses.finish()?;
        }
        Ok(())
    }

    fn settled(&mut self, tx: &mut dyn Tx, chore: Option<Chore>) -> Result<()> {
        match chore {
            Some(chore) => {
                self.flow.counts.unsettled -= 1;
                tx.drop_chore(chore.id)
            }
            None => Ok(()),
        }
    }

    /// Does one piece of work; answers with what is left of it.
    fn step(&mut self, tx: &mut dyn Tx, cx: &Context, todo: &Todo) -> Result<Option<FlowWork>> {
        match &todo.work {
            FlowWork::PassOn { execution, after, handled } => {
                let ended = match &todo.ended {
                    Some(ended) => Some(ended.clone()),
                    None => tx.execution(*execution)?.and_then(|execution| Ended::of(&execution)),
                };
                match ended {
                    Some(ended) => self.pass_on(tx, cx, *execution, &ended, *after, *handled),
                    None => Ok(None),
                }
            }
            FlowWork::CancelRest { target } => self.cancel_rest(tx, cx, *target).map(|()| None),
            FlowWork::Close { after } => close::slice(self, tx, cx, after.as_deref()),
            FlowWork::Gate { after } => gate::slice(self, tx, cx, after.as_deref()),
            FlowWork::Limit { limit, change, after } => {
                limit::attach_members(self, tx, cx, *limit, change, after.as_deref())
            }
        }
    }

    /// The next members by name, as many as there are steps left, and where to go on after them.
    pub(crate) fn members(
        &mut self,
        tx: &mut dyn Tx,
        after: Option<&str>,
    ) -> Result<(Vec<Execution>, Option<String>)> {
        let room = STEPS.saturating_sub(self.steps).max(1);
        let page = tx.members(self.flow.row, after, room)?;
        self.steps += page.len();
        let last = page.last().and_then(|last| last.member.as_ref());
        let next = last.filter(|_| page.len() == room).map(|last| last.node.clone());
        Ok((page, next))
    }

    /// Tells those who wait for an execution how it ended.
    fn pass_on(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        row: RowId,
        ended: &Ended,
        mut after: Option<RowId>,
        mut handled: bool,
    ) -> Result<Option<FlowWork>> {
        loop {
            let mut edges = tx.edges_from(row, after, PAGE)?;
            let more = edges.len() == PAGE;
            if more && let Some(last) = edges.last().map(|edge| edge.target) {
                // The last target may have more edges than were read.
                edges.retain(|edge| edge.target != last);
            }
            let mut misses = Misses::default();
            for group in edges.chunk_by(|one, other| one.target == other.target) {
                misses.pass(self.resolve(tx, cx, ended, group))?;
                self.steps += 1;
            }
            misses.finish()?;
            handled |= edges.iter().any(Edge::handles_failure);
            after = edges.last().map(|edge| edge.target);
            if !more {
                break;
            }
            if self.steps >= STEPS {
                return Ok(Some(FlowWork::PassOn { execution: row, after, handled }));
            }
        }
        self.steps += 1;
        if ended.is_trouble && !handled {
            self.flow.counts.unhandled += 1;
            self.stop_after_failure(tx, cx, ended)?;
        }
        Ok(None)
    }

    fn stop_after_failure(&mut self, tx: &mut dyn Tx, cx: &Context, failed: &Ended) -> Result<()> {
        let stops = self.flow.terms.on_member_failure == OnMemberFailure::CancelRest;
        if !stops || self.flow.state != FlowState::Open {
            return Ok(());
        }
        let closing = Closing {
            cause: ClosingCause::MemberFailure,
            scope: CancelScope::All,
            reason: Some(failed.because()),
            by: "engine".to_owned(),
            at: cx.now,
            grace: std::time::Duration::ZERO,
            extent: Extent::default(),
        };
        let closing = Closing { extent: close::extent(tx, &self.flow, &closing)?, ..closing };
        close::begin(self, tx, cx, closing)
    }

    /// Counts one source's end in the join of one target, which may decide it.
    fn resolve(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        ended: &Ended,
        edges: &[Edge],
    ) -> Result<()> {
        let Some(mut join) = tx.join(edges[0].target)? else { return Ok(()) };
        let closing = self.flow.closing().is_some() && join.otherwise == Otherwise::Skip;
        if join.verdict.is_some() || closing || !join.counts(&edges[0], ended.maker) {
            return Ok(());
        }
        join.count(edges, ended.outcome);
        self.judge(tx, cx, join, || ended.because())
    }

    /// Saves a join, and does what it decides if it does.
    pub(crate) fn judge(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        mut join: Join,
        because: impl FnOnce() -> String,
    ) -> Result<()> {
        join.verdict = join.judge();
        let Some(verdict) = join.verdict else { return tx.put_join(&join) };
        let Some(target) = tx.execution(join.target)? else { return Ok(()) };
        tx.put_join(&join)?;
        if matches!(target.state, State::WaitingChildren(_)) {
            match (verdict, join.otherwise) {
                (Verdict::Impossible, Otherwise::Skip) => self.skip(tx, cx, target, because())?,
                _ => self.release(tx, cx, target)?,
            }
        }
        if join.rest == Rest::Cancel {
            self.push(FlowWork::CancelRest { target: join.target });
        }
        Ok(())
    }

    /// Lets an execution go whose join is decided.
    fn release(&mut self, tx: &mut dyn Tx, cx: &Context, mut target: Execution) -> Result<()> {
        let State::WaitingChildren(blocked) = &target.state else { return Ok(()) };
        let state = blocked.release(cx.now);
        target.gated = match &target.member {
            Some(member) if member.flow == self.flow.row => {
                if self.flow.closing().is_some_and(|closing| close::stops(closing, &target)) {
                    // It is stopped as soon as the closing gets to it.
                    return Ok(());
                }
                self.flow.held
            }
            Some(member) if tx.is_gated(member.flow)? => tx.flow_by_row(member.flow)?.held,
            Some(_) | None => false,
        };
        target.enter(state, Cause::Join, cx.now);
        tx.save(&target)?;
        log(tx, cx, &target, EventKind::BecameReady, None, None)
    }

    fn skip(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        mut target: Execution,
        because: String,
    ) -> Result<()> {
        let end = End {
            outcome: Outcome::Skipped,
            reason: EndReason::Unreachable,
            message: Some(because),
            by: Some("engine".to_owned()),
        };
        self.end(tx, cx, &mut target, LeaseEnd::Expired, end, Cause::Join)
    }

    /// Cancels the sources of a decided join that run on for nobody.
    fn cancel_rest(&mut self, tx: &mut dyn Tx, cx: &Context, target: RowId) -> Result<()> {
        let Some(join) = tx.join(target)? else { return Ok(()) };
        let edges = tx.edges_into(target, false)?;
        let mut misses = Misses::default();
        for group in edges.chunk_by(|one, other| one.source == other.source) {
            self.steps += 1;
            misses.pass(self.cancel_unless_needed(tx, cx, &join, &group[0]))?;
        }
        misses.finish()
    }

    fn cancel_unless_needed(
        &mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        join: &Join,
        edge: &Edge,
    ) -> Result<()> {
        let Some(mut source) = tx.execution(edge.source)? else { return Ok(()) };
        if source.status().is_terminal()
            || !join.counts(edge, source.parent)
            || is_needed(tx, &source, join.target)?
        {
            return Ok(());
        }
        let of = source.member.as_ref().map(|member| member.flow);
        let end = End {
            outcome: Outcome::Cancelled,
            reason: EndReason::NotNeeded,
            message: Some("what waited for it no longer does".to_owned()),
            by: Some("engine".to_owned()),
        };
        let lease_end = LeaseEnd::Cancelled { acknowledged: false };
        if of == Some(self.flow.row) {
            return self.end(tx, cx, &mut source, lease_end, end, Cause::Cancel);
        }
        crate::finish::finish(tx, cx, &mut source, lease_end, end, Cause::Cancel)
    }

    /// Ends that are no trouble and that nobody waits for need no chore: of a wide fan there may be
    /// thousands.
    fn forget_what_nobody_awaits(&mut self, tx: &mut dyn Tx) -> Result<()> {
        let mut left = VecDeque::with_capacity(self.todo.len());
        let mut misses = Misses::default();
        for todo in std::mem::take(&mut self.todo) {
            let fresh = todo.ended.as_ref().filter(|_| todo.chore.is_none());
            let alone = match (&todo.work, fresh) {
                (FlowWork::PassOn { execution, after: None, .. }, Some(ended)) => {
                    let edges = misses.pass(tx.edges_from(*execution, None, 1))?;
                    !ended.is_trouble && edges.is_some_and(|edges| edges.is_empty())
                }
                _ => false,
            };
            if !alone {
                left.push_back(todo);
            }
        }
        self.todo = left;
        misses.finish()
    }

    fn leave_rest(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        for Todo { work, chore, .. } in std::mem::take(&mut self.todo) {
            let kind = ChoreKind::Flow { flow: self.flow.row, work };
            match chore {
                Some(chore) if chore.kind == kind => {}
                Some(chore) => tx.save_chore(&Chore { kind, ..chore })?,
                None => {
                    self.flow.counts.unsettled += 1;
                    tx.add_chore(&kind, cx.now)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the flow when everything in it is over.
    fn roll_up(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let counts = &self.flow.counts;
        if counts.open() > 0 || counts.unsettled > 0 {
            return Ok(());
        }
        let closing = match &self.flow.state {
            // One without nodes waits for its first.
            FlowState::Open if counts.nodes == 0 => return Ok(()),
            FlowState::Open => None,
            FlowState::Closing(closing) => Some(closing.clone()),
            FlowState::Ended(_) => return Ok(()),
        };
        self.end_flow(tx, cx, closing)
    }

    fn end_flow(&mut self, tx: &mut dyn Tx, cx: &Context, closing: Option<Closing>) -> Result<()> {
        let outcome = match &closing {
            Some(closing) => closing.outcome(),
            None if self.flow.counts.unhandled > 0 => FlowOutcome::Failed,
            None => FlowOutcome::Completed,
        };
        let flow = &mut self.flow;
        let counts = json!({ "counts": flow.counts, "run": flow.run });
        flow.state = FlowState::Ended(FlowEnd { outcome, closing });
        flow.since = cx.now;
        flow.held = false;
        if flow.deadline_at.is_some() {
            drop_chore(tx, &ChoreKind::FlowDeadline { flow: flow.row })?;
        }
        if let Some(kept) = flow.terms.policy.retention() {
            tx.add_chore(&ChoreKind::RemoveFlow { flow: flow.row }, cx.now + kept)?;
        }
        let kind = match outcome {
            FlowOutcome::Completed => EventKind::FlowCompleted,
            FlowOutcome::Failed => EventKind::FlowFailed,
            FlowOutcome::Cancelled => EventKind::FlowCancelled,
            FlowOutcome::Expired => EventKind::FlowExpired,
        };
        tx.add_event(&flow_event(kind, cx.now, flow, Some(counts)))
    }
}

/// A join whose execution has ended otherwise is never decided.
fn give_up(tx: &mut dyn Tx, target: RowId) -> Result<()> {
    match tx.join(target)? {
        Some(join) if join.verdict.is_none() => {
            tx.put_join(&Join { verdict: Some(Verdict::Moot), ..join })
        }
        _ => Ok(()),
    }
}

/// Whether an end is a failure that someone should handle.
pub(crate) fn is_trouble(end: &End) -> bool {
    let failed = matches!(end.outcome, Outcome::Failed | Outcome::Expired | Outcome::Cancelled);
    failed && !end.reason.is_by_flow()
}

/// Whether a join other than that of `besides` still waits for an execution.
fn is_needed(tx: &mut dyn Tx, source: &Execution, besides: RowId) -> Result<bool> {
    let mut after = None;
    loop {
        let edges = tx.edges_from(source.row, after, PAGE)?;
        for edge in edges.iter().filter(|edge| edge.target != besides) {
            let waits = |join: Join| join.verdict.is_none() && join.counts(edge, source.parent);
            if tx.join(edge.target)?.is_some_and(waits) {
                return Ok(true);
            }
        }
        match edges.last() {
            Some(last) if edges.len() == PAGE => after = Some(last.target),
            _ => return Ok(false),
        }
    }
}

/// Removes a chore, if there is one of that kind.
pub(crate) fn drop_chore(tx: &mut dyn Tx, kind: &ChoreKind) -> Result<()> {
    match tx.find_chore(kind)? {
        Some(chore) => tx.drop_chore(chore.id),
        None => Ok(()),
    }
}
