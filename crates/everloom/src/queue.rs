//! What waits for a store, and the stores themselves while nobody works with them: one where there
//! can be only one writer, several where the database takes care of many.
//!
//! Whoever takes a store out is alone with it: a writer thread with everything that waits, or a
//! caller that found nobody else here. Everybody else queues meanwhile, which is what makes
//! batches.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everloom_core::{Code, Error, Result, Store};
use tokio::sync::Notify;

use crate::request::Pending;
use crate::sync::lock;

/// Something else than a command that needs the store.
pub(crate) type Visit = Box<dyn FnOnce(&mut dyn Store) + Send>;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Everyone is served.
    Open,
    /// Callers are refused; what follows from earlier calls is not.
    Closing,
    /// As before, and the writer leaves when nothing is left.
    Emptying,
    /// Everything is refused, and the writer leaves at once.
    Stopped,
}

/// How long a writer waits for more while another one is at work.
const GATHER: Duration = Duration::from_millis(1);

pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    settling: Notify,
}

struct State {
    /// Those nobody works with.
    stores: Vec<Box<dyn Store>>,
    /// How many are taken out.
    taken: usize,
    jobs: VecDeque<Box<dyn Pending>>,
    /// Commands that may have to wait for a lock, and since when: each runs alone, so that nobody
    /// waits with it.
    apart: VecDeque<(Box<dyn Pending>, Instant)>,
    /// Whether the next turn is theirs, when others wait too.
    apart_next: bool,
    visits: Vec<Visit>,
    /// Commands that are being run.
    running: usize,
    /// Batches that were run and whose answers have not all been delivered.
    answering: usize,
    /// The size of the last batch, counting those who came while it ran.
    last_batch: usize,
    phase: Phase,
    /// Whether a writer that is up waits for more.
    gathering: bool,
    /// Writers that sleep, and how many of them were called.
    sleeping: usize,
    called: usize,
    /// Writers that have not left.
    writers: usize,
}

impl State {
    fn nothing_waits(&self) -> bool {
        self.jobs.is_empty() && self.apart.is_empty() && self.visits.is_empty()
    }

    /// Everything that waits.
    fn take_jobs(&mut self) -> VecDeque<Box<dyn Pending>> {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.extend(self.apart.drain(..).map(|(job, _)| job));
        jobs
    }

    fn is_settled(&self) -> bool {
        self.writers == 0 || (self.nothing_waits() && self.taken == 0 && self.answering == 0)
    }

    fn is_quiet(&self) -> bool {
        self.phase == Phase::Open
            && self.nothing_waits()
            && self.taken == 0
            && !self.stores.is_empty()
    }

    /// Whether a caller would be alone. Where several were served lately it is not: the others are
    /// about to come back, and together they are served better by one commit.
    fn is_lonely(&self) -> bool {
        self.is_quiet() && self.last_batch <= 1
    }

    /// The commands of a turn; since when they wait for a lock, if it is one that runs apart.
    fn next_jobs(&mut self, most: usize) -> (Vec<Box<dyn Pending>>, Option<Instant>) {
        if (self.apart_next || self.jobs.is_empty())
            && let Some((job, since)) = self.apart.pop_front()
        {
            self.apart_next = false;
            return (vec![job], Some(since));
        }
        self.apart_next = true;
        let count = self.jobs.len().min(most.max(1));
        (self.jobs.drain(..count).collect(), None)
    }

    /// Whether a writer has a reason to get up.
    fn calls_writer(&self) -> bool {
        !self.stores.is_empty() && (!self.nothing_waits() || self.phase >= Phase::Emptying)
    }

    /// Whether a writer has a reason to begin at once. While another one is at work, most callers
    /// wait for that: those few who do not are better served together with the next of them.
    fn is_worth_a_turn(&self) -> bool {
        self.taken == 0
            || self.jobs.len() * 2 >= self.last_batch
            || !self.visits.is_empty()
            || self.phase >= Phase::Emptying
    }
}

/// A store, taken out of the queue; it goes back when this is dropped.
pub(crate) struct Taken<'a> {
    queue: &'a Queue,
    store: Option<Box<dyn Store>>,
    /// Commands it was taken for.
    running: usize,
    /// Commands run, if that is what it was taken for.
    batch: Option<usize>,
    /// Whether someone still has to deliver the answers.
    answers_follow: bool,
}

impl Taken<'_> {
    /// The store.
    pub(crate) fn store(&mut self) -> &mut dyn Store {
        &mut **self.store.as_mut().expect("the store is here until this is dropped")
    }

    /// Puts the store back after a batch of one that was answered on the spot.
    pub(crate) fn ran_alone(mut self) {
        self.batch = Some(1);
    }

    /// Puts the store back after a batch; [`Queue::answered`] follows.
    pub(crate) fn ran(mut self, jobs: usize) {
        self.batch = Some(jobs);
        self.answers_follow = true;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        state.stores.extend(self.store.take());
        state.taken -= 1;
        state.running -= self.running;
        if let Some(batch) = self.batch {
            state.last_batch = batch + state.jobs.len();
        }
        state.answering += usize::from(self.answers_follow);
        self.queue.stir(state);
    }
}

/// What a writer does next.
pub(crate) struct Turn<'a> {
    pub(crate) taken: Taken<'a>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) jobs: Vec<Box<dyn Pending>>,
    /// Since when the only command waits for a lock, if it does.
    pub(crate) locked_out: Option<Instant>,
}

/// What is left when a writer leaves.
pub(crate) struct Remains {
    pub(crate) store: Option<Box<dyn Store>>,
    pub(crate) jobs: VecDeque<Box<dyn Pending>>,
    pub(crate) visits: Vec<Visit>,
}

impl Queue {
    /// A queue for as many writers as there are stores.
    pub(crate) fn new(stores: Vec<Box<dyn Store>>) -> Self {
        let state = State {
            writers: stores.len(),
            stores,
            taken: 0,
            jobs: VecDeque::new(),
            apart: VecDeque::new(),
            apart_next: false,
            visits: Vec::new(),
            running: 0,
            answering: 0,
            last_batch: 0,
            phase: Phase::Open,
            gathering: false,
            sleeping: 0,
            called: 0,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), settling: Notify::new() }
    }

    /// Refuses a caller once the end has begun.
    pub(crate) fn check_open(&self) -> Result<()> {
        match lock(&self.state).phase {
            Phase::Open => Ok(()),
            _ => Err(closing()),
        }
    }

    /// Whether a caller would be alone with the store, at this moment.
    pub(crate) fn is_lonely(&self) -> bool {
        lock(&self.state).is_lonely()
    }

    /// Takes the store for a caller that is alone.
    pub(crate) fn take_if_lonely(&self) -> Option<Taken<'_>> {
        self.take_if(State::is_lonely, 1)
    }

    /// Takes the store if nobody works with it or waits for it.
    pub(crate) fn take_if_quiet(&self) -> Option<Taken<'_>> {
        self.take_if(State::is_quiet, 0)
    }

    fn take_if(&self, allowed: impl Fn(&State) -> bool, running: usize) -> Option<Taken<'_>> {
        let mut state = lock(&self.state);
        allowed(&state).then(|| self.take(&mut state, running))
    }

    fn take(&self, state: &mut State, running: usize) -> Taken<'_> {
        state.running += running;
        state.taken += 1;
        let store = state.stores.pop();
        Taken { queue: self, store, running, batch: None, answers_follow: false }
    }

    /// Queues a command of a caller.
    pub(crate) fn push(&self, job: Box<dyn Pending>) -> Result<()> {
        self.enqueue(Phase::Open, |state| state.jobs.push_back(job))
    }

    /// Queues a command that follows from an earlier one: also while closing.
    pub(crate) fn push_consequence(&self, job: Box<dyn Pending>) -> Result<()> {
        self.enqueue(Phase::Emptying, |state| state.jobs.push_back(job))
    }

    /// Queues a command that needs a lock since then; gives it back when the end has come.
    pub(crate) fn push_apart(
        &self,
        job: Box<dyn Pending>,
        since: Instant,
    ) -> Result<(), Box<dyn Pending>> {
        let mut state = lock(&self.state);
        if state.phase > Phase::Open {
            return Err(job);
        }
        state.apart.push_back((job, since));
        self.stir(state);
        Ok(())
    }

    /// Queues something else that needs the store.
    pub(crate) fn push_visit(&self, visit: Visit) -> Result<()> {
        self.enqueue(Phase::Open, |state| state.visits.push(visit))
    }

    // The item is dropped after the lock is released when it is refused: what its drop does may
    // need the queue.
    fn enqueue(&self, latest: Phase, put: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = lock(&self.state);
        if state.phase > latest {
            drop(state);
            return Err(closing());
        }
        put(&mut state);
        self.stir(state);
        Ok(())
    }

    /// Gets a writer up if there is a reason, and tells who waits for the end.
    fn stir(&self, mut state: MutexGuard<'_, State>) {
        let call = state.called < state.sleeping
            && state.calls_writer()
            && (!state.gathering || state.is_worth_a_turn());
        state.called += usize::from(call);
        let ending = state.phase > Phase::Open;
        drop(state);
        if call {
            self.work.notify_one();
        }
        if ending {
            self.settling.notify_waiters();
        }
    }

    /// Waits for what a writer does next: everything that waits, up to `most` commands; nothing
    /// when it is to leave.
    pub(crate) fn next_turn(&self, most: usize) -> Option<Turn<'_>> {
        let mut state = lock(&self.state);
        let mut gathered = false;
        loop {
            let wanted = state.calls_writer();
            if wanted && (gathered || state.is_worth_a_turn()) {
                break;
            }
            state.sleeping += 1;
            // One who gathers is enough.
            if wanted && !state.gathering {
                state.gathering = true;
                let waited = self.work.wait_timeout(state, GATHER);
                let (woken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                gathered = waited.timed_out();
                state = woken;
                state.gathering = false;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                gathered = false;
            }
            state.sleeping -= 1;
            state.called = state.called.saturating_sub(1);
        }
        if state.phase == Phase::Stopped || state.nothing_waits() {
            return None;
        }
        let visits = std::mem::take(&mut state.visits);
        let (jobs, locked_out) = state.next_jobs(most);
        let count = jobs.len();
        let taken = self.take(&mut state, count);
        // What did not fit is for another writer, if one is free.
        self.stir(state);
        Some(Turn { taken, visits, jobs, locked_out })
    }

    /// The answers of a batch have been delivered.
    pub(crate) fn answered(&self) {
        let mut state = lock(&self.state);
        state.answering -= 1;
        self.stir(state);
    }

    /// Goes on towards the end.
    pub(crate) fn advance(&self, phase: Phase) {
        let mut state = lock(&self.state);
        state.phase = state.phase.max(phase);
        self.stir(state);
    }

    /// Stops, and hands over the commands that will not run and how many are being run.
    pub(crate) fn stop(&self) -> (VecDeque<Box<dyn Pending>>, usize) {
        let mut state = lock(&self.state);
        state.phase = Phase::Stopped;
        let abandoned = (state.take_jobs(), state.running);
        self.stir(state);
        abandoned
    }

    /// A writer leaves with a store and everything that is left.
    pub(crate) fn leave(&self) -> Remains {
        let mut state = lock(&self.state);
        state.phase = Phase::Stopped;
        Remains {
            store: state.stores.pop(),
            jobs: state.take_jobs(),
            visits: std::mem::take(&mut state.visits),
        }
    }

    /// A writer has left and its store is closed.
    pub(crate) fn left(&self) {
        let mut state = lock(&self.state);
        state.writers -= 1;
        self.stir(state);
    }

    /// Completes when nothing waits and every answer is delivered. Callers must be refused.
    pub(crate) async fn settled(&self) {
        self.until(State::is_settled).await;
    }

    /// Completes when every writer has left and the stores are closed.
    pub(crate) async fn ended(&self) {
        self.until(|state| state.writers == 0).await;
    }

    async fn until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let changed = self.settling.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if reached(&lock(&self.state)) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
impl Queue {
    /// How many commands and visits wait.
    pub(crate) fn waiting(&self) -> usize {
        let state = lock(&self.state);
        state.jobs.len() + state.apart.len() + state.visits.len()
    }

    /// Whether nothing waits and every answer is delivered, at this moment.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.state).is_settled()
    }
}

/// Why nothing is taken in any more.
pub(crate) fn closing() -> Error {
    Error::new(Code::Unavailable, "the engine is closing; nothing was written")
}
