//! Waiting and answering, at random.

use everloom_core::*;

use super::Walk;
use crate::fixtures::*;
use crate::mail_lab::*;

const DOORS: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 2] = ["x", "y"];
const PEOPLE: [&str; 3] = ["ann", "bob", "cid"];

/// How many tokens are remembered for late signals.
const MEMORY: usize = 60;

impl Walk<'_> {
    /// A condition that is nested up to three deep.
    fn condition(&mut self, depth: usize) -> Condition {
        let random = &mut self.random;
        let (door, n) = (random.one_of(&DOORS), 1 + u32::try_from(random.below(2)).unwrap_or(0));
        let distinct = random.one_of(&[Distinct::Signals, Distinct::Sources, Distinct::Waitpoints]);
        let name = random.percent(30).then(|| random.one_of(&NAMES));
        let part = match random.below(10) {
            0..=2 => Condition::at(door),
            3 => Condition::signal(),
            4 => return Condition::approval(door, n),
            5 => Condition::count(n, distinct, DOORS),
            6 if random.percent(50) => return Condition::Operator,
            6 => return Condition::Timeout,
            _ if depth == 3 => Condition::at(door),
            7..=8 => return Condition::all([self.condition(depth + 1), self.condition(depth + 1)]),
            _ => return Condition::any([self.condition(depth + 1), self.condition(depth + 1)]),
        };
        match name {
            Some(name) => part.named(name),
            None => part,
        }
    }

    pub(super) fn suspend(&mut self, lease: &Leased) {
        use OnTimeout::{Cancel, Escalate, Expire, Fail, Resume};
        let condition = self.condition(1);
        let random = &mut self.random;
        let mut call = suspend(lease, condition);
        call.timeout = random.percent(70).then(|| secs(1 + random.below(60)));
        call.on_timeout =
            random.percent(80).then(|| random.one_of(&[Fail, Cancel, Expire, Resume, Escalate]));
        call.key = random.percent(20).then(|| format!("s{}", random.below(2)));
        match self.apply(call) {
            Some(SuspendOutcome::Suspended { waitpoints, .. }) => {
                self.remember(lease.id(), waitpoints);
            }
            Some(SuspendOutcome::AlreadySatisfied { resumption }) => {
                let by = &resumption.end.by;
                let came = resumption.signals.iter().any(|one| one.counted);
                assert!(came || matches!(by, EndedBy::Operator { .. }), "nothing came");
            }
            Some(SuspendOutcome::Cancelled) | None => {}
        }
    }

    pub(super) fn create_waitpoint(&mut self, lease: &Leased) {
        let random = &mut self.random;
        let mut call = create_waitpoint(lease, random.one_of(&DOORS));
        call.expires_in = random.percent(50).then(|| secs(1 + random.below(60)));
        if let Some(created) = self.apply(call) {
            self.remember(lease.id(), vec![created.ticket]);
        }
    }

    fn remember(&mut self, id: ExecutionId, tickets: Vec<Ticket>) {
        self.tickets.extend(tickets.into_iter().map(|ticket| (id, ticket)));
        self.tickets.drain(..self.tickets.len().saturating_sub(MEMORY));
    }

    /// Records a step; who holds the lease later finds the first result.
    pub(super) fn record_step(&mut self, lease: &Leased) {
        let random = &mut self.random;
        let (n, kind) = (random.below(3), random.one_of(&["step", "sleep"]));
        let result = random.below(1000).to_string();
        let mut call = record_step(lease, &format!("s{n}"), &result);
        kind.clone_into(&mut call.kind);
        let known = self.recorded.entry(lease.id()).or_default();
        let first = known.get(&call.name).cloned();
        let given = (call.kind.clone(), call.result.clone());
        let (id, name) = (lease.id(), call.name.clone());
        let Some(recorded) = self.apply(call) else { return };
        assert_eq!(recorded.earlier, first.clone().map(|(_, result)| result));
        match first {
            Some((kind, _)) => assert_eq!(kind, given.0, "another kind was not refused"),
            None => drop(self.recorded.entry(id).or_default().insert(name, given)),
        }
    }

    /// Answers someone who waits, or does not.
    pub(super) fn answer(&mut self) {
        let wanted = self.random.one_of(&[Status::Suspended, Status::Suspended, Status::Active]);
        let id = self.any_in(|status| status == wanted);
        match self.random.below(20) {
            0..=6 => self.signal_by_token(),
            7..=11 => {
                let door = self.random.one_of(&DOORS);
                self.signal(|name| signal_at(id, door, name));
            }
            12..=14 => drop(self.signal(|name| signal(id, name))),
            15..=16 => self.judge(id),
            17..=18 => {
                let delay = secs(self.random.below(2) * self.random.below(20));
                self.apply(Resume { delay, ..Resume::new(id) });
            }
            _ => {
                let door = self.random.one_of(&DOORS);
                self.apply(close_waitpoint(id, door));
            }
        }
    }

    fn judge(&mut self, id: ExecutionId) {
        let (who, door) = (self.random.one_of(&PEOPLE), self.random.one_of(&DOORS));
        let at = SignalTo::Waitpoint(WaitpointName::Key(door.to_owned()));
        match self.random.percent(70) {
            true => drop(self.apply(Approve::new(id, at, Some(who)))),
            false => drop(self.apply(Reject::new(id, at, Some(who)))),
        }
    }

    /// Presents a token: it is good for as long as its waitpoint is open, except to be told again
    /// what was said before.
    fn signal_by_token(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let index = self.random.index(self.tickets.len());
        let (id, ticket) = self.tickets[index].clone();
        let expired = ticket.expires_at.is_some_and(|at| at <= self.lab.now());
        let known = self.mail.get(&id).is_some_and(|mail| mail.has_open(ticket.id));
        let delivered = self.signal(|name| signal_by(id, &ticket, name));
        if delivered.is_none_or(|delivered| delivered.effect != Effect::Duplicate) {
            let good = known && !expired;
            assert_eq!(delivered.is_some(), good, "a token and its waitpoint disagree");
        }
    }

    fn signal(&mut self, to: impl Fn(&str) -> DeliverSignal) -> Option<Delivered> {
        let random = &mut self.random;
        let mut call = to(random.one_of(&NAMES));
        if !matches!(call.to, SignalTo::Token(_)) {
            call.source = random.percent(50).then(|| random.one_of(&PEOPLE).to_owned());
            if random.percent(30) {
                call.resume_delay = secs(1 + random.below(20));
            }
        }
        call.key = random.percent(20).then(|| format!("k{}", random.below(4)));
        let (id, payload) = (call.execution, random.below(1000).to_string());
        let (key, by_token) = (call.key.clone(), matches!(call.to, SignalTo::Token(_)));
        let delivered = self.apply(saying(&payload, call))?;
        if let Some(key) = key.filter(|_| !by_token) {
            let first = self.keys.get(&(id, key.clone())).copied();
            let duplicate = delivered.effect == Effect::Duplicate;
            assert_eq!(duplicate, first.is_some(), "a key and its signal disagree");
            assert!(first.is_none_or(|first| first == delivered.signal));
            self.keys.insert((id, key), delivered.signal);
        }
        Some(delivered)
    }

    /// A lease tells what its execution has behind it.
    pub(super) fn check_lease(&self, lease: &Leased) {
        let none = std::collections::BTreeMap::new();
        let steps = self.recorded.get(&lease.id()).unwrap_or(&none);
        assert_eq!(lease.steps.len(), steps.len());
        for step in &lease.steps {
            let (kind, result) = &steps[&step.name];
            assert_eq!((&step.kind, step.result.as_ref()), (kind, Some(result)));
        }
        // A claim by id may have ended the wait itself.
        let last = self.mail.get(&lease.id()).and_then(|mail| mail.suspensions.last());
        if let Some(last) = last.filter(|last| last.end.is_some()) {
            let told = lease.resumption.as_ref().map(|one| (one.suspension, &one.end));
            let expected = (last.run == lease.run).then_some(last);
            assert_eq!(told, expected.and_then(|last| Some((last.number, last.end.as_ref()?))));
        }
    }
}
