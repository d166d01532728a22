//! Random conditions, random signals in random order: the engine and an evaluator of its own must
//! agree, after every single signal, on what counted, what is met, what is missing, and what the
//! execution does.

mod draw;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everloom_core::*;

use crate::fixtures::*;
use crate::mail_lab::*;
use crate::walk::random::Random;
use crate::{Lab, Place};
use draw::{Aim, Deed, draw_aim, draw_came, draw_condition};
use model::Came;

/// How many cases share a store: a long log would be read again and again.
const CASES_PER_STORE: u64 = 100;

/// How often an execution is suspended.
const ROUNDS: u64 = 3;

/// Compares the engine on a store with the evaluator in so many cases, or as many as
/// `EVERLOOM_CONDITION_CASES` says, from the seed `EVERLOOM_SEED` on. A case that goes wrong is
/// tried again with flatter conditions, and told with what repeats it.
pub fn conditions_are_what_an_evaluator_says(open: &dyn Fn() -> Box<dyn Place>, cases: u64) {
    let (first, cases) = range(cases);
    let mut lab = Lab::new(open());
    for seed in first..first + cases {
        if seed % CASES_PER_STORE == 0 {
            lab = Lab::new(open());
        }
        let deepest = Limits::CONDITION_DEPTH;
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| Case::run(&mut lab, seed, deepest)))
        else {
            continue;
        };
        for depth in 1..deepest {
            let mut fresh = Lab::new(open());
            let flatter = catch_unwind(AssertUnwindSafe(|| Case::run(&mut fresh, seed, depth)));
            if let Err(panic) = flatter {
                eprintln!("seed {seed} goes wrong with a depth of {depth} too");
                resume_unwind(panic);
            }
        }
        eprintln!("repeat it with EVERLOOM_SEED={seed} EVERLOOM_CONDITION_CASES=1");
        resume_unwind(panic);
    }
}

/// Compares what is kept of signals with the evaluator, without any engine.
pub fn tallies_are_what_an_evaluator_says(cases: u64) {
    let (first, cases) = range(cases);
    for seed in first..first + cases {
        let run = || compare_tally(&mut Random::new(seed));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("repeat it with EVERLOOM_SEED={seed} EVERLOOM_CONDITION_CASES=1");
            resume_unwind(panic);
        }
    }
}

fn range(cases: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("EVERLOOM_CONDITION_CASES").unwrap_or(cases);
    (number("EVERLOOM_SEED").unwrap_or(1), cases)
}

fn compare_tally(random: &mut Random) {
    let condition = draw_condition(random, Limits::CONDITION_DEPTH);
    let mut tally = Tally::new(&condition);
    let mut all: Vec<Came> = Vec::new();
    for _ in 0..random.below(20) {
        let new = draw_came(random);
        let offered = tally.offer(&condition, new.offer());
        let expected = model::offered(&condition, &all, &new);
        all.push(new);
        assert_eq!(offered, expected, "{condition:?} {all:#?}");
        let met = model::is_met(&condition, &all, false);
        assert_eq!(tally.is_met(&condition), met, "{condition:?} {all:#?}");
        let words = tally.tell(&condition);
        assert_eq!(keys_in(&words), model::missing(&condition, &all), "{condition:?} {all:#?}");
    }
    let open = random.some_of(&draw::KEYS);
    let hope = tally.can_be_met(&condition, &|key| open.iter().any(|open| open == key));
    let best = [&all[..], &draw::everything(&open)].concat();
    assert_eq!(hope, model::is_met(&condition, &best, true), "{open:?} {condition:?} {all:#?}");
}

/// The keys of waitpoints that a sentence names.
fn keys_in(sentence: &str) -> BTreeSet<String> {
    let words = sentence.split(|char: char| !char.is_ascii_alphanumeric());
    words.filter(|word| draw::KEYS.contains(word)).map(str::to_owned).collect()
}

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
struct Case<'a> {
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
    fn run(lab: &'a mut Lab, seed: u64, depth: usize) {
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
        case.lab.ok(Cancel { force: true, ..Cancel::new(id) });
    }

    /// From a claim to when it goes on, if it does.
    fn live(&mut self) -> bool {
        let leased = self.lab.take(self.id);
        if let Some(resumption) = &leased.resumption {
            self.compare_taken(&resumption.signals);
        }
        for _ in 0..self.random.below(6) {
            match self.random.percent(40) {
                true => self.create(&leased),
                false => self.send(),
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
        let goes_on = self.waits.is_none();
        let status = self.lab.status(self.id);
        assert_eq!(status == Status::Suspended, !goes_on);
        if status == Status::Active {
            self.lab.ok(delay(&leased, ms(0)));
        }
        goes_on
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
        let suspend = Suspend { timeout: Some(days(1)), ..suspend(leased, condition.clone()) };
        let outcome = self.lab.ok(suspend);
        let wanted: Vec<_> = condition.waitpoints().into_iter().map(str::to_owned).collect();
        let heard = self.hear(&condition, &wanted);
        let met = model::is_met(&condition, &heard, false);
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
        let adopted: Vec<_> = (self.doors.iter())
            .filter(|door| door.state == "pending" && wanted.contains(&door.ticket.key))
            .map(|door| door.ticket.id)
            .collect();
        let mut heard: Vec<Came> = Vec::new();
        for kept in self.kept.iter_mut().filter(|kept| kept.taken.is_none()) {
            if kept.waitpoint.is_some_and(|id| !adopted.contains(&id)) {
                continue;
            }
            let counted = !model::is_met(condition, &heard, false)
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
        let error = self.deliver(deed, to).unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
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
        if state == "satisfied" {
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
            if model::is_met(condition, heard, false) {
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
