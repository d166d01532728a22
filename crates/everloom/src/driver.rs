//! The handle between async callers and a store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use everloom_core::{
    ApplyInbox, Call, Code, Command, Error, Query, Result, Seed, Settings, Source, Store, StoreInfo,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::clock::{self, Ticked, Timekeeper};
use crate::hub::Hub;
use crate::queue::{Phase, Queue, Taken, Visit, closing};
use crate::readers::{Readers, ask};
use crate::request::{Pending, Request, ToCaller, ToNobody};
use crate::sync::{lock, panic_text};
use crate::{watcher, writer};

/// How an engine goes about its work.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Whether a caller that is alone runs its command on its own thread (yes). That saves it the
    /// way to the writer thread and back, and blocks its runtime thread for one commit.
    pub(crate) inline: bool,
    /// Commands of one transaction (512).
    pub(crate) batch: usize,
    /// Queries that run at the same time (4).
    pub(crate) readers: usize,
    /// How often to look whether another process has changed something, while someone waits for
    /// that (100 ms).
    pub(crate) poll: Duration,
    /// How often those who wait look again although nobody woke them (5 s).
    pub(crate) recheck: Duration,
    /// How long a command is tried again that needs a lock someone else holds (5 s).
    pub(crate) busy_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inline: true,
            batch: 512,
            readers: 4,
            poll: Duration::from_millis(100),
            recheck: Duration::from_secs(5),
            busy_timeout: Duration::from_secs(5),
        }
    }
}

/// What closing left undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Commands that had no answer when the grace was over. Those not yet begun were refused;
    /// those under way are still answered.
    pub abandoned: usize,
}

/// How long to wait before the inbox is tried again after an error.
const INBOX_RETRY: Duration = Duration::from_secs(5);

/// How long closing waits for the store to close, however short the grace.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// How long a command that needs a lock is put off.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Runs commands and queries on a store. When the last clone is dropped, everything stops.
#[derive(Clone)]
pub(crate) struct Driver(Arc<LastOneOut>);

/// Kept by the clones of the handle, and not by threads and tasks, so that it is dropped when
/// nobody can call any more.
struct LastOneOut(Arc<Inner>);

impl Drop for LastOneOut {
    fn drop(&mut self) {
        self.0.stop_tasks();
        self.0.queue.advance(Phase::Emptying);
    }
}

/// What the handle, the writer thread and the tasks share.
pub(crate) struct Inner {
    pub(crate) queue: Queue,
    pub(crate) readers: Readers,
    pub(crate) hub: Arc<Hub>,
    pub(crate) settings: Settings,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Timekeeper>,
    info: StoreInfo,
    runtime: Handle,
    /// What runs in the background; absent after the end.
    tasks: Mutex<Option<Vec<AbortHandle>>>,
    /// Callers that wait for the answer to a command.
    callers: AtomicUsize,
}

/// Counts as a caller for as long as it lives.
struct Caller<'a>(&'a AtomicUsize);

impl<'a> Caller<'a> {
    fn new(callers: &'a AtomicUsize) -> Self {
        callers.fetch_add(1, Ordering::Relaxed);
        Self(callers)
    }

    fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver {
    /// Starts a writer thread for each store, and the tasks on the current runtime, which must have
    /// time enabled.
    pub(crate) fn start(
        mut stores: Vec<Box<dyn Store>>,
        settings: Settings,
        clock: Arc<dyn Timekeeper>,
        options: Options,
    ) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::new(Code::Unavailable, "open the engine from within a tokio runtime")
        })?;
        let Some(first) = stores.first_mut() else {
            return Err(Error::bug("an engine needs a store"));
        };
        let info = first.info();
        let hub = Arc::new(Hub::default());
        let told = Arc::clone(&hub);
        let listens = first.listen(Arc::new(move |news| told.hear(news)))?;
        let watched = info.store != "memory" && !listens;
        let writers = stores.len();
        let inner = Arc::new(Inner {
            queue: Queue::new(stores),
            readers: Readers::new(options.readers),
            hub,
            settings,
            options,
            clock,
            info,
            runtime,
            tasks: Mutex::new(Some(Vec::new())),
            callers: AtomicUsize::new(0),
        });
        let (answers, batches) = mpsc::unbounded_channel();
        for _ in 0..writers {
            let shared = Arc::clone(&inner);
            let answers = answers.clone();
            let thread = thread::Builder::new().name("everloom-writer".into());
            thread.spawn(move || writer::work(&shared, &answers)).map_err(|error| {
                Error::new(Code::Unavailable, format!("can not start a writer thread: {error}"))
            })?;
        }
        // Not among the tasks that are stopped: it ends when the writers have left.
        inner.runtime.spawn(writer::hand_out(batches));
        if watched {
            inner.spawn_task(watcher::watch(Arc::clone(&inner)));
        }
        Ok(Self(Arc::new(LastOneOut(inner))))
    }

    /// Runs a command.
    pub(crate) async fn apply<C: Command>(&self, command: C) -> Result<C::Output> {
        self.0.0.apply_with(command, drop).await
    }

    /// Runs a command. An output that comes to be and reaches nobody, because the caller has
    /// gone, is given to `on_undelivered`, once, on any thread.
    pub(crate) async fn apply_with<C: Command>(
        &self,
        command: C,
        on_undelivered: impl FnOnce(C::Output) + Send + 'static,
    ) -> Result<C::Output> {
        self.0.0.apply_with(command, on_undelivered).await
    }

    /// Runs a command that nobody waits for. Never blocks, and works also while closing.
    pub(crate) fn spawn<C: Command>(&self, command: C) {
        let call = Call::new(command, Seed::random());
        if self.0.0.queue.push_consequence(Box::new(Request::new(call, ToNobody))).is_err() {
            tracing::debug!(command = C::NAME, "the engine has stopped; a command was dropped");
        }
    }

    /// Answers a query.
    pub(crate) async fn query<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.0.0.query(query).await
    }

    /// Runs something on the store itself, on the writer thread between two batches.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        visit: impl FnOnce(&mut dyn Store) -> T + Send + 'static,
    ) -> Result<T> {
        self.0.0.with_store(visit).await
    }

    /// As [`Driver::with_store`], for something nobody waits for. Never blocks.
    pub(crate) fn visit(&self, visit: impl FnOnce(&mut dyn Store) + Send + 'static) {
        let visit: Visit = Box::new(move |store| {
            // A panic is in the log.
            let _ = guard("visit to the store", || visit(store));
        });
        if self.0.0.queue.push_visit(visit).is_err() {
            tracing::debug!("the engine is closing; a visit to the store was dropped");
        }
    }

    /// Lets time pass: runs the command that does what is due, whenever something is.
    pub(crate) fn start_clock<C: Command>(
        &self,
        tick: impl Fn() -> C + Send + Sync + 'static,
        slice: fn(C::Output) -> Ticked,
    ) {
        let inner = Arc::clone(&self.0.0);
        inner.hub.expect_time_to_matter();
        self.0.0.spawn_task(async move {
            let run = || async {
                let ticked = inner.apply_with(tick(), drop).await.map(slice)?;
                Ok(if ticked.requests { inner.apply_inbox(ticked).await } else { ticked })
            };
            clock::run(&*inner.clock, inner.hub.alarm(), run).await;
        });
    }

    /// What those who wait are told by.
    pub(crate) fn hub(&self) -> &Hub {
        &self.0.0.hub
    }

    /// How the engine goes about its work.
    pub(crate) fn options(&self) -> &Options {
        &self.0.0.options
    }

    /// What the store is.
    pub(crate) fn info(&self) -> &StoreInfo {
        &self.0.0.info
    }

    /// Refuses new calls, finishes what waits within the grace, and stops everything.
    pub(crate) async fn close(&self, grace: Duration) -> Closed {
        let inner = &self.0.0;
        let deadline = Instant::now() + grace;
        inner.stop_tasks();
        inner.queue.advance(Phase::Closing);
        inner.hub.wake_everyone();
        // Whether it settles or not, what is left is counted below.
        let _ = timeout_at(deadline, inner.queue.settled()).await;
        let (jobs, running) = inner.queue.stop();
        let abandoned = writer::refuse(jobs) + running;
        let patience = deadline.saturating_duration_since(Instant::now()).max(LAST_MOMENT);
        if running == 0 && timeout(patience, inner.queue.ended()).await.is_err() {
            tracing::warn!("the store takes long to close; not waiting for it");
        }
        Closed { abandoned }
    }
}

#[cfg(test)]
impl Driver {
    /// What waits for the store.
    pub(crate) fn queue(&self) -> &Queue {
        &self.0.0.queue
    }
}

impl Inner {
    pub(crate) async fn apply_with<C: Command, F: FnOnce(C::Output) + Send + 'static>(
        &self,
        command: C,
        on_undelivered: F,
    ) -> Result<C::Output> {
        let caller = Caller::new(&self.callers);
        let call = Call::new(command, Seed::random());
        if self.options.inline && caller.is_alone() && self.queue.is_lonely() {
            // A caller in a loop would otherwise never let go of its runtime thread; and others
            // that are about to call do so meanwhile.
            yield_now().await;
            if caller.is_alone()
                && let Some(taken) = self.queue.take_if_lonely()
            {
                return self.run_alone(taken, call);
            }
        }
        let (reply, answer) = oneshot::channel();
        let reply = ToCaller { reply, on_undelivered };
        self.queue.push(Box::new(Request::new(call, reply)))?;
        match answer.await {
            Ok(answer) => answer.accept(),
            Err(_) => Err(lost(C::NAME)),
        }
    }

    fn run_alone<C: Command>(&self, mut taken: Taken<'_>, mut call: Call<C>) -> Result<C::Output> {
        let wakes = writer::run(self, taken.store(), &mut [&mut call]);
        taken.ran_alone();
        self.hub.publish(wakes);
        call.into_answer()
    }

    /// Applies a slice of the inbox. Strangers write there: what goes wrong is tried again after a
    /// while, and time passes all the same.
    async fn apply_inbox(&self, ticked: Ticked) -> Ticked {
        match self.apply_with(ApplyInbox::default(), drop).await {
            Ok(done) => Ticked { more: ticked.more || done.more, ..ticked },
            Err(error) => {
                tracing::warn!(%error, "the inbox could not be applied; trying again");
                let again = self.clock.now() + INBOX_RETRY;
                let next_due = ticked.next_due.map_or(again, |due| due.min(again));
                Ticked { next_due: Some(next_due), ..ticked }
            }
        }
    }

    async fn query<Q: Query>(self: &Arc<Self>, query: Q) -> Result<Q::Output> {
        self.queue.check_open()?;
        if self.readers.through_writer() {
            return self.query_writer(query).await;
        }
        let permit = self.readers.permit().await?;
        let source = match self.readers.take_idle() {
            Some(source) => Some(source),
            None => self.with_store(|store| store.reader()).await??,
        };
        self.readers.learn(source.is_some());
        let Some(mut source) = source else {
            drop(permit);
            return self.query_writer(query).await;
        };
        let inner = Arc::clone(self);
        let asked = self.runtime.spawn_blocking(move || {
            // Given back after the source, so that who gets it finds the source.
            let _permit = permit;
            let (answer, sound) = ask(&query, &mut *source, &inner.settings, &*inner.clock);
            if sound {
                inner.readers.put_back(source);
            }
            answer
        });
        asked.await.unwrap_or_else(|_| Err(closing()))
    }

    /// A store that can not be read beside its writer lies in memory, so that asking it costs no
    /// more than the way to another thread.
    async fn query_writer<Q: Query>(self: &Arc<Self>, query: Q) -> Result<Q::Output> {
        if self.options.inline {
            yield_now().await;
        }
        let inner = Arc::clone(self);
        let visit = move |store: &mut dyn Store| {
            let source: &mut dyn Source = store;
            ask(&query, source, &inner.settings, &*inner.clock).0
        };
        match self.options.inline.then(|| self.queue.take_if_quiet()).flatten() {
            Some(mut taken) => visit(taken.store()),
            None => self.with_store(visit).await?,
        }
    }

    /// Runs something on the store that takes no longer than a look: at once if the store is
    /// free, else on the writer thread.
    pub(crate) async fn glance<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut dyn Store) -> T + Send + 'static,
    ) -> Result<T> {
        let free = self.queue.take_if_quiet();
        match free {
            Some(mut taken) => guard("look at the store", || look(taken.store())),
            None => self.with_store(look).await,
        }
    }

    async fn with_store<T: Send + 'static>(
        &self,
        visit: impl FnOnce(&mut dyn Store) -> T + Send + 'static,
    ) -> Result<T> {
        let (caller, answer) = oneshot::channel();
        let visit: Visit = Box::new(move |store| {
            if !caller.is_closed() {
                // When nobody is there any more, nobody misses it.
                let _ = caller.send(guard("visit to the store", || visit(store)));
            }
        });
        self.queue.push_visit(visit)?;
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Runs a command again in a while, apart from others.
    pub(crate) fn put_off(self: &Arc<Self>, job: Box<dyn Pending>, since: std::time::Instant) {
        let inner = Arc::clone(self);
        self.runtime.spawn(async move {
            sleep(BETWEEN_TRIES).await;
            if let Err(job) = inner.queue.push_apart(job, since) {
                job.deliver();
            }
        });
    }

    fn spawn_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = lock(&self.tasks).as_mut() {
            tasks.push(self.runtime.spawn(task).abort_handle());
        }
    }

    fn stop_tasks(&self) {
        for task in lock(&self.tasks).take().into_iter().flatten() {
            task.abort();
        }
    }
}

/// Turns a panic into an error.
fn guard<T>(what: &str, act: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let said = panic_text(&*panic);
        tracing::error!(what, said, "a panic");
        Error::bug(format!("the {what} panicked, see the log"))
    })
}

/// Only a bug in the writer drops a command without an answer.
fn lost(command: &str) -> Error {
    Error::bug(format!(
        "`{command}` got no answer, see the log; it may or may not have been carried out"
    ))
}
