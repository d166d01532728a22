//! Group commit: commands that wait together share one transaction, and none harms another.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::command::{Command, Context, Seed};
use crate::model::{
    Again, Code, Error, ExecutionId, FlowId, Lane, LaneId, LaneMode, Namespace, NamespaceId,
    Result, Route, RouteId, Settings, Timestamp,
};
use crate::recorder::Recorder;
use crate::store::{Read, Store, Tx};

/// Tells the time of a store that has no clock of its own.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A command under way, whatever its type.
pub trait Job: Send {
    /// The command's name, for the log.
    fn name(&self) -> &'static str;

    /// Where its randomness begins.
    fn seed(&self) -> Seed;

    /// Runs the rule and keeps the answer.
    fn apply(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()>;

    /// Replaces the answer by an error.
    fn refuse(&mut self, error: Error);
}

/// A command of a known type, with its answer once there is one.
#[derive(Debug)]
pub struct Call<C: Command> {
    command: C,
    seed: Seed,
    answer: Option<Result<C::Output>>,
}

impl<C: Command> Call<C> {
    /// A command that is to run, with the seed every re-run begins with.
    pub fn new(command: C, seed: Seed) -> Self {
        Self { command, seed, answer: None }
    }

    /// Why it was refused, if it was.
    pub fn refusal(&self) -> Option<&Error> {
        self.answer.as_ref()?.as_ref().err()
    }

    /// The answer.
    pub fn into_answer(self) -> Result<C::Output> {
        self.answer.unwrap_or_else(|| Err(Error::bug("the command was never run")))
    }
}

impl<C: Command> Job for Call<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn seed(&self) -> Seed {
        self.seed
    }

    fn apply(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        self.answer = Some(Ok(self.command.apply(tx, cx)?));
        Ok(())
    }

    fn refuse(&mut self, error: Error) {
        self.answer = Some(Err(error));
    }
}

/// What a commit changed that someone may be waiting for. Losing it delays, and loses nothing:
/// every waiter also asks again after a while.
#[derive(Debug, Default)]
pub struct Wakes {
    /// Work that became claimable, by lane and route.
    pub ready: Vec<ReadyWork>,
    /// Executions that ended.
    pub ended: Vec<ExecutionId>,
    /// Flows that ended.
    pub ended_flows: Vec<FlowId>,
    /// The earliest moment at which something written became due.
    pub due: Option<Timestamp>,
    /// Whether events were appended.
    pub events: bool,
}

impl Wakes {
    /// Whether nobody needs to be told.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.ended.is_empty()
            && self.ended_flows.is_empty()
            && self.due.is_none()
            && !self.events
    }

    fn and(mut self, other: Self) -> Self {
        self.ready.extend(other.ready);
        self.ended.extend(other.ended);
        self.ended_flows.extend(other.ended_flows);
        self.due = [self.due, other.due].into_iter().flatten().min();
        self.events |= other.events;
        self
    }
}

/// Work that became claimable.
#[derive(Clone, Debug)]
pub struct ReadyWork {
    /// The namespace it is in.
    pub namespace: Arc<Namespace>,
    /// The lane it is in.
    pub lane: Arc<Lane>,
    /// What a worker must serve to get it; `None` when it may be anything in the lane.
    pub route: Option<Arc<Route>>,
    /// How much.
    pub count: usize,
}

/// What the rows written by a batch mean for those who wait, before ids are resolved to names.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) ready: BTreeMap<(NamespaceId, LaneId, Option<RouteId>), usize>,
    pub(crate) ended: Vec<ExecutionId>,
    pub(crate) ended_flows: Vec<FlowId>,
    pub(crate) due: Option<Timestamp>,
    pub(crate) events: bool,
}

impl Notes {
    fn resolve(self, read: &mut dyn Read) -> Result<Wakes> {
        let mut ready = Vec::with_capacity(self.ready.len());
        for ((namespace, lane, route), count) in self.ready {
            let lane = read.lane_by_id(lane)?;
            if lane.mode == LaneMode::Paused {
                continue;
            }
            let route = match route {
                Some(id) => read.routes(namespace)?.get(id).cloned(),
                None => None,
            };
            let namespace = read.namespace_by_id(namespace)?;
            ready.push(ReadyWork { namespace, lane, route, count });
        }
        Ok(Wakes {
            ready,
            ended: self.ended,
            ended_flows: self.ended_flows,
            due: self.due,
            events: self.events,
        })
    }
}

/// Runs commands in one transaction and keeps every answer.
///
/// A refused command has written nothing and costs nothing. A command that fails or panics after
/// it wrote is answered alone, and all others run again as one batch: they saw what it wrote. An
/// error of the store itself answers all of them. If one needs a lock that someone does not let go
/// of, it is refused alone, with an error whose [`Error::again`] says so.
pub fn run_batch(
    store: &mut dyn Store,
    jobs: &mut [&mut dyn Job],
    settings: &Settings,
    clock: &dyn Clock,
) -> Wakes {
    run_open(store, jobs, (0..jobs.len()).collect(), settings, clock)
}

/// Runs those that have no answer yet.
fn run_open(
    store: &mut dyn Store,
    jobs: &mut [&mut dyn Job],
    mut open: Vec<usize>,
    settings: &Settings,
    clock: &dyn Clock,
) -> Wakes {
    let mut conflicts = 0;
    while !open.is_empty() {
        match try_batch(store, jobs, &open, settings, clock) {
            Ok(wakes) => return wakes,
            Err(Fault::Culprit { index, error }) => {
                jobs[index].refuse(error);
                open.retain(|other| *other != index);
            }
            Err(Fault::Store(error))
                if error.again() == Some(Again::Conflict) && conflicts < CONFLICTS =>
            {
                conflicts += 1;
            }
            // Which of them waits for the lock is found by halves.
            Err(Fault::Store(error)) if error.again() == Some(Again::Locked) && open.len() > 1 => {
                let rest = open.split_off(open.len() / 2);
                let wakes = run_open(store, jobs, open, settings, clock);
                return wakes.and(run_open(store, jobs, rest, settings, clock));
            }
            Err(Fault::Store(error)) => {
                for index in open {
                    jobs[index].refuse(error.clone());
                }
                return Wakes::default();
            }
        }
    }
    Wakes::default()
}

/// Runs a command once on a transaction that somebody else commits; says whether it wrote.
///
/// An error means that what was written must be taken back; a refusal without writes is the
/// command's answer. Neither counts if the store left questions unanswered: then the command runs
/// again once they are loaded.
pub fn run_within(
    tx: &mut dyn Tx,
    job: &mut dyn Job,
    settings: &Settings,
    now: Timestamp,
) -> Result<bool> {
    match run_round(tx, &mut [job], &[0], settings, now) {
        Ok(notes) => Ok(notes.is_some()),
        Err(Fault::Culprit { error, .. } | Fault::Store(error)) => Err(error),
    }
}

/// How often commands run again because of other transactions before they are told so.
const CONFLICTS: usize = 20;

/// How often a store may load what it was asked for. Each round adds rows, so that few suffice.
const ROUNDS: usize = 50;

/// Why a batch came to nothing.
enum Fault {
    /// Because of this one command.
    Culprit { index: usize, error: Error },
    /// Because of the store.
    Store(Error),
}

fn try_batch(
    store: &mut dyn Store,
    jobs: &mut [&mut dyn Job],
    open: &[usize],
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Wakes, Fault> {
    let mut tx = store.begin().map_err(Fault::Store)?;
    for _ in 0..ROUNDS {
        let now = tx.now(clock).map_err(Fault::Store)?;
        let round = run_round(&mut *tx, jobs, open, settings, now);
        if tx.load_missing().map_err(Fault::Store)? {
            continue;
        }
        let Some(notes) = round? else { return Ok(Wakes::default()) };
        let wakes = notes.resolve(&mut *tx);
        // Names of lanes no command asked for may have to be loaded too.
        if wakes.as_ref().is_err_and(|error| error.again() == Some(Again::Miss))
            && tx.load_missing().map_err(Fault::Store)?
        {
            continue;
        }
        let wakes = wakes.map_err(Fault::Store)?;
        tx.commit(now).map_err(Fault::Store)?;
        return Ok(wakes);
    }
    Err(Fault::Store(Error::bug("the store was asked for more and more rows")))
}

/// Runs the commands once; nothing if none of them wrote.
fn run_round(
    tx: &mut dyn Tx,
    jobs: &mut [&mut dyn Job],
    open: &[usize],
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<Notes>, Fault> {
    let mut notes = Notes::default();
    let mut wrote = false;
    for &index in open {
        let job = &mut *jobs[index];
        let cx = Context::new(now, settings, job.seed());
        let mut recorder = Recorder::new(tx, &mut notes);
        let result = catch_unwind(AssertUnwindSafe(|| job.apply(&mut recorder, &cx)));
        let (writes, latched) = recorder.finish();
        wrote |= writes > 0;
        // The latch is trusted, not the rule: a rule that swallowed an error of the store has
        // answered from what it did not see.
        let refusal = match (latched, result) {
            // The others go on, so that what they miss is loaded with it.
            (Some(error), _) if error.again() == Some(Again::Miss) => continue,
            (Some(error), _) if concerns_store(&error) => return Err(Fault::Store(error)),
            (Some(error), _) => return Err(Fault::Culprit { index, error }),
            (None, Ok(Ok(()))) => continue,
            (None, Ok(Err(error))) => error,
            (None, Err(panic)) => report_panic(job.name(), &*panic),
        };
        if writes > 0 {
            return Err(Fault::Culprit { index, error: refusal });
        }
        job.refuse(refusal);
    }
    Ok(wrote.then_some(notes))
}

/// Whether an error is about the store and not about a command.
pub(crate) fn concerns_store(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::StorageFull | Code::ReadOnly)
}

fn report_panic(command: &str, panic: &(dyn Any + Send)) -> Error {
    let said = (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let incident = Context::incident();
    tracing::error!(%incident, command, said, "a rule panicked");
    Error::bug(format!("the rule of `{command}` panicked; look for {incident} in the log"))
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
