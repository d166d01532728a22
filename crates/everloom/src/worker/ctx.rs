//! What a handler knows of its work, and what it can do meanwhile.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use everloom_core::{
    Append, Appended, CancelRequest, Command, Epoch, ExecutionId, Fallback, LeaseLost, LeaseToken,
    Leased, NewFrame, PauseRequest, ReportProgress, Result, SetTags, Spend, Spent, StepView,
    TagChanges, Tags, Timestamp,
};
use tokio::sync::watch;

use super::park::Waits;
use crate::backend::Calls;
use crate::handler::Error;

/// What a handler knows of its work, and what it can do meanwhile. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) calls: Calls,
    pub(super) leased: Leased,
    /// The engine's time at a moment of this process.
    anchor: (Timestamp, Instant),
    data: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    orders: watch::Sender<Orders>,
    memory: Mutex<Memory>,
}

/// What others want of a handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// Whether someone wants the work to stop.
    pub(super) cancel: Option<CancelRequest>,
    /// Whether the work should be given back until its budget has more.
    pub(super) pause: Option<PauseRequest>,
    /// Whether the work has another owner by now.
    pub(super) lost: Option<LeaseLost>,
    /// Whether the worker stops.
    pub(super) stop: bool,
}

/// What a run of a handler has come to know.
pub(super) struct Memory {
    pub(super) steps: HashMap<(String, u32), StepView>,
    /// How often each name was used by now.
    counts: HashMap<String, u32>,
    /// Calls and steps that are under way.
    pub(super) busy: usize,
    pub(super) waits: Waits,
    /// Whether the handler looks after cancels itself.
    pub(super) watches_cancel: bool,
}

/// For systems that can refuse what is too old: whoever has the work later has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The execution.
    pub execution: ExecutionId,
    /// Raised whenever the execution changes hands.
    pub epoch: Epoch,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.execution, self.epoch)
    }
}

impl Ctx {
    pub(super) fn new(
        calls: Calls,
        leased: Leased,
        claimed: (Timestamp, Instant),
        data: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
        steps: Vec<StepView>,
    ) -> Self {
        let steps = steps.into_iter().map(|step| ((step.name.clone(), step.occurrence), step));
        let memory = Memory {
            steps: steps.collect(),
            counts: HashMap::new(),
            busy: 0,
            waits: Waits::default(),
            watches_cancel: false,
        };
        Self(Arc::new(Inner {
            calls,
            leased,
            anchor: claimed,
            data,
            orders: watch::Sender::new(Orders::default()),
            memory: Mutex::new(memory),
        }))
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(&self, steps: Vec<StepView>) {
        let steps = steps.into_iter().map(|step| ((step.name.clone(), step.occurrence), step));
        self.memory().steps.extend(steps);
    }

    pub(super) fn orders(&self) -> &watch::Sender<Orders> {
        &self.0.orders
    }

    pub(super) fn lease(&self) -> LeaseToken {
        self.0.leased.lease.clone()
    }

    pub(super) fn here(&self) -> String {
        self.0.leased.namespace.clone()
    }

    /// Which of those with that name this is.
    pub(super) fn occurrence(&self, name: &str) -> u32 {
        let mut memory = self.memory();
        let count = memory.counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// Runs a command for this work. While one is under way the work is not put aside.
    pub(super) async fn apply<C: Command>(&self, command: C) -> Result<C::Output> {
        let _busy = Busy::new(self);
        let result = self.0.calls.apply(command).await;
        if let Some(why) = result.as_ref().err().and_then(everloom_core::Error::why_lease_lost) {
            self.lose(why);
        }
        result
    }

    pub(super) fn lose(&self, why: LeaseLost) {
        self.0.orders.send_modify(|orders| orders.lost = orders.lost.or(Some(why)));
    }
}

/// Keeps work from being put aside while something is under way.
pub(super) struct Busy(Ctx);

impl Busy {
    pub(super) fn new(ctx: &Ctx) -> Self {
        ctx.memory().busy += 1;
        Self(ctx.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.memory().busy -= 1;
    }
}

/// What the work is.
impl Ctx {
    /// The execution.
    pub fn id(&self) -> ExecutionId {
        self.0.leased.id()
    }

    /// The kind it was submitted as.
    pub fn kind(&self) -> &str {
        &self.0.leased.kind
    }

    /// 1, 2, 3 …
    pub fn attempt(&self) -> u32 {
        self.0.leased.attempt
    }

    /// Retries used so far.
    pub fn retries(&self) -> u32 {
        self.0.leased.retries
    }

    /// 1, and one more with every replay.
    pub fn run(&self) -> u32 {
        self.0.leased.run
    }

    /// Its labels when it was claimed.
    pub fn tags(&self) -> &Tags {
        &self.0.leased.tags
    }

    /// When it expires.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.0.leased.deadline_at
    }

    /// What to use instead, after this many retries, as the policy says.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.0.leased.fallback.as_ref()
    }

    /// What it waited for in its flow and was to be handed over, by name.
    pub fn bound(&self, name: &str) -> Option<&everloom_core::Bound> {
        self.0.leased.bound.get(name)
    }

    /// Everything that came with the claim.
    pub fn leased(&self) -> &Leased {
        &self.0.leased
    }

    /// The engine's time.
    pub fn now(&self) -> Timestamp {
        let (then, at) = self.0.anchor;
        then + at.elapsed()
    }

    /// What handlers share.
    ///
    /// # Panics
    ///
    /// If the worker was given no such value: give it one with [`super::Worker::data`].
    pub fn data<T: Send + Sync + 'static>(&self) -> Arc<T> {
        self.try_data().unwrap_or_else(|| {
            panic!("the worker has no {}; give it one with `.data(…)`", std::any::type_name::<T>())
        })
    }

    /// What handlers share, if the worker was given such a value.
    pub fn try_data<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.0.data.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast().ok()
    }

    /// For systems that can refuse what is too old.
    pub fn fence(&self) -> Fence {
        let LeaseToken { execution, epoch, .. } = self.0.leased.lease;
        Fence { execution, epoch }
    }

    /// A key for systems that do the same only once, stable across retries: use one for each thing
    /// they are asked to do.
    pub fn idempotency_key(&self, what: &str) -> String {
        format!("{}/{}/{what}", self.id(), self.run())
    }
}

/// Being asked to stop.
impl Ctx {
    /// Whether someone wants the work to stop, or another has it by now.
    pub fn is_cancelled(&self) -> bool {
        self.memory().watches_cancel = true;
        let orders = self.0.orders.borrow();
        orders.cancel.is_some() || orders.lost.is_some()
    }

    /// Waits until someone wants the work to stop. A handler that never asks is stopped where it
    /// waits next; one that does has until the grace is over to clean up and return.
    pub async fn cancelled(&self) {
        self.memory().watches_cancel = true;
        let mut orders = self.0.orders.subscribe();
        // The sender lives as long as this.
        let _ = orders.wait_for(|orders| orders.cancel.is_some() || orders.lost.is_some()).await;
    }
}

/// Telling others.
impl Ctx {
    /// Tells how far the work has come.
    pub async fn progress(&self, percent: u8, message: impl Into<String>) -> Result<(), Error> {
        let (percent, message) = (Some(percent), Some(message.into()));
        let (namespace, lease) = (self.here(), self.lease());
        Ok(self.apply(ReportProgress { namespace, lease, percent, message }).await?)
    }

    /// Sets a label.
    pub async fn tag(&self, key: impl Into<String>, value: impl Into<String>) -> Result<(), Error> {
        let changes = TagChanges::from([(key.into(), Some(value.into()))]);
        let (namespace, execution) = (self.here(), self.id());
        self.apply(SetTags { namespace, execution, tags: changes }).await?;
        Ok(())
    }
}

/// Putting out, and using up.
impl Ctx {
    /// Appends frames to the execution's stream: 1 to 1000, all or none. A handler that runs again
    /// appends again; steps tell what it has put out before.
    pub async fn append(&self, frames: Vec<NewFrame>) -> Result<Appended, Error> {
        let (namespace, lease) = (self.here(), self.lease());
        Ok(self.apply(Append { namespace, lease, frames }).await?)
    }

    /// Spends amounts of all budgets the execution is under. Spent once, however often the handler
    /// runs: the name tells what for.
    ///
    /// More than is left is an error that says so, and may pass: the budget decides what becomes of
    /// the work.
    pub async fn spend<D: Into<String>>(
        &self,
        what_for: &str,
        amounts: impl IntoIterator<Item = (D, u64)>,
    ) -> Result<Spent, Error> {
        let key = self.idempotency_key(&format!("spend {what_for}"));
        let spend = Spend::new(self.lease(), amounts).key(key);
        match self.apply(Spend { namespace: self.here(), ..spend }).await? {
            Spent::HardBreach { budget, dimension, asked, hard, spent, .. } => {
                let told = format!(
                    "{asked} of `{dimension}` are more than budget `{budget}` has left: {spent} of \
                     {hard} are spent"
                );
                Err(Error::retry(told).category("budget"))
            }
            spent => Ok(spent),
        }
    }
}
