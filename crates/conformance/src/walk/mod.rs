//! A seeded random walk through everything that can be done to a few executions.

mod act;
mod check;
mod limit;
mod mail;
pub(crate) mod random;
mod stream;
mod wait;

use std::collections::{BTreeMap, HashSet};

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use check::{Seen, owned};
use limit::Passed;
use mail::Mail;
use random::Random;
use stream::Told;

const LANES: [&str; 3] = ["default", "a", "b"];
const KINDS: [&str; 3] = ["mail", "render", "report"];
const CAPABILITIES: [&str; 2] = ["gpu", "eu"];
const WORKERS: [&str; 4] = ["w0", "w1", "w2", "w3"];

/// How many executions there are at a time.
const POPULATION: usize = 30;

/// A walk under way.
pub(crate) struct Walk<'a> {
    lab: &'a mut Lab,
    random: Random,
    seed: u64,
    steps: usize,
    /// What was done last, for when it turns out to be wrong.
    deed: String,
    /// The execution whose lease was presented last, if that lease is not the current one.
    stale: Option<ExecutionId>,
    leases: Vec<Leased>,
    grants: Vec<Granted>,
    flows: Vec<FlowId>,
    tickets: Vec<(ExecutionId, Ticket)>,
    /// The first signal under each key.
    keys: BTreeMap<(ExecutionId, String), SignalId>,
    /// The kind and the result of each recorded step.
    recorded: BTreeMap<ExecutionId, BTreeMap<String, (String, Payload)>>,
    mail: BTreeMap<ExecutionId, Mail>,
    /// The limits that owned work has passed.
    passed: BTreeMap<ExecutionId, Vec<Passed>>,
    /// Those that were passed in the last step.
    fresh: Vec<Passed>,
    /// What was put out.
    streams: BTreeMap<ExecutionId, Told>,
    /// The execution that was to put something out last.
    put_out: Option<ExecutionId>,
    seen: Seen,
    cursor: From,
    terminal_events: BTreeMap<ExecutionId, u32>,
    taken: HashSet<Transition>,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, steps, deed, .. } = self;
            eprintln!("step {steps} went wrong: {deed}\nrepeat it with EVERLOOM_SEED={seed}");
        }
    }
}

impl<'a> Walk<'a> {
    pub(crate) fn new(lab: &'a mut Lab, seed: u64) -> Self {
        for lane in LANES {
            lab.ok(put_lane(lane, Defaults::default()));
        }
        let now = lab.see(ReadEvents { from: From::Now, ..ReadEvents::default() });
        let mut walk = Self {
            lab,
            random: Random::new(seed),
            seed,
            steps: 0,
            deed: String::new(),
            stale: None,
            leases: vec![],
            grants: vec![],
            flows: vec![],
            tickets: vec![],
            keys: BTreeMap::new(),
            recorded: BTreeMap::new(),
            mail: BTreeMap::new(),
            passed: BTreeMap::new(),
            fresh: vec![],
            streams: BTreeMap::new(),
            put_out: None,
            seen: Seen::new(),
            cursor: From::After(now.next),
            terminal_events: BTreeMap::new(),
            taken: HashSet::new(),
        };
        walk.make_limits();
        walk
    }

    pub(crate) fn take_steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step(Self::act);
        }
    }

    fn step(&mut self, act: impl FnOnce(&mut Self)) {
        self.steps += 1;
        self.stale = None;
        self.put_out = None;
        act(self);
        self.check();
    }

    pub(crate) fn take_steps_until_every_transition_was_taken(&mut self, most: usize) {
        while self.steps < most && !self.missing().is_empty() {
            // Every other step goes where the walk has not been yet.
            let edge = self.random.one_of(&self.missing());
            self.step(|walk| walk.follow(edge));
            self.step(Self::act);
        }
        let missing: Vec<_> = self.missing().iter().map(ToString::to_string).collect();
        assert!(missing.is_empty(), "never taken: {}", missing.join(", "));
    }

    fn missing(&self) -> Vec<&'static Transition> {
        let alone = |edge: &&Transition| {
            STATES.contains(&edge.to) && edge.from.is_none_or(|from| STATES.contains(&from))
        };
        TRANSITIONS.iter().filter(alone).filter(|edge| !self.taken.contains(edge)).collect()
    }

    /// Lets the clock end what it can and cancels the rest: nothing may be left open.
    pub(crate) fn end_everything(&mut self) {
        for lane in LANES {
            self.lab.ok(resume(lane));
            self.lab.ok(put_lane(lane, Defaults::default()));
        }
        for view in self.lab.list(ListExecutions::default()) {
            if owned(view.status) {
                self.lab.ok(RevokeLease::new(view.id));
            }
        }
        self.drain_limits();
        // Leases run out first, and the waits that follow from that second.
        self.lab.advance(hours(1));
        self.lab.advance(hours(1));
        let timed = |view: &ExecutionView| {
            matches!(view.status, Status::Active | Status::Granted | Status::Delayed)
        };
        let left = self.lab.list(ListExecutions::default());
        assert!(!left.iter().any(timed), "something sticks");
        for id in std::mem::take(&mut self.flows) {
            if self.lab.ask(get_flow(id)).is_ok_and(|flow| !flow.status.is_terminal()) {
                self.lab.ok(CancelFlow::new(id));
                self.lab.recount(id);
            }
        }
        // What was started before its flow was cancelled may wait on in it.
        for view in self.lab.list(ListExecutions::default()) {
            if !self.lab.status(view.id).is_terminal() {
                self.lab.ok(Cancel::new(view.id));
            }
        }
        assert_eq!(self.lab.counts().open(), 0);
        assert_eq!(self.lab.see(ListInbox::default()).waitpoints, []);
        self.lab.advance(days(30));
        assert_eq!(self.lab.counts().total(), 0, "retention left something");
    }
}
