use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use everloom_core::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Place;
use crate::fixtures::*;

/// A store with a clock that is moved by hand: where behaviours are tried.
///
/// Calls without a namespace are about the default one.
pub struct Lab {
    place: Box<dyn Place>,
    clock: HandClock,
    seeds: u64,
    /// How the engine under test behaves; may be changed at any time.
    pub settings: Settings,
}

struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Sends plain data through its JSON form, as every remote caller does: what JSON loses, no
/// behaviour gets to see.
fn over_the_wire<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_vec(value).expect("plain data has a JSON form");
    serde_json::from_slice(&text).expect("what was written can be read")
}

// Commands and queries are built where they are used, so they are taken by value.
#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference")]
impl Lab {
    /// When every lab begins.
    pub const BEGINNING: Timestamp = Timestamp::from_millis(1_893_456_000_000);

    /// How many ticks may be due at one moment before something is thought to be stuck.
    const TICKS: usize = 10_000;

    /// A lab over a fresh store, prepared as an engine prepares it.
    pub fn new(place: Box<dyn Place>) -> Self {
        let clock = HandClock(AtomicI64::new(Self::BEGINNING.as_millis()));
        let mut lab = Self { place, clock, seeds: 0, settings: Settings::default() };
        lab.ok(Prepare {});
        lab
    }

    /// The seed of the next command.
    pub fn seed(&mut self) -> Seed {
        self.seeds += 1;
        Seed::from_number(self.seeds)
    }

    /// A command for [`Lab::batch`].
    pub fn call<C: Command>(&mut self, command: C) -> Call<C> {
        Call::new(over_the_wire(&command), self.seed())
    }

    /// Runs commands in one transaction.
    pub fn batch(&mut self, jobs: &mut [&mut dyn Job]) -> Wakes {
        run_batch(self.place.store(), jobs, &self.settings, &self.clock)
    }

    /// Runs one command.
    pub fn apply<C: Command>(&mut self, command: C) -> Result<C::Output> {
        let mut call = self.call(command);
        self.batch(&mut [&mut call]);
        match call.into_answer() {
            Ok(output) => Ok(over_the_wire(&output)),
            Err(error) => Err(over_the_wire(&error)),
        }
    }

    /// Runs a command that is not refused.
    #[track_caller]
    pub fn ok<C: Command>(&mut self, command: C) -> C::Output {
        match self.apply(command) {
            Ok(output) => output,
            Err(error) => panic!("{} was refused: {error}", C::NAME),
        }
    }

    /// Runs a command that is not refused, whatever it answers.
    #[track_caller]
    pub fn run<C: Command>(&mut self, command: C) {
        self.ok(command);
    }

    /// Runs a command that is refused, and checks that nothing has changed.
    #[track_caller]
    pub fn refused<C: Command>(&mut self, command: C) -> Error {
        let before = self.snapshot();
        let error = match self.apply(command) {
            Ok(_) => panic!("{} was not refused", C::NAME),
            Err(error) => error,
        };
        assert_eq!(self.snapshot(), before, "{} was refused and changed something", C::NAME);
        error
    }

    /// Runs a command that is refused because its lease is lost, and tells why that is.
    #[track_caller]
    pub fn lost<C: Command>(&mut self, command: C) -> LeaseLost {
        let error = self.refused(command);
        error.why_lease_lost().unwrap_or_else(|| panic!("not a lost lease: {error}"))
    }

    /// Asks a question.
    pub fn ask<Q: Query>(&mut self, query: Q) -> Result<Q::Output> {
        let mut read = self.place.store().read()?;
        let now = self.clock.now().max(read.last_now()?);
        query.run(&mut *read, &Context::new(now, &self.settings, Seed::from_number(0)))
    }

    /// Asks a question that has an answer.
    #[track_caller]
    pub fn see<Q: Query>(&mut self, query: Q) -> Q::Output {
        match self.ask(query) {
            Ok(output) => output,
            Err(error) => panic!("{} was refused: {error}", Q::NAME),
        }
    }

    /// What the store says it is.
    pub fn store_info(&mut self) -> StoreInfo {
        self.place.store().info()
    }

    /// Closes the store and opens it again.
    pub fn reopen(&mut self) {
        self.place.reopen();
        self.ok(Prepare {});
    }
}

/// Time.
impl Lab {
    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the clock and does nothing else.
    pub fn set_clock(&mut self, at: Timestamp) {
        self.clock.0.store(at.as_millis(), Ordering::Relaxed);
    }

    /// Lets time pass unnoticed: the clock moves, what is due is not done.
    pub fn pass(&mut self, time: Duration) {
        self.set_clock(self.now() + time);
    }

    /// Does one slice of what is due.
    #[track_caller]
    pub fn tick(&mut self) -> Ticked {
        self.ok(Tick::default())
    }

    /// Lets time pass and does everything that is due then.
    #[track_caller]
    pub fn advance(&mut self, time: Duration) {
        self.pass(time);
        for _ in 0..Self::TICKS {
            let ticked = self.tick();
            if ticked.requests {
                self.apply_inbox();
            }
            if !ticked.more {
                return;
            }
        }
        panic!("after {} ticks something is still due", Self::TICKS);
    }
}

/// Work.
impl Lab {
    /// Submits one execution.
    pub fn submission(&mut self, new: NewExecution) -> Result<Submission> {
        let submitted = self.apply(submit([new]))?;
        Ok(submitted.executions[0])
    }

    /// Submits one execution that is new.
    #[track_caller]
    pub fn submit(&mut self, new: NewExecution) -> ExecutionId {
        match self.submission(new) {
            Ok(Submission::Created { id, .. }) => id,
            other => panic!("not created: {other:?}"),
        }
    }

    /// Submits several executions that are new.
    #[track_caller]
    pub fn submit_all(&mut self, new: impl IntoIterator<Item = NewExecution>) -> Vec<ExecutionId> {
        let submitted = self.ok(submit(new));
        submitted.executions.iter().map(Submission::id).collect()
    }

    /// What a claim gets.
    #[track_caller]
    pub fn claims(&mut self, claim: Claim) -> Vec<Leased> {
        self.ok(claim).leases
    }

    /// The ids of what a claim gets.
    #[track_caller]
    pub fn claimed_ids(&mut self, claim: Claim) -> Vec<ExecutionId> {
        self.claims(claim).iter().map(Leased::id).collect()
    }

    /// The next execution of the default lane.
    #[track_caller]
    pub fn claim(&mut self, worker: &str) -> Leased {
        self.claims(Claim::new(worker)).pop().expect("there is something to claim")
    }

    /// Whether there is nothing to claim in the default lane for a worker that serves everything.
    #[track_caller]
    pub fn nothing_to_claim(&mut self) -> bool {
        self.ok(Claim::new("nobody")).is_empty()
    }

    /// Leases a named execution to the worker `w`.
    #[track_caller]
    pub fn take(&mut self, id: ExecutionId) -> Leased {
        match self.ok(by_id(id, "w")) {
            ClaimedExecution::Leased(leased) => *leased,
            other => panic!("not leased: {other:?}"),
        }
    }

    /// Reserves a named execution for the worker `w`.
    #[track_caller]
    pub fn reserve(&mut self, id: ExecutionId) -> Granted {
        let claim = ClaimExecution { reserve: Some(secs(60)), ..by_id(id, "w") };
        match self.ok(claim) {
            ClaimedExecution::Granted(granted) => granted,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Submits an execution and leases it to the worker `w`.
    #[track_caller]
    pub fn lease(&mut self, new: NewExecution) -> Leased {
        let id = self.submit(new);
        self.take(id)
    }

    /// Submits an execution and brings it into a state. Time passes only on the way to `expired`.
    #[track_caller]
    pub fn bring(&mut self, status: Status, mut new: NewExecution) -> ExecutionId {
        match status {
            Status::Delayed => new.delay = Some(hours(1)),
            Status::Expired => new.deadline_at = Some(self.now() + secs(1)),
            Status::RateLimited => new.policy.budgets.push(self.nothing()),
            _ => {}
        }
        let id = self.submit(new);
        match status {
            Status::Waiting | Status::Delayed => {}
            Status::Active => drop(self.take(id)),
            Status::Granted => drop(self.reserve(id)),
            Status::Resumable => {
                let lease = self.take(id);
                self.ok(delay(&lease, Duration::ZERO));
            }
            Status::Suspended => {
                let lease = self.take(id);
                self.ok(Suspend::new(lease.lease, Condition::Operator));
            }
            Status::RateLimited => drop(self.ok(by_id(id, "w"))),
            Status::Completed => {
                let lease = self.take(id);
                self.ok(complete(&lease));
            }
            Status::Failed => {
                let lease = self.take(id);
                self.ok(fail(&lease, Failure::permanent("broken")));
            }
            Status::Cancelled => self.run(Cancel::new(id)),
            Status::Expired => self.advance(secs(1)),
            Status::WaitingChildren | Status::Skipped => {
                panic!("what stands alone is never {status}")
            }
        }
        assert_eq!(self.status(id), status);
        id
    }
}

/// The inbox.
impl Lab {
    /// Writes a request into the inbox, as any program may that can write rows.
    #[track_caller]
    pub fn request(&mut self, request: NewRequest) {
        let mut write = WriteRequest { request, seed: self.seed(), answer: None };
        self.batch(&mut [&mut write]);
        write.answer.expect("the write was run").expect("a request can be written");
    }

    /// Applies everything that waits in the inbox; tells how much was applied and refused.
    #[track_caller]
    pub fn apply_inbox(&mut self) -> (usize, usize) {
        let (mut applied, mut refused) = (0, 0);
        for _ in 0..Self::TICKS {
            let done = self.ok(ApplyInbox::default());
            applied += done.applied;
            refused += done.refused;
            if !done.more {
                return (applied, refused);
            }
        }
        panic!("the inbox does not get empty");
    }

    /// The requests that were refused.
    #[track_caller]
    pub fn refused_requests(&mut self) -> Vec<RefusedRequest> {
        self.see(ListRefusedRequests { limit: Limits::PAGE, ..ListRefusedRequests::default() })
            .requests
    }
}

/// Writes a row of the inbox, beside all rules.
struct WriteRequest {
    request: NewRequest,
    seed: Seed,
    answer: Option<Result<()>>,
}

impl Job for WriteRequest {
    fn name(&self) -> &'static str {
        "write_request"
    }

    fn seed(&self) -> Seed {
        self.seed
    }

    fn apply(&mut self, tx: &mut dyn Tx, _: &Context) -> Result<()> {
        tx.add_request(&self.request)?;
        self.answer = Some(Ok(()));
        Ok(())
    }

    fn refuse(&mut self, error: Error) {
        self.answer = Some(Err(error));
    }
}

/// Looking.
impl Lab {
    /// An execution.
    #[track_caller]
    pub fn get(&mut self, id: ExecutionId) -> ExecutionView {
        self.see(get(id))
    }

    /// What an execution is doing.
    #[track_caller]
    pub fn status(&mut self, id: ExecutionId) -> Status {
        self.get(id).status
    }

    /// How an execution ended.
    #[track_caller]
    pub fn end(&mut self, id: ExecutionId) -> End {
        self.get(id).end.expect("it has ended")
    }

    /// An execution's attempts.
    #[track_caller]
    pub fn attempts(&mut self, id: ExecutionId) -> Vec<AttemptView> {
        self.see(attempts(id)).attempts
    }

    /// All executions that match, page by page.
    #[track_caller]
    pub fn list(&mut self, mut query: ListExecutions) -> Vec<ExecutionView> {
        let mut all = Vec::new();
        loop {
            let page = self.see(query.clone());
            all.extend(page.executions);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return all,
            }
        }
    }

    /// All events that match, page by page.
    #[track_caller]
    pub fn events(&mut self, filter: EventFilter) -> Vec<Event> {
        let mut query = ReadEvents { filter, ..ReadEvents::default() };
        let mut all = Vec::new();
        loop {
            let page = self.see(query.clone());
            all.extend(page.events);
            if page.at_end {
                return all;
            }
            query.from = From::After(page.next);
        }
    }

    /// The kinds of all events about an execution.
    #[track_caller]
    pub fn history(&mut self, id: ExecutionId) -> Vec<EventKind> {
        self.events(about(id)).iter().map(|event| event.kind).collect()
    }

    /// How many executions are in which state.
    #[track_caller]
    pub fn counts(&mut self) -> Counts {
        self.see(CountExecutions { namespace: ns(), lane: None })
    }

    /// A lane.
    #[track_caller]
    pub fn lane(&mut self, name: &str) -> LaneView {
        let lanes = self.see(lanes()).lanes;
        lanes.into_iter().find(|lane| lane.lane == name).expect("the lane exists")
    }

    /// The registered workers.
    #[track_caller]
    pub fn workers(&mut self) -> Vec<WorkerView> {
        self.see(workers()).workers
    }

    /// The words that explain an execution, all in one.
    #[track_caller]
    pub fn explain(&mut self, id: ExecutionId) -> String {
        let said = self.see(Explain { namespace: ns(), execution: id });
        [vec![said.summary], said.blocked_by].concat().join(" ")
    }
}
