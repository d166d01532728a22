//! Random graphs, random ends in random order: the engine and an evaluator of its own must agree
//! on every node, the counters and the outcome, after every single event.

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use everloom_core::*;
use serde_json::json;

use crate::fixtures::*;
use crate::flow_lab::*;
use crate::walk::random::Random;
use crate::{Lab, Place};
use model::{Doing, Model, Node, Wait};

/// How many nodes the largest graphs have.
const LARGEST: usize = 24;

/// Up to here, what one command causes fits into its transaction whatever the graph.
const SMALL: usize = 6;

/// How many cases share a store: a long log would be read again and again.
const CASES_PER_STORE: u64 = 50;

/// Compares the engine on a store with the evaluator in so many cases, or as many as
/// `EVERLOOM_FLOW_CASES` says, from the seed `EVERLOOM_SEED` on. A case that goes wrong is tried
/// again with smaller graphs, and told with what repeats it.
pub fn flows_are_what_an_evaluator_says(open: &dyn Fn() -> Box<dyn Place>, cases: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("EVERLOOM_FLOW_CASES").unwrap_or(cases);
    let first = number("EVERLOOM_SEED").unwrap_or(1);
    let mut lab = Lab::new(open());
    for seed in first..first + cases {
        if seed % CASES_PER_STORE == 0 {
            lab = Lab::new(open());
        }
        let largest = 1 + usize::try_from(seed).unwrap_or(0) % LARGEST;
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| Case::run(&mut lab, seed, largest)))
        else {
            continue;
        };
        for size in 1..largest {
            let mut fresh = Lab::new(open());
            let smaller = catch_unwind(AssertUnwindSafe(|| Case::run(&mut fresh, seed, size)));
            if let Err(panic) = smaller {
                eprintln!("seed {seed} goes wrong with {size} nodes too");
                resume_unwind(panic);
            }
        }
        eprintln!("repeat it with EVERLOOM_SEED={seed} EVERLOOM_FLOW_CASES=1");
        resume_unwind(panic);
    }
}

/// A flow under way.
struct Case<'a> {
    lab: &'a mut Lab,
    random: Random,
    model: Model,
    graph: Graph,
    leases: Vec<Option<Leased>>,
    /// What was done, for when it turns out to be wrong.
    deeds: Vec<String>,
}

impl Drop for Case<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Model { nodes, cancel_rest, .. } = &self.model;
            eprintln!("cancel_rest: {cancel_rest}");
            for (node, new) in nodes.iter().enumerate() {
                eprintln!("{} {new:?}", name(node));
            }
            eprintln!("{}", self.deeds.join("\n"));
        }
    }
}

fn name(node: usize) -> String {
    format!("n{node:02}")
}

impl<'a> Case<'a> {
    fn run(lab: &'a mut Lab, seed: u64, size: usize) {
        let mut random = Random::new(seed);
        let nodes = draw(&mut random, size);
        let deadline = random.percent(15).then(|| time(&mut random, size, size));
        let cancel_rest = random.percent(30);
        let now = lab.now().as_millis();
        let model = Model::new(nodes, cancel_rest, deadline, now);
        let graph = lab.plant(planted(&model));
        let leases = vec![None; model.nodes.len()];
        let mut case = Self { lab, random, model, graph, leases, deeds: vec![] };
        case.compare();
        case.live();
        for _ in 0..2 {
            if case.random.percent(50) && case.replay() {
                case.live();
            }
        }
        case.lab.recount(case.graph.id);
    }

    /// Lets things happen until the flow is over.
    fn live(&mut self) {
        while !self.model.status().is_terminal() {
            self.act();
            self.lab.settle();
            self.compare();
        }
    }

    fn pick(&mut self, wanted: impl Fn(Doing) -> bool) -> Option<usize> {
        let doing = self.model.doing.iter().enumerate();
        let fit: Vec<_> = doing.filter(|(_, doing)| wanted(**doing)).map(|(n, _)| n).collect();
        (!fit.is_empty()).then(|| self.random.one_of(&fit))
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..=39 => self.claim(),
            40..=74 => self.end_some(),
            75..=84 => self.cancel_one(),
            85..=96 => self.wait(),
            _ => self.cancel_flow(),
        }
    }

    fn claim(&mut self) {
        let Some(node) = self.pick(|doing| doing == Doing::Ready) else { return self.end_some() };
        self.deeds.push(format!("claim {}", name(node)));
        let id = self.graph[&name(node)];
        let claim = ClaimExecution { lease_ttl: Limits::LEASE_MAX, ..by_id(id, "w") };
        match self.lab.ok(claim) {
            ClaimedExecution::Leased(leased) => self.leases[node] = Some(*leased),
            other => panic!("not leased: {other:?}"),
        }
        self.model.doing[node] = Doing::Active;
    }

    /// Workers complete or fail: one, or several in one transaction.
    fn end_some(&mut self) {
        let small = self.model.nodes.len() <= SMALL;
        let most = if small && self.random.percent(30) { 3 } else { 1 };
        let mut chosen = Vec::new();
        for _ in 0..most {
            chosen.extend(self.pick(|doing| doing == Doing::Active));
        }
        chosen.sort_unstable();
        chosen.dedup();
        let mut ends = Vec::new();
        for node in chosen {
            let Some(lease) = self.leases[node].clone() else { panic!("{node} has no lease") };
            let fails = self.random.percent(35);
            self.deeds.push(format!("{} {}", if fails { "fail" } else { "complete" }, name(node)));
            ends.push((node, lease, fails));
        }
        self.end_together(&ends);
    }

    fn end_together(&mut self, ends: &[(usize, Leased, bool)]) {
        let mut failed = Vec::new();
        let mut completed = Vec::new();
        for (node, lease, fails) in ends {
            match fails {
                true => {
                    let call = fail(lease, Failure::permanent("broken"));
                    failed.push((*node, self.lab.call(call)));
                }
                false => completed.push((*node, self.lab.call(complete(lease)))),
            }
        }
        let mut jobs: Vec<&mut dyn Job> = Vec::new();
        jobs.extend(failed.iter_mut().map(|(_, call)| call as &mut dyn Job));
        jobs.extend(completed.iter_mut().map(|(_, call)| call as &mut dyn Job));
        self.lab.batch(&mut jobs);
        let failed = failed
            .into_iter()
            .map(|(node, call)| (node, Outcome::Failed, call.into_answer().map(drop)));
        let completed = completed
            .into_iter()
            .map(|(node, call)| (node, Outcome::Completed, call.into_answer().map(drop)));
        let answers: Vec<_> = failed.chain(completed).collect();
        for (node, outcome, answer) in answers {
            // Who comes second may find that the first one's end has ended it.
            assert_eq!(answer.is_ok(), !self.model.is_over(node), "{} {answer:?}", name(node));
            if answer.is_ok() {
                self.model.end(node, outcome);
            }
        }
    }

    fn cancel_one(&mut self) {
        let Some(node) = self.pick(|doing| !matches!(doing, Doing::Over(..))) else { return };
        self.deeds.push(format!("cancel {}", name(node)));
        self.lab.ok(force_cancel(self.graph[&name(node)]));
        self.model.end(node, Outcome::Cancelled);
    }

    /// Lets time pass up to the next deadline, if there is one.
    fn wait(&mut self) {
        let now = self.lab.now().as_millis();
        let open = |(node, at): (usize, &Option<i64>)| at.filter(|_| !self.model.is_over(node));
        let nodes = self.model.expires.iter().enumerate().filter_map(open);
        let next = nodes.chain(self.model.flow_expires).filter(|at| *at > now).min();
        let Some(next) = next else { return self.end_some() };
        self.deeds.push(format!("wait {} ms", next - now));
        self.lab.advance(Duration::from_millis(u64::try_from(next - now).unwrap_or(0)));
        self.model.pass(next);
    }

    fn cancel_flow(&mut self) {
        use CancelScope::{All, Pending, RunningFinish};
        if self.model.closing.is_some() {
            return;
        }
        let scope = self.random.one_of(&[All, Pending, RunningFinish]);
        self.deeds.push(format!("cancel the flow, {scope:?}"));
        let answer = self.lab.ok(cancel_flow(self.graph.id, scope));
        let before = self.model.clone();
        self.model.cancel(scope);
        let stopped = (0..before.nodes.len())
            .filter(|node| !before.is_over(*node) && self.model.is_over(*node))
            .count();
        let finished = (0..before.nodes.len()).filter(|node| before.is_over(*node)).count();
        let running = before.nodes.len() - stopped - finished;
        assert_eq!(
            answer.extent,
            Extent { stopped: stopped as u64, running: running as u64, finished: finished as u64 }
        );
    }

    /// Runs what failed again; says whether it does.
    fn replay(&mut self) -> bool {
        self.deeds.push("replay".to_owned());
        let now = self.lab.now().as_millis();
        let answer = self.lab.apply(replay_flow(self.graph.id, []));
        let before = self.model.clone();
        match (self.model.replay(now), answer) {
            (Some(again), Ok(replayed)) => {
                let nodes: Vec<_> = again.iter().map(|node| name(*node)).collect();
                let told: Vec<_> = replayed.nodes.into_keys().collect();
                assert_eq!(told, nodes, "what runs again");
                self.lab.settle();
                self.compare();
                true
            }
            (None, Err(error)) if error.code() == Code::WrongState => {
                self.model = before;
                false
            }
            (expected, answer) => panic!("expected {expected:?} to run again, got {answer:?}"),
        }
    }

    fn compare(&mut self) {
        let view = self.lab.flow(self.graph.id);
        let expected = self.model.doing.iter().enumerate().map(|(node, doing)| {
            let status = match doing {
                Doing::Blocked => Status::WaitingChildren,
                Doing::Ready => Status::Waiting,
                Doing::Active => Status::Active,
                Doing::Over(outcome, _) => (*outcome).into(),
            };
            format!("{}:{status}", name(node))
        });
        let expected: Vec<_> = expected.collect();
        assert_eq!(self.lab.states(self.graph.id), expected.join(" "));
        let edges = self.model.nodes.iter().filter_map(|node| node.after.as_ref());
        let counts = FlowCounts {
            nodes: self.model.nodes.len() as u64,
            edges: edges.map(|wait| wait.of.len() as u64).sum(),
            completed: self.model.count(Outcome::Completed),
            failed: self.model.count(Outcome::Failed),
            cancelled: self.model.count(Outcome::Cancelled),
            expired: self.model.count(Outcome::Expired),
            skipped: self.model.count(Outcome::Skipped),
            unhandled: self.model.unhandled(),
            unsettled: 0,
        };
        assert_eq!(view.counts, counts);
        assert_eq!((view.status, view.run), (self.model.status(), self.model.run));
    }
}

/// A moment of which there is only one: nodes and the flow never expire at the same time.
fn time(random: &mut Random, place: usize, size: usize) -> i64 {
    let round = i64::try_from(1 + random.below(20)).unwrap_or(1);
    let (place, size) = (i64::try_from(place).unwrap_or(0), i64::try_from(size).unwrap_or(0));
    round * (size + 1) + place
}

/// Draws a graph: nodes wait for some of those before them.
fn draw(random: &mut Random, size: usize) -> Vec<Node> {
    let density = 1 + random.below(4);
    (0..size)
        .map(|place| {
            let deadline = random.percent(25).then(|| time(random, place, size));
            Node { after: wait(random, place, density), deadline }
        })
        .collect()
}

fn wait(random: &mut Random, place: usize, density: u64) -> Option<Wait> {
    if place == 0 || random.percent(20) {
        return None;
    }
    let edges = 1 + random.below(density + 1);
    let mut of = Vec::new();
    for _ in 0..edges {
        use When::{Done, Failure, Success};
        let when = random.one_of(&[Success, Success, Success, Failure, Done]);
        of.push((random.index(place), when));
    }
    let mut sources: Vec<_> = of.iter().map(|(source, _)| *source).collect();
    sources.sort_unstable();
    sources.dedup();
    let need = match random.below(3) {
        0 => Need::All,
        1 => Need::Any,
        _ => Need::Count(1 + u32::try_from(random.index(sources.len())).unwrap_or(0)),
    };
    Some(Wait { need, of, cancels_rest: random.percent(50) })
}

/// The same graph as it is submitted.
fn planted(model: &Model) -> NewFlow {
    let nodes = model.nodes.iter().enumerate().map(|(place, drawn)| {
        let mut new = work();
        if let Some(deadline) = drawn.deadline {
            new = new.policy(policy(json!({ "deadline_ms": deadline })));
        }
        let mut node = NewNode::new(name(place), new);
        node.after = drawn.after.as_ref().map(|wait| After {
            need: wait.need,
            of: (wait.of.iter())
                .map(|(source, when)| Upstream { node: name(*source), when: *when, bind: None })
                .collect(),
            rest: Some(if wait.cancels_rest { Rest::Cancel } else { Rest::Run }),
        });
        node
    });
    let mut new = flow(nodes);
    if model.cancel_rest {
        new = new.cancel_rest_on_failure();
    }
    new.deadline =
        model.deadline.map(|after| Duration::from_millis(u64::try_from(after).unwrap_or(1)));
    new
}
