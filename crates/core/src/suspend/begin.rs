//! Beginning to wait.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::signing_key;
use super::read::{Resumption, received};
use super::waitpoint::{New, Ticket, add, check_room, close, has_expired, reissue, reissued};
use crate::cancel::{acknowledge, acknowledged};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::finish::requeue;
use crate::lease::{Fenced, fence};
use crate::misses::Misses;
use crate::model::{
    Cause, Check, CloseReason, Code, Condition, EndedBy, Error, Execution, LeaseEnd, LeaseToken,
    Limits, OnTimeout, Result, RowId, Signal, SignalId, State, SuspendReason, Suspended,
    Suspension, SuspensionCourse, SuspensionEnd, SuspensionTerms, TakenSignal, Tally, Timestamp,
    Waitpoint, WaitpointState, default_name, option_duration_ms,
};
use crate::store::{Read, Tx};

/// Ends a lease and waits until a condition over signals is met. Not a failure: the attempt goes
/// on when it is.
///
/// Waitpoints the condition names are created unless they exist. If signals that came early meet
/// the condition at once, the lease is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// When it goes on.
    pub condition: Condition,
    /// Why it waits.
    #[serde(default)]
    pub reason: SuspendReason,
    /// What those who are to answer should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// After how long it times out; by its policy when neither this nor `until` is given.
    #[serde(rename = "timeout_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// When it times out; instead of `timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What happens then if that does not meet the condition; by its policy when absent, else it
    /// fails. One that its time alone lets go on is resumed when this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Names this suspension within the run: when it is over, suspending again under the same key
    /// does not wait again, and answers with what came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Suspend {
    /// Waits for a condition, for as long as the execution's policy allows.
    pub fn new(lease: LeaseToken, condition: Condition) -> Self {
        Self {
            namespace: default_name(),
            lease,
            condition,
            reason: SuspendReason::default(),
            note: None,
            timeout: None,
            until: None,
            on_timeout: None,
            key: None,
        }
    }
}

/// What follows from suspending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SuspendOutcome {
    /// It waits; the lease has ended.
    Suspended {
        /// Which of the execution's suspensions this is.
        suspension: u32,
        /// When it times out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The waitpoints it waits at, with their tokens.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waitpoints: Vec<Ticket>,
    },
    /// What it wanted to wait for has come; the lease is held on.
    AlreadySatisfied {
        /// What came.
        #[serde(flatten)]
        resumption: Resumption,
    },
    /// The execution was to be cancelled, and is.
    Cancelled,
}

/// How far off a worker's clock may be before a time in the past is refused.
const SKEW: Duration = Duration::from_secs(600);

impl Command for Suspend {
    const NAME: &'static str = "suspend";
    type Output = SuspendOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<SuspendOutcome> {
        self.check(cx)?;
        let mut execution = match fence(tx, cx, &self.namespace, &self.lease)? {
            Fenced::Live(execution) => execution,
            Fenced::Ended(past) => {
                return match past.end {
                    LeaseEnd::Suspended { suspension } => self.repeated(tx, cx, suspension),
                    end if acknowledged(&end) => Ok(SuspendOutcome::Cancelled),
                    end => Err(Error::lease_lost(self.lease.execution, end.why_lost())),
                };
            }
        };
        if let Some(before) = self.before(tx, &execution)? {
            let resumption = received(tx, cx, &execution, before)?;
            return Ok(SuspendOutcome::AlreadySatisfied { resumption });
        }
        let timeout_at = self.timeout_at(cx, &execution)?;
        let mut begun = Begun::look(tx, cx, &execution, &self.condition)?;
        if acknowledge(tx, cx, &mut execution)? {
            return Ok(SuspendOutcome::Cancelled);
        }
        let mut suspension = self.suspension(&execution, &begun, timeout_at, cx.now);
        begun.take_signals(tx)?;
        if suspension.course.end.is_some() {
            tx.add_suspension(&suspension)?;
            for waitpoint in &mut begun.adopted {
                close(tx, cx, &execution, waitpoint, CloseReason::Satisfied)?;
            }
            let resumption = received(tx, cx, &execution, suspension)?;
            return Ok(SuspendOutcome::AlreadySatisfied { resumption });
        }
        self.suspend(tx, cx, &mut execution, begun, &mut suspension)
    }
}

impl Suspend {
    fn check(&self, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        self.condition.check(&mut check, "condition");
        if let Some(note) = &self.note {
            check.text("note", note);
        }
        if let Some(key) = &self.key {
            check.key("key", key);
        }
        check.that(self.timeout.is_none() || self.until.is_none(), "until", || {
            "give either `until` or `timeout_ms`".into()
        });
        if let Some(timeout) = self.timeout {
            check.duration("timeout_ms", timeout, Duration::from_millis(1), Limits::DURATION_MAX);
        }
        if let Some(until) = self.until {
            check.that(cx.now < until + SKEW, "until", || format!("{until} is in the past"));
        }
        check.finish()
    }

    fn timeout_at(&self, cx: &Context, execution: &Execution) -> Result<Option<Timestamp>> {
        let timeout = self.timeout.or(execution.policy.suspension.timeout);
        let timeout_at = self.until.or_else(|| timeout.map(|timeout| cx.now + timeout));
        match timeout_at.is_none() && self.condition.asks_for_time() {
            true => Err(Error::invalid("condition", "waits for its time; give `timeout_ms`")),
            false => Ok(timeout_at),
        }
    }

    /// The suspension of this run under the same key, which is over.
    fn before(&self, read: &mut dyn Read, execution: &Execution) -> Result<Option<Suspension>> {
        let Some(key) = self.key.as_ref().filter(|_| execution.beside.mail) else {
            return Ok(None);
        };
        let Some(before) = read.suspension_by_key(execution.row, execution.run, key)? else {
            return Ok(None);
        };
        match before.terms.condition == self.condition {
            true => Ok(Some(before)),
            false => Err(Error::new(
                Code::IdempotencyConflict,
                format!("`{key}` stands for a suspension with another condition"),
            )
            .with_field("key")),
        }
    }

    /// The answer to a call that has suspended the execution already.
    fn repeated(&self, tx: &mut dyn Tx, cx: &Context, number: u32) -> Result<SuspendOutcome> {
        let execution = crate::lease::load(tx, &self.namespace, self.lease.execution)?;
        let suspension = tx.suspension(execution.row, Some(number))?;
        let suspension = suspension.ok_or_else(|| Error::bug("a lease ended in no suspension"))?;
        let (mut waitpoints, mut misses) = (Vec::new(), Misses::default());
        for id in &suspension.terms.waitpoints {
            let ticket = reissued(tx, cx, &execution, *id);
            waitpoints.extend(misses.pass(ticket)?.flatten());
        }
        misses.finish()?;
        let until = suspension.terms.timeout_at;
        Ok(SuspendOutcome::Suspended { suspension: number, until, waitpoints })
    }

    fn suspension(
        &self,
        execution: &Execution,
        begun: &Begun,
        timeout_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Suspension {
        let default = match self.condition.is_met_by_time() {
            true => OnTimeout::Resume,
            false => execution.policy.suspension.on_timeout.unwrap_or_default(),
        };
        let end = begun.met_by.map(|signal| EndedBy::Signal { signal });
        Suspension {
            execution: execution.row,
            number: begun.number,
            run: execution.run,
            key: self.key.clone(),
            terms: SuspensionTerms {
                reason: self.reason,
                note: self.note.clone(),
                condition: self.condition.clone(),
                waitpoints: vec![],
                timeout_at,
                on_timeout: self.on_timeout.unwrap_or(default),
                attempt: execution.attempt,
                began_at: now,
            },
            course: SuspensionCourse {
                tally: begun.tally.clone(),
                escalated_at: None,
                end: end.map(|by| SuspensionEnd { at: now, by }),
            },
        }
    }

    fn suspend(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &mut Execution,
        begun: Begun,
        suspension: &mut Suspension,
    ) -> Result<SuspendOutcome> {
        let number = suspension.number;
        let waitpoints = begun.open(tx, cx, execution, &self.condition)?;
        suspension.terms.waitpoints = waitpoints.iter().map(|ticket| ticket.id).collect();
        execution.beside.mail = true;
        execution.reclaims = 0;
        tx.add_suspension(suspension)?;
        let SuspensionTerms { reason, timeout_at: until, on_timeout, .. } = suspension.terms;
        let data = json!({
            "suspension": number,
            "reason": reason,
            "note": self.note,
            "waits_for": suspension.course.tally.tell(&self.condition),
            "until": until,
        });
        let state = State::Suspended(Suspended { number, reason, until, on_timeout });
        let end = LeaseEnd::Suspended { suspension: number };
        let event = (EventKind::Suspended, Some(data));
        requeue(tx, cx, execution, end, state, Cause::Suspend, event)?;
        Ok(SuspendOutcome::Suspended { suspension: number, until, waitpoints })
    }
}

/// What there is when a suspension begins: waitpoints that exist, and signals that came early.
struct Begun {
    execution: RowId,
    number: u32,
    adopted: Vec<Waitpoint>,
    expired: Vec<Waitpoint>,
    taken: Vec<Signal>,
    tally: Tally,
    met_by: Option<SignalId>,
}

impl Begun {
    fn look(
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &Execution,
        condition: &Condition,
    ) -> Result<Self> {
        let mut begun = Self {
            execution: execution.row,
            number: 1,
            adopted: vec![],
            expired: vec![],
            taken: vec![],
            tally: Tally::new(condition),
            met_by: None,
        };
        let keys = condition.waitpoints();
        let mut open = 0;
        if execution.beside.mail {
            let last = tx.suspension(execution.row, None)?;
            begun.number += last.map_or(0, |last| last.number);
            let mut all = tx.open_waitpoints(execution.row)?;
            open = all.len();
            all.retain(|one| keys.contains(&one.key.as_str()));
            (begun.expired, begun.adopted) = all.into_iter().partition(|one| has_expired(one, cx));
            let mut kept = tx.kept_signals(execution.row, execution.run)?;
            kept.retain(|one| one.facts.waitpoint.as_deref().is_none_or(|at| keys.contains(&at)));
            begun.forget_unheard(tx, &mut kept)?;
            begun.offer(condition, kept);
        }
        if begun.number as usize > Limits::SUSPENSIONS {
            return Err(Error::new(
                Code::TooLarge,
                format!("an execution is suspended at most {} times", Limits::SUSPENSIONS),
            ));
        }
        let new = keys.len() - begun.adopted.len();
        check_room(tx, execution, open - begun.expired.len(), new)?;
        Ok(begun)
    }

    /// Leaves out what came to waitpoints that someone has closed: whoever did wants nothing of it
    /// to count.
    fn forget_unheard(&self, read: &mut dyn Read, kept: &mut Vec<Signal>) -> Result<()> {
        let open = || self.adopted.iter().chain(&self.expired);
        let mut closed: Vec<_> = kept.iter().filter_map(|signal| signal.waitpoint).collect();
        closed.sort_unstable();
        closed.dedup();
        closed.retain(|id| open().all(|one| one.id != *id));
        let (mut by_hand, mut misses) = (HashSet::new(), Misses::default());
        for id in closed {
            let waitpoint = misses.pass(read.waitpoint(self.execution, id))?.flatten();
            let why = waitpoint.map(|one| one.state);
            if let Some(WaitpointState::Closed { why: CloseReason::ByHand { .. }, .. }) = why {
                by_hand.insert(id);
            }
        }
        misses.finish()?;
        kept.retain(|signal| signal.waitpoint.is_none_or(|id| !by_hand.contains(&id)));
        Ok(())
    }

    /// Lets the condition see what came early, also to waitpoints that have expired since. A signal
    /// to the execution itself is only taken if it counts, and kept for a later suspension
    /// otherwise.
    fn offer(&mut self, condition: &Condition, kept: Vec<Signal>) {
        for mut signal in kept {
            let to_waitpoint = signal.facts.waitpoint.is_some();
            let counted = self.met_by.is_none()
                && self.tally.offer(condition, signal.facts.offer()).has_counted();
            if counted && self.tally.is_met(condition) {
                self.met_by = Some(signal.id);
            }
            if counted || to_waitpoint {
                signal.taken = Some(TakenSignal { suspension: self.number, counted });
                self.taken.push(signal);
            }
        }
    }

    fn take_signals(&self, tx: &mut dyn Tx) -> Result<()> {
        self.taken.iter().try_for_each(|signal| tx.save_signal(signal))
    }

    /// Opens the waitpoints the condition names, and answers with their tokens in its order.
    fn open(
        mut self,
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &mut Execution,
        condition: &Condition,
    ) -> Result<Vec<Ticket>> {
        for waitpoint in &mut self.expired {
            close(tx, cx, execution, waitpoint, CloseReason::Expired)?;
        }
        let state = WaitpointState::Active { suspension: self.number, since: cx.now };
        let mut tickets = Vec::new();
        for key in condition.waitpoints() {
            match self.adopted.iter_mut().find(|one| one.key == key) {
                Some(waitpoint) => {
                    waitpoint.state = state.clone();
                    tx.save_waitpoint(waitpoint)?;
                    tickets.push(reissue(tx, cx, execution, waitpoint)?);
                }
                None => {
                    let signer = signing_key(tx, cx, execution.namespace)?;
                    let key = Some(key.to_owned());
                    let new = New { key, expires_at: None, state: state.clone() };
                    tickets.push(add(tx, cx, execution, &signer, new)?.1);
                }
            }
        }
        Ok(tickets)
    }
}
