//! One execution, suspended again and again, and everyone who answers it.

use std::collections::BTreeMap;

use everloom_core::*;

use super::draw::{self, Aim, Deed, draw_aim, draw_condition};
use super::keys_in;
use super::model::{self, Came, Outside};
use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::walk::random::Random;

/// How often an execution is suspended at most.
const ROUNDS: u64 = 3;

const TIMEOUT: std::time::Duration = secs(10);

/// A waitpoint of the execution.
struct Door {
    ticket: Ticket,
    state: &'static str,
}

/// A signal on record.
struct Kept {
    id: SignalId,
    came: Came,
    waitpoint: Option<WaitpointId>,
    taken: Option<TakenSignal>,
}

/// An execution under way.
pub(super) struct Case<'a> {
    lab: &'a mut Lab,
    random: Random,
    depth: usize,
    id: ExecutionId,
    doors: Vec<Door>,
    kept: Vec<Kept>,
    keys: BTreeMap<(Option<WaitpointId>, String), SignalId>,
    /// What it waits for, and what it has heard while it did.
    waits: Option<(Condition, Vec<Came>)>,
    suspensions: u32,
    /// What was done, for when it turns out to be wrong.
    deeds: Vec<String>,
}

impl Drop for Case<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.deeds.join("\n"));
        }
    }
}

impl<'a> Case<'a> {
    pub(super) fn run(lab: &'a mut Lab, seed: u64, depth: usize) {
        let id = lab.submit(work());
        let mut case = Self {
            lab,
            random: Random::new(seed),
            depth,
            id,
            doors: vec![],
            kept: vec![],
            keys: BTreeMap::new(),
            waits: None,
            suspensions: 0,
            deeds: vec![],
        };
        for _ in 0..1 + case.random.below(ROUNDS) {
            if !case.live() {
                break;
            }
        }
        if !case.lab.status(id).is_terminal() {
            case.lab.ok(force_cancel(id));
        }
    }

    /// From a claim to when it goes on, if it does.
    fn live(&mut self) -> bool {
        let leased = self.lab.take(self.id);
        if let Some(resumption) = &leased.resumption {
            self.compare_taken(&resumption.signals);
        }
        for _ in 0..self.random.below(6) {
            match self.random.below(100) {
                0..=39 => self.create(&leased),
                40..=49 => self.close_by_hand(),
                _ => self.send(),
            }
        }
        self.suspend(&leased);
        self.compare();
        for _ in 0..4 + self.random.below(12) {
            if self.waits.is_none() {
                break;
            }
            self.send();
            self.compare();
        }
        // What comes after it was met is late.
        for _ in 0..self.random.below(3) {
            self.send();
            self.compare();
        }
        if self.waits.is_some() {
            return self.random.percent(50) && self.time_out();
        }
        match self.lab.status(self.id) {
            Status::Active => self.lab.run(delay(&leased, ms(0))),
            status => assert_eq!(status, Status::Resumable),
        }
        true
    }

    /// Lets its time come; says whether it goes on then.
    fn time_out(&mut self) -> bool {
        self.deeds.push("time out".to_owned());
        let Some((condition, heard)) = self.waits.take() else { return false };
        self.lab.advance(TIMEOUT);
        if !model::is_met(&condition, &heard, Outside::TIME) {
            assert_eq!(self.lab.end(self.id).reason, EndReason::SuspensionTimeout);
            return false;
        }
        assert_eq!(self.lab.status(self.id), Status::Resumable);
        let told = self.lab.signals(self.id).pop().expect("it is told that its time came");
        let (at, verdict, roles) = (None, None, Some(vec![]));
        let came = Came { at, name: "timeout".into(), source: "clock".into(), verdict, roles };
        let taken = Some(TakenSignal { suspension: self.suspensions, counted: true });
        self.kept.push(Kept { id: told.id, came, waitpoint: None, taken });
        self.doors.iter_mut().filter(|door| door.state == "active").for_each(|door| {
            door.state = "timed_out";
        });
        self.compare();
        true
    }

    /// An operator closes a waitpoint for which nothing waits; what came there counts no more.
    fn close_by_hand(&mut self) {
        let key = self.random.one_of(&draw::KEYS);
        let open =
            self.doors.iter_mut().find(|door| door.ticket.key == key && door.state == "pending");
        let Some(door) = open else { return };
        self.deeds.push(format!("close {key}"));
        door.state = "by_hand";
        self.lab.ok(close_waitpoint(self.id, key));
    }

    fn create(&mut self, leased: &Leased) {
        let key = self.random.one_of(&draw::KEYS);
        self.deeds.push(format!("create {key}"));
        let known = self.open(key).map(|door| door.ticket.clone());
        let created = self.lab.ok(create_waitpoint(leased, key));
        assert_eq!(created.repeated, known.is_some());
        match known {
            Some(known) => assert_eq!(created.ticket, known),
            None => self.doors.push(Door { ticket: created.ticket, state: "pending" }),
        }
    }

    fn open(&self, key: &str) -> Option<&Door> {
        let open = |door: &&Door| matches!(door.state, "pending" | "active");
        self.doors.iter().filter(open).find(|door| door.ticket.key == key)
    }

    /// Waits for a condition: what was kept may be enough.
    fn suspend(&mut self, leased: &Leased) {
        let condition = draw_condition(&mut self.random, self.depth);
        self.deeds.push(format!("suspend until {condition:#?}"));
        self.suspensions += 1;
        let suspend = Suspend { timeout: Some(TIMEOUT), ..suspend(leased, condition.clone()) };
        let outcome = self.lab.ok(suspend);
        let wanted: Vec<_> = condition.waitpoints().into_iter().map(str::to_owned).collect();
        let heard = self.hear(&condition, &wanted);
        let met = model::is_met(&condition, &heard, Outside::NOTHING);
        match outcome {
            SuspendOutcome::AlreadySatisfied { resumption } => {
                assert!(met, "it was not satisfied");
                assert_eq!(resumption.suspension, self.suspensions);
                self.close(&wanted, "pending");
                self.compare_taken(&resumption.signals);
            }
            SuspendOutcome::Suspended { waitpoints, .. } => {
                assert!(!met, "it was satisfied");
                self.activate(&wanted, waitpoints);
                self.waits = Some((condition, heard));
            }
            SuspendOutcome::Cancelled => panic!("nobody cancelled it"),
        }
    }

    /// What a suspension that begins hears, as far as it listens; notes what becomes of that.
    fn hear(&mut self, condition: &Condition, wanted: &[String]) -> Vec<Came> {
        let mut heard: Vec<Came> = Vec::new();
        let by_hand = self.doors.iter().filter(|door| door.state == "by_hand");
        let unheard: Vec<_> = by_hand.map(|door| Some(door.ticket.id)).collect();
        for kept in self.kept.iter_mut().filter(|kept| kept.taken.is_none()) {
            let elsewhere = kept.came.at.as_ref().is_some_and(|key| !wanted.contains(key));
            if elsewhere || unheard.contains(&kept.waitpoint) {
                continue;
            }
            let counted = !model::is_met(condition, &heard, Outside::NOTHING)
                && model::offered(condition, &heard, &kept.came) == Offered::Counted;
            if counted || kept.waitpoint.is_some() {
                kept.taken = Some(TakenSignal { suspension: self.suspensions, counted });
            }
            heard.push(kept.came.clone());
        }
        heard
    }

    fn activate(&mut self, wanted: &[String], tickets: Vec<Ticket>) {
        let keys: Vec<_> = tickets.iter().map(|ticket| ticket.key.clone()).collect();
        assert_eq!(keys, wanted);
        for ticket in tickets {
            match self.doors.iter_mut().find(|door| door.ticket.id == ticket.id) {
                Some(door) => {
                    assert_eq!((&door.ticket, door.state), (&ticket, "pending"));
                    door.state = "active";
                }
                None => {
                    assert!(self.open(&ticket.key).is_none(), "{} is open", ticket.key);
                    self.doors.push(Door { ticket, state: "active" });
                }
            }
        }
    }

    fn close(&mut self, wanted: &[String], state: &str) {
        for door in self.doors.iter_mut().filter(|door| door.state == state) {
            if wanted.contains(&door.ticket.key) {
                door.state = "satisfied";
            }
        }
    }

    /// Somebody sends something somewhere.
    fn send(&mut self) {
        let deed = draw_aim(&mut self.random, self.doors.len());
        let door = match &deed.aim {
            Aim::Execution => None,
            Aim::Key(key) => match self.doors.iter().position(|door| {
                door.ticket.key == *key && matches!(door.state, "pending" | "active")
            }) {
                Some(place) => Some(place),
                None => return self.find_nothing(&deed),
            },
            Aim::Id(place) | Aim::Token(place) => Some(*place),
        };
        let ticket = door.map(|place| &self.doors[place].ticket);
        let mut came = deed.came.clone();
        came.at = ticket.map(|ticket| ticket.key.clone());
        if let (Aim::Token(_), Some(ticket)) = (&deed.aim, ticket) {
            came.source = format!("token:{}", ticket.id);
            came.roles = None;
        }
        let waitpoint = ticket.map(|ticket| ticket.id);
        self.deeds.push(format!("{:?} {came:?} key {:?}", deed.aim, deed.key));
        let to = match (&deed.aim, ticket) {
            (Aim::Token(_), Some(ticket)) => SignalTo::Token(ticket.token.clone()),
            (Aim::Id(_), Some(ticket)) => SignalTo::Waitpoint(WaitpointName::Id(ticket.id)),
            (Aim::Key(key), _) => SignalTo::Waitpoint(WaitpointName::Key((*key).to_owned())),
            _ => SignalTo::Execution,
        };
        let scope = waitpoint.filter(|_| matches!(deed.aim, Aim::Token(_)));
        let answer = self.deliver(&deed, to);
        self.expect(&answer, came, waitpoint, deed.key.map(|key| (scope, key.to_owned())));
    }

    fn find_nothing(&mut self, deed: &Deed) {
        let Aim::Key(key) = deed.aim else { return };
        let to = SignalTo::Waitpoint(WaitpointName::Key(key.to_owned()));
        let answer = self.deliver(deed, to);
        match deed.key.and_then(|key| self.keys.get(&(None, key.to_owned()))) {
            Some(first) => {
                let duplicate = Delivered { signal: *first, effect: Effect::Duplicate };
                assert_eq!(answer.ok(), Some(duplicate));
            }
            None => assert_eq!(answer.err().map(|error| error.code()), Some(Code::NotFound)),
        }
    }

    fn deliver(&mut self, deed: &Deed, to: SignalTo) -> Result<Delivered> {
        let (key, Came { name, source, verdict, roles, .. }) = (deed.key, deed.came.clone());
        let key = key.map(str::to_owned);
        let bearer = matches!(to, SignalTo::Token(_));
        let source = (!bearer).then_some(source);
        let roles = roles.filter(|_| !bearer).unwrap_or_default();
        let by = source.as_deref();
        match verdict.filter(|_| to != SignalTo::Execution) {
            Some(true) => self.lab.apply(Approve { roles, key, ..Approve::new(self.id, to, by) }),
            Some(false) => self.lab.apply(Reject { roles, key, ..Reject::new(self.id, to, by) }),
            None => {
                let signal = DeliverSignal::new(self.id, name);
                self.lab.apply(DeliverSignal { to, source, key, ..signal })
            }
        }
    }

    /// Compares an answer with what the evaluator says, and takes note.
    fn expect(
        &mut self,
        answer: &Result<Delivered>,
        came: Came,
        waitpoint: Option<WaitpointId>,
        key: Option<(Option<WaitpointId>, String)>,
    ) {
        let code = answer.as_ref().err().map(Error::code);
        if let Some(first) = key.as_ref().and_then(|key| self.keys.get(key)) {
            let duplicate = Delivered { signal: *first, effect: Effect::Duplicate };
            assert_eq!(answer.as_ref().ok(), Some(&duplicate), "{answer:?}");
            return;
        }
        let door = self.doors.iter().find(|door| Some(door.ticket.id) == waitpoint);
        let state = door.map_or("", |door| door.state);
        if matches!(state, "satisfied" | "timed_out" | "by_hand") {
            assert_eq!(code, Some(Code::Closed), "{answer:?}");
            return;
        }
        let listens = state != "pending";
        let heard = self.waits.as_ref().filter(|_| listens);
        if heard.is_some_and(|(condition, _)| model::is_forbidden(condition, &came)) {
            assert_eq!(code, Some(Code::Forbidden), "{answer:?}");
            return;
        }
        let Delivered { signal: id, effect } = *answer.as_ref().expect("nothing speaks against it");
        if let Some(key) = key {
            self.keys.insert(key, id);
        }
        let mut taken = None;
        let mut expected = Effect::Buffered;
        if let Some((condition, heard)) = self.waits.as_mut().filter(|_| listens) {
            let offered = model::offered(condition, heard, &came);
            let counted = offered == Offered::Counted;
            heard.push(came.clone());
            if counted || waitpoint.is_some() {
                taken = Some(TakenSignal { suspension: self.suspensions, counted });
                expected = match counted {
                    true => Effect::Recorded,
                    false => Effect::Ignored { why: offered },
                };
            }
            if model::is_met(condition, heard, Outside::NOTHING) {
                assert!(counted, "what was ignored has met it");
                expected = Effect::Resumed { status: Status::Resumable };
            }
        }
        self.kept.push(Kept { id, came, waitpoint, taken });
        assert_eq!(effect, expected);
        if matches!(expected, Effect::Resumed { .. }) {
            self.waits = None;
            self.doors.iter_mut().filter(|door| door.state == "active").for_each(|door| {
                door.state = "satisfied";
            });
        }
    }

    /// Compares everything there is to see.
    fn compare(&mut self) {
        let signals = self.lab.signals(self.id);
        let seen: Vec<_> = signals.iter().map(|one| (one.id, facts(one), taken(one))).collect();
        let expected: Vec<_> =
            self.kept.iter().map(|kept| (kept.id, kept.came.clone(), kept.taken)).collect();
        assert_eq!(seen, expected);
        let views = self.lab.waitpoints(self.id);
        let seen: Vec<_> = views.iter().map(|view| (view.id, state_of(view))).collect();
        let doors: Vec<_> = self.doors.iter().map(|door| (door.ticket.id, door.state)).collect();
        assert_eq!(seen, doors);
        let view = self.lab.suspensions(self.id).pop().expect("it was suspended");
        assert_eq!(view.end.is_none(), self.waits.is_some());
        let Some((condition, heard)) = &self.waits else { return assert_eq!(view.waits_for, None) };
        let words = view.waits_for.expect("it tells what it waits for");
        assert_eq!(keys_in(&words), model::missing(condition, heard), "{words}");
        for view in views {
            let verdicts: Vec<_> = view.approvals.into_iter().map(|one| one.verdicts).collect();
            let expected = match view.state {
                WaitpointState::Active { .. } => model::verdicts(condition, &view.key, heard),
                _ => vec![],
            };
            assert_eq!(verdicts, expected, "at {}", view.key);
        }
    }

    /// Compares what a handler gets with what its last suspension took.
    fn compare_taken(&self, signals: &[SignalView]) {
        let seen: Vec<_> = signals.iter().map(|one| (one.id, taken(one))).collect();
        let ours =
            |kept: &&Kept| kept.taken.is_some_and(|taken| taken.suspension == self.suspensions);
        let expected = self.kept.iter().filter(ours).map(|kept| (kept.id, kept.taken));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }
}

fn facts(view: &SignalView) -> Came {
    let approval = view.approval.as_ref();
    Came {
        at: view.waitpoint.clone(),
        name: view.name.clone(),
        source: view.source.clone(),
        verdict: approval.map(|approval| approval.approved),
        roles: match view.token {
            Some(_) => None,
            None => Some(approval.map(|approval| approval.roles.clone()).unwrap_or_default()),
        },
    }
}

fn state_of(view: &WaitpointView) -> &'static str {
    match &view.state {
        WaitpointState::Pending => "pending",
        WaitpointState::Active { .. } => "active",
        WaitpointState::Closed { why, .. } => why.as_str(),
    }
}

fn taken(view: &SignalView) -> Option<TakenSignal> {
    let counted = view.counted;
    view.suspension.map(|suspension| TakenSignal { suspension, counted })
}
