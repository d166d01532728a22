//! The life of a worker: it registers, claims, renews, and drains.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everloom_core::{
    Claim, HeartbeatWorker, LeaseLost, LeaseToken, Leased, RegisterWorker, Renew, Renewal, Result,
};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::ctx::{Ctx, Orders};
use super::{Handled, Worker, run};
use crate::backend::Calls;
use crate::handler::Error;

/// How long one claim waits for work.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How much to claim at once at most.
const BATCH: usize = 100;

/// A worker at work. Dropping it stops it at once: its work is found when its leases run out.
#[must_use = "a worker stops when this is dropped"]
pub struct RunningWorker {
    shared: Arc<Shared>,
    pump: Option<JoinHandle<()>>,
}

/// What was left when a worker was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Handlers that had not come to an end, whose work was given back.
    pub given_back: usize,
}

/// What all parts of a worker share.
pub(crate) struct Shared {
    calls: Calls,
    instance: String,
    name: String,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    handlers: BTreeMap<String, Handled>,
    concurrency: usize,
    lease_ttl: Duration,
    data: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    running: Mutex<HashMap<LeaseKey, Held>>,
    freed: Notify,
    stopping: watch::Sender<bool>,
}

type LeaseKey = (everloom_core::ExecutionId, everloom_core::Epoch);

/// Work a handler runs for.
struct Held {
    ctx: Ctx,
    kind: String,
    lease: LeaseToken,
    /// Until when the lease lasts, by this process's clock.
    until: Instant,
}

pub(super) fn start(worker: Worker) -> RunningWorker {
    let shared = Shared::of(worker);
    let pump = tokio::spawn(Arc::clone(&shared).run());
    RunningWorker { shared, pump: Some(pump) }
}

impl RunningWorker {
    /// The process: what its claims name as their worker.
    pub fn instance(&self) -> &str {
        &self.shared.instance
    }

    /// How many handlers run.
    pub fn running(&self) -> usize {
        self.shared.running().len()
    }

    /// Claims nothing more, lets what runs come to an end within the grace, and gives back what is
    /// left then. Nothing is lost, and nothing counts as a failure.
    pub async fn shutdown(mut self, grace: Duration) -> Drained {
        self.shared.stopping.send_replace(true);
        let deadline = tokio::time::Instant::now() + grace;
        let drained = tokio::time::timeout_at(deadline, self.shared.idle()).await.is_ok();
        let given_back = match drained {
            true => 0,
            false => {
                let running = self.shared.running();
                for held in running.values() {
                    held.ctx.orders().send_modify(|orders| orders.stop = true);
                }
                running.len()
            }
        };
        self.shared.idle().await;
        if let Some(pump) = self.pump.take() {
            pump.abort();
            // It ends by the abort, or did before.
            let _ = pump.await;
        }
        Drained { given_back }
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.abort();
        }
    }
}

impl Shared {
    pub(crate) fn of(worker: Worker) -> Arc<Self> {
        Arc::new(Self {
            instance: worker.instance_id(),
            calls: worker.calls,
            name: worker.name,
            lanes: worker.lanes,
            capabilities: worker.capabilities,
            handlers: worker.handlers,
            concurrency: worker.concurrency,
            lease_ttl: worker.lease_ttl,
            data: Arc::new(worker.data),
            running: Mutex::default(),
            freed: Notify::new(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Claims what there is and runs it to its end, without any clock; says whether there was
    /// anything. Dropping the future stops all of it where it is.
    pub(crate) async fn work_off(self: &Arc<Self>) -> Result<bool> {
        let mut handlers = JoinSet::new();
        let claim = Claim { wait: Duration::ZERO, ..self.claim(self.room()) };
        let asked = Instant::now();
        let claimed = self.calls.backend().claim(claim).await?;
        let any = !claimed.is_empty();
        for leased in claimed.leases {
            self.take(&mut handlers, leased, asked);
        }
        while handlers.join_next().await.is_some() {}
        Ok(any)
    }

    fn claim(&self, (kinds, max): (Vec<String>, usize)) -> Claim {
        Claim {
            namespace: self.calls.here(),
            lanes: self.lanes.clone(),
            kinds,
            capabilities: self.capabilities.clone(),
            max,
            lease_ttl: self.lease_ttl,
            wait: PATIENCE,
            ..Claim::new(&self.instance)
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<LeaseKey, Held>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no handler runs.
    async fn idle(&self) {
        loop {
            let freed = self.freed.notified();
            if self.running().is_empty() {
                return;
            }
            freed.await;
        }
    }

    async fn run(self: Arc<Self>) {
        let mut handlers = JoinSet::new();
        let mut stopping = self.stopping.subscribe();
        self.register().await;
        let renewing = self.renew_forever();
        let beating = self.beat_forever();
        let claiming = async {
            let stopped = stopping.wait_for(|stopping| *stopping);
            tokio::select! {
                _ = stopped => {}
                () = self.claim_forever(&mut handlers) => {}
            }
            // What runs goes on until the worker is dropped.
            while handlers.join_next().await.is_some() {}
            std::future::pending::<()>().await;
        };
        tokio::join!(renewing, beating, claiming);
    }

    /// Makes the worker known; what it had before is taken from it.
    pub(crate) async fn register_once(&self) -> Result<()> {
        let register = RegisterWorker {
            namespace: self.calls.here(),
            lanes: self.lanes.clone(),
            kinds: self.handlers.keys().cloned().collect(),
            capabilities: self.capabilities.clone(),
            ..RegisterWorker::new(&self.name, &self.instance)
        };
        self.calls.apply(register).await.map(drop)
    }

    async fn register(&self) {
        loop {
            match self.register_once().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(worker = self.instance, %error, "can not register");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn beat_forever(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(20)).await;
            let (namespace, instance) = (self.calls.here(), self.instance.clone());
            match self.calls.apply(HeartbeatWorker { namespace, instance }).await {
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(worker = self.instance, %error, "can not say it is alive");
                }
            }
        }
    }

    /// The kinds of which more may run, and how many in all.
    fn room(&self) -> (Vec<String>, usize) {
        let running = self.running();
        let most = self.concurrency.saturating_sub(running.len());
        let mut room = most;
        let mut kinds = Vec::new();
        for (kind, handled) in &self.handlers {
            let Some(limit) = handled.most else {
                kinds.push(kind.clone());
                continue;
            };
            let left =
                limit.saturating_sub(running.values().filter(|one| one.kind == *kind).count());
            if left > 0 {
                // One claim must not bring more of a kind than may run.
                room = room.min(left);
                kinds.push(kind.clone());
            }
        }
        (kinds, room.min(BATCH))
    }

    async fn claim_forever(self: &Arc<Self>, handlers: &mut JoinSet<()>) {
        loop {
            let freed = self.freed.notified();
            let (kinds, max) = self.room();
            if max == 0 || kinds.is_empty() {
                freed.await;
                continue;
            }
            while handlers.try_join_next().is_some() {}
            let full = kinds.len() < self.handlers.len();
            let asked = Instant::now();
            let claiming = self.calls.backend().claim(self.claim((kinds, max)));
            let claimed = tokio::select! {
                claimed = claiming => claimed,
                // Work of a kind that was full may be there.
                () = freed, if full => continue,
            };
            match claimed {
                Ok(claimed) => {
                    for leased in claimed.leases {
                        self.take(handlers, leased, asked);
                    }
                }
                Err(error) => {
                    tracing::warn!(worker = self.instance, %error, "can not claim");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(self: &Arc<Self>, handlers: &mut JoinSet<()>, leased: Leased, asked: Instant) {
        let shared = Arc::clone(self);
        let lease = leased.lease.clone();
        let key = (lease.execution, lease.epoch);
        // By the engine's clock the lease began when it was claimed: after it was asked for.
        let claimed_at = (leased.expires_at.before(self.lease_ttl), Instant::now());
        let until = asked + self.lease_ttl;
        let (calls, data) = (self.calls.clone(), Arc::clone(&self.data));
        let steps = leased.steps.clone();
        let whole = !leased.more_steps && steps.iter().all(|step| step.result.is_some());
        let ctx = Ctx::new(calls, leased, claimed_at, data, if whole { steps } else { vec![] });
        let kind = ctx.kind().to_owned();
        self.running().insert(key, Held { ctx: ctx.clone(), kind, lease, until });
        handlers.spawn(async move {
            let _gone = Gone { shared: Arc::clone(&shared), key };
            shared.handle(ctx, whole).await;
        });
    }

    async fn handle(&self, ctx: Ctx, whole: bool) {
        let Some(handled) = self.handlers.get(ctx.kind()) else {
            tracing::error!(kind = ctx.kind(), "was given work of a kind it has no handler for");
            return;
        };
        let prepared = async {
            let input = run::input(&self.calls, ctx.leased()).await?;
            if !whole {
                let steps = run::steps(&self.calls, ctx.leased()).await?;
                ctx.remember(steps);
            }
            Ok::<_, everloom_core::Error>(input)
        };
        match prepared.await {
            Ok(input) => {
                if let Some(resumption) = ctx.leased().resumption.clone() {
                    ctx.receive(resumption);
                }
                run::run(ctx.clone(), (handled.run)(ctx, input)).await;
            }
            Err(error) => {
                let failed = async move { Err(Error::from(error)) };
                run::run(ctx, Box::pin(failed)).await;
            }
        }
    }

    /// Prolongs all leases together, each three times in its life.
    async fn renew_forever(&self) {
        loop {
            tokio::time::sleep(self.lease_ttl / 3).await;
            let leases: Vec<_> = self.running().values().map(|held| held.lease.clone()).collect();
            for leases in leases.chunks(everloom_core::Limits::BATCH) {
                self.renew(leases.to_vec()).await;
            }
            self.give_up();
        }
    }

    async fn renew(&self, leases: Vec<LeaseToken>) {
        let asked = Instant::now();
        let renew = Renew { namespace: self.calls.here(), leases: leases.clone(), ttl: None };
        let renewals = match self.calls.apply(renew).await {
            Ok(renewed) => renewed.leases,
            Err(error) => {
                tracing::warn!(worker = self.instance, %error, "can not renew");
                return;
            }
        };
        let mut running = self.running();
        for (lease, renewal) in leases.iter().zip(renewals) {
            let Some(held) = running.get_mut(&(lease.execution, lease.epoch)) else { continue };
            match renewal {
                Renewal::Renewed { cancel, pause, .. } => {
                    held.until = asked + self.lease_ttl;
                    if cancel.is_some() || pause.is_some() {
                        let order = |orders: &mut Orders| {
                            (orders.cancel, orders.pause) = (cancel, pause);
                        };
                        held.ctx.orders().send_modify(order);
                    }
                }
                Renewal::Lost { why } => held.ctx.lose(why),
            }
        }
    }

    /// Takes leases that could not be prolonged in time for lost: by now another may have them.
    fn give_up(&self) {
        let now = Instant::now();
        for held in self.running().values().filter(|held| held.until <= now) {
            held.ctx.lose(LeaseLost::Expired);
        }
    }
}

/// Forgets work when its handler has come to an end, however it did.
struct Gone {
    shared: Arc<Shared>,
    key: LeaseKey,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.shared.running().remove(&self.key);
        self.shared.freed.notify_waiters();
    }
}
