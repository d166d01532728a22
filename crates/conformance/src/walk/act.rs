use std::fmt::Debug;

use everloom_core::*;
use serde_json::json;

use super::{CAPABILITIES, KINDS, LANES, POPULATION, WORKERS, Walk};
use crate::fixtures::*;
use crate::flow_lab::*;

const OPEN: [Status; 7] = [
    Status::Waiting,
    Status::Resumable,
    Status::Delayed,
    Status::Granted,
    Status::Active,
    Status::Suspended,
    Status::RateLimited,
];

/// More than so many executions slow the walk down: every step looks at all of them.
const CROWD: usize = 3 * POPULATION;

/// How often one execution is replayed.
const MAX_REPLAYS: u32 = 4;

/// How many leases and grants are remembered for late calls.
const MEMORY: usize = 40;

/// Whether time alone leads along such an edge.
fn is_time(cause: Cause) -> bool {
    use Cause::{Deadline, Due, GrantLapsed, LeaseExpired, SuspensionTimeout};
    matches!(cause, Deadline | Due | GrantLapsed | LeaseExpired | SuspensionTimeout)
}

impl Walk<'_> {
    /// Does one thing: a single command, or a moment that passes.
    pub(super) fn act(&mut self) {
        // Now and then something else, because lanes that drain take nothing new.
        let few = self.seen.len() < POPULATION;
        if self.seen.is_empty() || (few && self.random.percent(90)) {
            return self.submit();
        }
        if self.seen.len() > CROWD && self.random.percent(20) {
            return self.make_room();
        }
        match self.random.below(130) {
            120.. => self.change_limits(),
            100.. => self.answer(),
            0..=3 => self.submit(),
            4 => self.submit_flow(),
            5..=19 => self.claim(),
            20..=29 => self.claim_by_id(),
            30..=36 => self.redeem(),
            37..=64 => self.call_as_worker(),
            65..=83 => self.operate(),
            84 => self.change_flow(),
            85..=86 => self.change_lane(),
            87..=89 => self.change_worker(),
            _ => self.let_time_pass(),
        }
    }

    /// Removes something that is over.
    fn make_room(&mut self) {
        match self.flows.is_empty() || self.random.percent(30) {
            true => {
                let id = self.any_in(Status::is_terminal);
                self.apply(delete(id));
            }
            false => {
                let id = self.random.one_of(&self.flows);
                self.apply(delete_flow(id));
            }
        }
    }

    /// Does what leads along an edge, if something stands where it begins.
    pub(super) fn follow(&mut self, edge: &Transition) {
        let then = match edge.to {
            Status::Waiting => Some(false),
            Status::Resumable => Some(true),
            _ => None,
        };
        let stands_there = |view: &&ExecutionView| {
            let interrupted = view.axes.attempt_state == Attempt::AttemptInterrupted;
            Some(view.status) == edge.from && then.is_none_or(|then| then == interrupted)
        };
        let there: Vec<_> =
            self.seen.values().filter(stands_there).map(|view| (view.id, view.due_at)).collect();
        if there.is_empty() {
            return self.act();
        }
        match (edge.cause, self.random.one_of(&there)) {
            (Cause::Pause, _) => self.breach_what_pauses(),
            (Cause::Hold, (id, _)) => drop(self.apply(hold(id))),
            (Cause::WorkerGone, (id, _)) => {
                let owner = self.seen[&id].worker.clone().unwrap_or_default();
                self.apply(mark_dead(&owner));
            }
            (cause, (_, Some(due_at))) if is_time(cause) && due_at > self.lab.now() => {
                self.lab.set_clock(due_at);
                self.apply(Tick::default());
            }
            _ => self.act(),
        }
    }

    pub(super) fn apply<C: Command + Debug>(&mut self, command: C) -> Option<C::Output> {
        self.try_to(command).ok()
    }

    pub(super) fn try_to<C: Command + Debug>(&mut self, command: C) -> Result<C::Output> {
        self.deed = format!("{command:?}");
        let answer = self.lab.apply(command);
        if let Err(error) = &answer {
            assert_ne!(error.code(), Code::Internal, "{error}");
            self.deed = format!("{}, refused: {error}", self.deed);
        }
        answer
    }

    fn any(&mut self) -> ExecutionId {
        let index = self.random.index(self.seen.len());
        *self.seen.keys().nth(index).expect("there are executions")
    }

    pub(super) fn any_in(&mut self, wanted: impl Fn(Status) -> bool) -> ExecutionId {
        let fit: Vec<_> =
            self.seen.values().filter(|view| wanted(view.status)).map(|view| view.id).collect();
        match fit.is_empty() {
            true => self.any(),
            false => self.random.one_of(&fit),
        }
    }

    fn submit(&mut self) {
        let random = &mut self.random;
        let mut new = NewExecution::new(random.one_of(&KINDS))
            .lane(random.one_of(&LANES))
            .priority(random.one_of(&[0, 1000, 9000]));
        if random.percent(30) {
            new.capabilities = random.some_of(&CAPABILITIES);
        }
        if random.percent(30) {
            new = new.delay(secs(random.below(40)));
        }
        if random.percent(60) {
            new = new.deadline_at(self.lab.now() + secs(1 + random.below(90)));
        }
        if random.percent(10) {
            new = new.hold();
        }
        if random.percent(20) {
            new = new.key(format!("key-{}", random.below(20)));
        }
        if random.percent(20) {
            new = new.id(id(u32::try_from(random.below(60)).unwrap_or(0)));
        }
        new.policy = policy(json!({
            "max_reclaims": random.below(3),
            "max_replays": MAX_REPLAYS,
            "retry": { "max_retries": random.below(3) },
        }));
        new.policy.attempt_timeout = random.percent(30).then(|| secs(1 + random.below(40)));
        if random.percent(30) {
            new = new.tag("a", random.one_of(&["1", "2"]));
        }
        let Policy { quotas, budgets, concurrency_key, .. } = self.limits();
        new.policy = Policy { quotas, budgets, concurrency_key, ..new.policy };
        self.apply(submit([new]));
    }

    /// Two to four nodes, each of which may wait for some of those before it.
    fn submit_flow(&mut self) {
        let random = &mut self.random;
        let mut nodes = Vec::new();
        for place in 0..2 + random.index(3) {
            let name = |place: usize| format!("n{place}");
            let new = NewExecution::new(random.one_of(&KINDS)).lane(random.one_of(&LANES));
            let mut node = NewNode::new(name(place), new);
            if place > 0 && random.percent(80) {
                let of: Vec<_> = (0..place).filter(|_| random.percent(70)).map(name).collect();
                let after = if random.percent(50) { After::all(of) } else { After::any(of) };
                node.after = Some(after).filter(|after| !after.of.is_empty());
            }
            nodes.push(node);
        }
        let mut new = flow(nodes);
        new.hold = random.percent(10);
        new.deadline = random.percent(20).then(|| secs(1 + random.below(60)));
        if random.percent(30) {
            new = new.cancel_rest_on_failure();
        }
        if let Some(submitted) = self.apply(submit_flow(new)) {
            self.flows.push(submitted.id);
        }
    }

    fn change_flow(&mut self) {
        let Some(id) = (!self.flows.is_empty()).then(|| self.random.one_of(&self.flows)) else {
            return self.submit_flow();
        };
        use CancelScope::{All, Pending, RunningFinish};
        match self.random.below(6) {
            0 => drop(self.apply(hold_flow(id))),
            1 => drop(self.apply(unhold_flow(id))),
            2 => {
                let scope = self.random.one_of(&[All, Pending, RunningFinish]);
                self.apply(cancel_flow(id, scope));
            }
            3..=4 => drop(self.apply(replay_flow(id, []))),
            _ => drop(self.apply(delete_flow(id))),
        }
    }

    fn claim(&mut self) {
        let random = &mut self.random;
        let mut lanes = random.some_of(&LANES);
        if random.percent(50) {
            lanes.reverse();
        }
        let claim = Claim {
            lanes,
            kinds: random.some_of(&KINDS),
            capabilities: random.some_of(&CAPABILITIES),
            max: 1 + random.index(3),
            lease_ttl: secs(1 + random.below(40)),
            reserve: random.percent(30).then(|| secs(1 + random.below(20))),
            ..Claim::new(random.one_of(&WORKERS))
        };
        let (kinds, capabilities) = (claim.kinds.clone(), claim.capabilities.clone());
        let Some(claimed) = self.apply(claim) else { return };
        for lease in &claimed.leases {
            assert!(kinds.is_empty() || kinds.contains(&lease.kind));
            let needed = &self.seen[&lease.id()].capabilities;
            assert!(needed.iter().all(|token| capabilities.contains(token)));
            self.check_lease(lease);
        }
        self.leases.extend(claimed.leases);
        self.grants.extend(claimed.grants);
        self.forget();
    }

    fn claim_by_id(&mut self) {
        // Work to be resumed is rare, and much can happen to it.
        let wanted = self.random.one_of(&[Status::Resumable, Status::Waiting]);
        let id = self.any_in(|status| status == wanted);
        let random = &mut self.random;
        let claim = ClaimExecution {
            capabilities: CAPABILITIES.map(str::to_owned).into(),
            lease_ttl: secs(1 + random.below(40)),
            reserve: random.percent(50).then(|| secs(1 + random.below(20))),
            ..by_id(id, random.one_of(&WORKERS))
        };
        match self.apply(claim) {
            Some(ClaimedExecution::Leased(lease)) => {
                self.check_lease(&lease);
                self.leases.push(*lease);
            }
            Some(ClaimedExecution::Granted(grant)) => self.grants.push(grant),
            Some(ClaimedExecution::Refused { .. }) | None => {}
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.leases.drain(..self.leases.len().saturating_sub(MEMORY));
        self.grants.drain(..self.grants.len().saturating_sub(MEMORY));
    }

    fn redeem(&mut self) {
        if self.grants.is_empty() {
            return self.claim_by_id();
        }
        let index = self.random.index(self.grants.len());
        let granted = self.grants[index].clone();
        if let Some(lease) = self.apply(redeem(&granted)) {
            self.leases.push(lease);
            self.forget();
        }
    }

    fn call_as_worker(&mut self) {
        if self.leases.is_empty() {
            return self.claim();
        }
        if self.random.percent(10) {
            return self.renew_every_lease();
        }
        let mut lease = self.lease();
        if self.random.percent(5) {
            lease.lease.secret = Secret::new([9; 16]);
            self.stale = Some(lease.id());
        }
        let current = self.seen.get(&lease.id()).map(|view| view.epoch);
        if current != Some(lease.lease.epoch) {
            self.stale = Some(lease.id());
        }
        let time = secs(self.random.below(30));
        match self.random.below(20) {
            15..=18 => self.append(&lease),
            19 => self.close_stream(&lease),
            10..=12 => self.suspend(&lease),
            13 => self.create_waitpoint(&lease),
            14 => self.record_step(&lease),
            0 => drop(self.apply(renew(&lease))),
            1 => drop(self.apply(progress(&lease))),
            2..=3 => drop(self.apply(complete(&lease))),
            4 => drop(self.apply(retry_after(&lease, secs(0)))),
            5 => self.fail(&lease),
            6 => drop(self.apply(delay(&lease, time))),
            7..=8 => drop(self.apply(delay(&lease, secs(0)))),
            _ if self.random.percent(70) => drop(self.apply(release(&lease))),
            _ => drop(self.apply(acknowledge(&lease))),
        }
    }

    /// A lease that is held, most of the time.
    pub(super) fn lease(&mut self) -> Leased {
        let current = |lease: &&Leased| {
            self.seen.get(&lease.id()).is_some_and(|view| view.epoch == lease.lease.epoch)
        };
        let held: Vec<_> = self.leases.iter().filter(current).collect();
        let some = match held.is_empty() || self.random.percent(30) {
            true => self.leases.iter().collect(),
            false => held,
        };
        some[self.random.index(some.len())].clone()
    }

    fn fail(&mut self, lease: &Leased) {
        use FailureClass::{Infrastructure, Permanent, Timeout, Transient};
        let class = self.random.one_of(&[Transient, Infrastructure, Timeout, Permanent]);
        self.apply(fail(lease, failure(class)));
    }

    /// Presents every lease there ever was on one execution: at most one is held.
    fn renew_every_lease(&mut self) {
        let index = self.random.index(self.leases.len());
        let id = self.leases[index].id();
        let mut leases: Vec<_> = self
            .leases
            .iter()
            .map(|one| one.lease.clone())
            .filter(|one| one.execution == id)
            .collect();
        leases.sort_by_key(|lease| lease.epoch);
        leases.dedup();
        let renew = Renew { namespace: ns(), leases, ttl: None };
        if let Some(renewed) = self.apply(renew) {
            let held = |renewal: &&Renewal| matches!(renewal, Renewal::Renewed { .. });
            let holders = renewed.leases.iter().filter(held).count();
            assert!(holders <= 1, "{id} has {holders} owners");
        }
    }

    fn operate(&mut self) {
        match self.random.below(20) {
            0..=2 => {
                let open = self.random.one_of(&OPEN);
                let id = self.any_in(|status| status == open);
                let grace = secs(self.random.below(30));
                self.apply(Cancel { grace, ..Cancel::new(id) });
            }
            3 => {
                let id = self.any();
                self.apply(force_cancel(id));
            }
            4..=6 => {
                let owned = self.random.one_of(&[Status::Active, Status::Granted]);
                let id = self.any_in(|status| status == owned);
                self.apply(RevokeLease::new(id));
            }
            7..=8 => {
                let wanted = self.random.one_of(&[Status::Granted, Status::RateLimited]);
                let id = self.any_in(|status| status == wanted);
                self.apply(hold(id));
            }
            9 => {
                let id = self.any();
                self.apply(hold(id));
            }
            10..=12 => {
                let held: Vec<_> =
                    self.seen.values().filter(|view| view.held).map(|view| view.id).collect();
                let id = if held.is_empty() { self.any() } else { self.random.one_of(&held) };
                self.apply(unhold(id));
            }
            13 => {
                let id = self.any();
                let priority = self.random.one_of(&[0, 1000, 9000]);
                self.apply(prioritise(id, priority));
            }
            14..=17 => {
                let id = self.any_in(Status::is_terminal);
                // What can not be replayed any more makes room for something new.
                match self.seen[&id].run > MAX_REPLAYS {
                    true => drop(self.apply(delete(id))),
                    false => self.replay(id),
                }
            }
            18 => {
                let id = self.any();
                let tag = self.random.one_of(&[None, Some("1"), Some("2")]);
                self.apply(set_tags(id, [("a", tag)]));
            }
            _ => {
                let id = self.any_in(Status::is_terminal);
                self.apply(delete(id));
            }
        }
    }

    fn replay(&mut self, id: ExecutionId) {
        let forget = self.random.percent(30);
        let steps = if forget { KeepSteps::None } else { KeepSteps::All };
        if self.apply(Replay { steps, ..replay(id) }).is_some() && forget {
            self.recorded.remove(&id);
        }
    }

    fn change_lane(&mut self) {
        let lane = self.random.one_of(&LANES);
        match self.random.below(8) {
            0 => drop(self.apply(pause(lane))),
            1 => drop(self.apply(drain(lane))),
            2..=5 => drop(self.apply(resume(lane))),
            6 => {
                let by_tag = Some("a".to_owned());
                let terms = FairTerms { by_tag, weights: [("1".to_owned(), 3)].into() };
                let fairness = self.random.percent(50).then_some(terms);
                self.apply(PutLane { fairness, ..put_lane(lane, Defaults::default()) });
            }
            _ => {
                let max = 2 + u32::try_from(self.random.below(6)).unwrap_or(0);
                self.apply(cap(lane, max));
            }
        }
    }

    fn change_worker(&mut self) {
        let id = self.any_in(|status| status == Status::Granted);
        let owner = self.seen[&id].worker.clone();
        let worker = owner.as_deref().unwrap_or(WORKERS[0]);
        match self.random.below(4) {
            0 => drop(self.apply(heartbeat(worker))),
            1 => drop(self.apply(mark_dead(worker))),
            _ => drop(self.apply(RegisterWorker::new("pool", worker))),
        }
    }

    fn let_time_pass(&mut self) {
        if self.random.percent(3) {
            self.deed = "reopen".into();
            self.lab.reopen();
            return;
        }
        let open = self.random.one_of(&OPEN);
        let id = self.any_in(|status| status == open);
        let view = &self.seen[&id];
        let due_at = view.due_at.filter(|_| !view.status.is_terminal());
        let moments = [view.deadline_at, due_at];
        let moment = self.random.one_of(&moments).filter(|at| *at > self.lab.now());
        match moment {
            Some(at) if self.random.percent(25) => self.lab.set_clock(at),
            _ => {
                let longest = self.random.one_of(&[1000, 10_000, 60_000]);
                self.lab.pass(ms(self.random.below(longest)));
            }
        }
        self.apply(Tick::default());
    }
}
