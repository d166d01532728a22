//! What becomes of a flow, told without the engine.
//!
//! The rules, as promised to users:
//!
//! - An edge is met when its source ended as it asks: `success` = completed; `failure` = failed,
//!   expired or cancelled; `done` = over. Of several edges from one source, all must be met for a
//!   join that needs all, else one.
//! - A join is satisfied once as many distinct sources as it needs are met, impossible once the
//!   open ones can not make up for what is missing; it is decided once. Satisfied lets its node
//!   run, impossible skips it, which is an end like any other.
//! - A decided join that cancels its rest cancels each open source for which no other undecided
//!   join of an open node waits.
//! - Ends take effect in the order they happen, and for one end in the order of the nodes.
//! - A node that failed, expired or was cancelled by someone is handled when an edge out of it
//!   asks for `failure` or `done`. One that is not fails the flow; with `cancel_rest` it also
//!   cancels all that is open, and nothing else follows from anything in the flow.
//!
//! Nothing is counted on the way: whether a join is decided is found from its sources every time.

use std::collections::{BTreeSet, VecDeque};

use everloom_core::*;

/// A node of the graph, by the places of those it waits for.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) after: Option<Wait>,
    /// How long after its run began it expires, in milliseconds.
    pub(super) deadline: Option<i64>,
}

/// What a node waits for.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) need: Need,
    pub(super) of: Vec<(usize, When)>,
    pub(super) cancels_rest: bool,
}

impl Wait {
    fn sources(&self) -> BTreeSet<usize> {
        self.of.iter().map(|(source, _)| *source).collect()
    }

    fn needs(&self) -> usize {
        match self.need {
            Need::All => self.sources().len(),
            Need::Any => 1,
            Need::Count(count) => count as usize,
        }
    }

    fn is_met(&self, source: usize, outcome: Outcome) -> bool {
        let mut met =
            self.of.iter().filter(|(of, _)| *of == source).map(|(_, when)| match (when, outcome) {
                (When::Done, _) | (When::Success, Outcome::Completed) => true,
                (When::Failure, Outcome::Failed | Outcome::Expired | Outcome::Cancelled) => true,
                (When::Success | When::Failure, _) => false,
            });
        match self.need {
            Need::All => met.all(|met| met),
            Need::Any | Need::Count(_) => met.any(|met| met),
        }
    }
}

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Blocked,
    Ready,
    Active,
    Over(Outcome, Why),
}

/// Why a node is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// By itself, its worker or an operator.
    Itself,
    /// Nothing waited for it any more.
    NotNeeded,
    /// Its join was impossible, or its flow was closed.
    Flow,
}

/// What is still to take effect.
enum Effect {
    /// The end of a node.
    End(usize),
    /// A decided join that cancels its rest.
    Spare(usize),
}

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) nodes: Vec<Node>,
    pub(super) cancel_rest: bool,
    /// How long after its run began the flow expires, in milliseconds.
    pub(super) deadline: Option<i64>,
    pub(super) doing: Vec<Doing>,
    /// Nodes whose join is decided in this run.
    decided: BTreeSet<usize>,
    /// Ends that have taken effect.
    told: BTreeSet<usize>,
    /// When each node expires.
    pub(super) expires: Vec<Option<i64>>,
    pub(super) flow_expires: Option<i64>,
    /// How the flow is being closed: with what it ends.
    pub(super) closing: Option<FlowStatus>,
    pub(super) run: u32,
}

impl Model {
    pub(super) fn new(
        nodes: Vec<Node>,
        cancel_rest: bool,
        deadline: Option<i64>,
        now: i64,
    ) -> Self {
        let doing = nodes.iter().map(|node| match node.after {
            Some(_) => Doing::Blocked,
            None => Doing::Ready,
        });
        Self {
            doing: doing.collect(),
            decided: BTreeSet::new(),
            told: BTreeSet::new(),
            expires: nodes.iter().map(|node| node.deadline.map(|after| now + after)).collect(),
            flow_expires: deadline.map(|after| now + after),
            closing: None,
            run: 1,
            nodes,
            cancel_rest,
            deadline,
        }
    }

    pub(super) fn is_over(&self, node: usize) -> bool {
        matches!(self.doing[node], Doing::Over(..))
    }

    fn open(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| !self.is_over(*node)).collect()
    }

    /// What the flow should say of itself.
    pub(super) fn status(&self) -> FlowStatus {
        match (self.open().is_empty(), self.closing) {
            (false, Some(_)) => FlowStatus::Cancelling,
            (false, None) => FlowStatus::Open,
            (true, Some(closed)) => closed,
            (true, None) if self.unhandled() > 0 => FlowStatus::Failed,
            (true, None) => FlowStatus::Completed,
        }
    }

    pub(super) fn count(&self, outcome: Outcome) -> u64 {
        let is = |doing: &&Doing| matches!(doing, Doing::Over(of, _) if *of == outcome);
        self.doing.iter().filter(is).count() as u64
    }

    pub(super) fn unhandled(&self) -> u64 {
        (0..self.nodes.len()).filter(|node| self.is_unhandled(*node)).count() as u64
    }

    fn is_unhandled(&self, node: usize) -> bool {
        use Outcome::{Cancelled, Expired, Failed};
        let trouble =
            matches!(self.doing[node], Doing::Over(Failed | Cancelled | Expired, Why::Itself));
        let edges = self.nodes.iter().filter_map(|node| node.after.as_ref()).flat_map(|w| &w.of);
        trouble && !edges.into_iter().any(|(of, when)| *of == node && *when != When::Success)
    }

    /// Someone or something ends a node.
    pub(super) fn end(&mut self, node: usize, outcome: Outcome) {
        assert!(!self.is_over(node), "the model ends a node twice");
        let mut effects = VecDeque::new();
        self.over(node, outcome, Why::Itself, &mut effects);
        self.work_off(effects);
    }

    fn over(&mut self, node: usize, outcome: Outcome, why: Why, effects: &mut VecDeque<Effect>) {
        self.doing[node] = Doing::Over(outcome, why);
        effects.push_back(Effect::End(node));
    }

    fn work_off(&mut self, mut effects: VecDeque<Effect>) {
        while let Some(effect) = effects.pop_front() {
            if self.closing.is_some() {
                return;
            }
            match effect {
                Effect::End(node) => self.tell(node, &mut effects),
                Effect::Spare(target) => self.spare(target, &mut effects),
            }
        }
    }

    fn tell(&mut self, node: usize, effects: &mut VecDeque<Effect>) {
        self.told.insert(node);
        for target in 0..self.nodes.len() {
            let waits = self.nodes[target].after.as_ref();
            if waits.is_some_and(|wait| wait.sources().contains(&node)) {
                self.decide(target, effects);
            }
        }
        if self.cancel_rest && self.is_unhandled(node) {
            self.close(FlowStatus::Failed, Outcome::Cancelled, |_| true);
        }
    }

    fn is_undecided(&self, node: usize) -> bool {
        self.nodes[node].after.is_some() && !self.decided.contains(&node) && !self.is_over(node)
    }

    /// Whether the ends so far satisfy a join, or make it impossible.
    fn verdict(&self, node: usize) -> Option<bool> {
        let wait = self.nodes[node].after.as_ref()?;
        let sources = wait.sources();
        let ended = |source: &usize| match self.doing[*source] {
            Doing::Over(outcome, _) if self.told.contains(source) => Some(outcome),
            _ => None,
        };
        let met = |source: &&usize| ended(source).is_some_and(|end| wait.is_met(**source, end));
        let met = sources.iter().filter(met).count();
        let open = sources.iter().filter(|source| ended(source).is_none()).count();
        match (met >= wait.needs(), met + open < wait.needs()) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    fn decide(&mut self, node: usize, effects: &mut VecDeque<Effect>) {
        if !self.is_undecided(node) {
            return;
        }
        let Some(satisfied) = self.verdict(node) else { return };
        self.decided.insert(node);
        match satisfied {
            true => self.doing[node] = Doing::Ready,
            false => self.over(node, Outcome::Skipped, Why::Flow, effects),
        }
        if self.nodes[node].after.as_ref().is_some_and(|wait| wait.cancels_rest) {
            effects.push_back(Effect::Spare(node));
        }
    }

    fn spare(&mut self, target: usize, effects: &mut VecDeque<Effect>) {
        let sources = self.nodes[target].after.as_ref().map(Wait::sources).unwrap_or_default();
        for source in sources {
            let needed = (0..self.nodes.len()).any(|other| {
                let wait = self.nodes[other].after.as_ref();
                other != target
                    && self.is_undecided(other)
                    && wait.is_some_and(|wait| wait.sources().contains(&source))
            });
            if !needed && !self.is_over(source) {
                self.over(source, Outcome::Cancelled, Why::NotNeeded, effects);
            }
        }
    }

    fn close(&mut self, to: FlowStatus, outcome: Outcome, stops: impl Fn(Doing) -> bool) {
        self.closing = Some(to);
        for node in self.open() {
            if stops(self.doing[node]) {
                self.doing[node] = Doing::Over(outcome, Why::Flow);
            }
        }
    }

    /// An operator cancels the flow.
    pub(super) fn cancel(&mut self, scope: CancelScope) {
        // Nothing in this test goes back from active to anything that is open.
        let running = scope != CancelScope::All;
        let stops = |doing| !(running && doing == Doing::Active);
        self.close(FlowStatus::Cancelled, Outcome::Cancelled, stops);
    }

    /// Time passes.
    pub(super) fn pass(&mut self, now: i64) {
        for node in self.open() {
            if self.expires[node].is_some_and(|at| at <= now) && !self.is_over(node) {
                self.end(node, Outcome::Expired);
            }
        }
        let open = !self.open().is_empty() && self.closing.is_none();
        if open && self.flow_expires.is_some_and(|at| at <= now) {
            self.close(FlowStatus::Expired, Outcome::Expired, |_| true);
        }
    }

    /// Runs what failed again: what runs again, or nothing when that can not be.
    pub(super) fn replay(&mut self, now: i64) -> Option<BTreeSet<usize>> {
        use Outcome::{Cancelled, Expired, Failed};
        let failed = |node: &usize| matches!(self.doing[*node], Doing::Over(Failed | Cancelled | Expired, why) if why != Why::NotNeeded);
        let chosen: BTreeSet<usize> = (0..self.nodes.len()).filter(failed).collect();
        let mut again = chosen.clone();
        while let Some(next) = self.runs_too(&again) {
            again.insert(next);
        }
        // What could only be skipped again stays as it is.
        while let Some(hopeless) = again.iter().copied().find(|node| {
            let mut trial = self.reopened(&again);
            trial.doing[*node] = Doing::Blocked;
            trial.verdict(*node) == Some(false)
        }) {
            if chosen.contains(&hopeless) {
                return None;
            }
            again.remove(&hopeless);
        }
        if again.is_empty() {
            return None;
        }
        *self = self.reopened(&again);
        self.closing = None;
        self.run += 1;
        self.flow_expires = self.deadline.map(|after| now + after);
        for node in &again {
            self.expires[*node] = self.nodes[*node].deadline.map(|after| now + after);
        }
        let mut effects = VecDeque::new();
        for node in &again {
            self.decide(*node, &mut effects);
        }
        self.work_off(effects);
        Some(again)
    }

    /// One more that must run again when these do.
    fn runs_too(&self, again: &BTreeSet<usize>) -> Option<usize> {
        let trial = self.reopened(again);
        (0..self.nodes.len()).filter(|node| !again.contains(node)).find(|node| {
            let below = |node: usize| {
                let wait = self.nodes[node].after.as_ref();
                let of_these = wait.is_some_and(|wait| !wait.sources().is_disjoint(again));
                of_these && !matches!(self.doing[node], Doing::Over(Outcome::Completed, _))
            };
            let needed = |node: usize| {
                let waits = |target: &&usize| {
                    let wait = self.nodes[**target].after.as_ref();
                    wait.is_some_and(|wait| wait.sources().contains(&node))
                        && trial.verdict(**target) != Some(true)
                };
                matches!(self.doing[node], Doing::Over(_, Why::NotNeeded))
                    && again.iter().any(|target| waits(&target))
            };
            below(*node) || needed(*node)
        })
    }

    fn reopened(&self, again: &BTreeSet<usize>) -> Self {
        let mut model = self.clone();
        for node in 0..model.nodes.len() {
            if model.is_over(node) {
                model.told.insert(node);
            }
        }
        for node in again {
            model.told.remove(node);
            model.decided.remove(node);
            model.doing[*node] = match model.nodes[*node].after {
                Some(_) => Doing::Blocked,
                None => Doing::Ready,
            };
        }
        model
    }
}
