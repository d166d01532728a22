//! The engine as programs see it: one async method for every command and query.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everloom_core::{
    About, AcknowledgeCancel, AttemptPage, BackupProgress, Cancel, CancelAcknowledged,
    CancelOutcome, ChangePriority, Claim, ClaimExecution, Claimed, ClaimedExecution, Command,
    Complete, Completed, CountExecutions, CountRequests, Counts, DEFAULT_NAME, Defaults, Delay,
    DelayOutcome, Delete, DeleteRequest, DrainLane, Epoch, Error, EventFilter, EventPage,
    ExecutionId, ExecutionPage, ExecutionResult, ExecutionView, ExpiredLeasePage, Explain,
    Explanation, Fail, FailOutcome, Failure, From, GetAbout, GetExecution, GetInput, GetResult,
    Heartbeat, HeartbeatWorker, Hold, HoldOutcome, LaneChanged, LanePage, LeaseToken, Leased,
    Limits, ListAttempts, ListExecutions, ListExpiredLeases, ListLanes, ListNamespaces,
    ListRefusedRequests, ListWorkers, MarkWorkerDead, MarkedDead, NamespacePage, NewExecution,
    PauseLane, Payload, PriorityChanged, PutLane, PutNamespace, Query, ReadEvents, ReadyWork,
    RedeemGrant, RefusedRequestPage, RegisterWorker, Registration, Release, ReleaseOutcome, Renew,
    Renewal, Replay, Replayed, ReportProgress, RequestCounts, RequestId, Result, ResumeLane,
    RetryRequest, RevokeLease, RevokeOutcome, Route, SetTags, Status, Submission, Submit,
    Submitted, TagChanges, Tagged, Timestamp, Unhold, WorkerPage,
};
use tokio::time::{Instant, timeout_at};

use crate::driver::{Closed, Driver};
use crate::follow::Follow;
use crate::hub::Interest;
use crate::open::OpenOptions;

/// A durable execution engine: submits work, hands it to workers, and brings every execution to
/// exactly one terminal state, whatever crashes in between.
///
/// Clones are cheap and share everything. Methods act in one namespace, `default` unless chosen
/// with [`Engine::namespace`].
///
/// ```
/// use everloom::{Claim, Engine, NewExecution, Payload};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let work = engine.submit(NewExecution::new("greet").input(Payload::bytes("world"))).await?;
/// let claimed = engine.claim(Claim::new("worker-1")).await?;
/// let lease = &claimed.leases[0].lease;
/// engine.complete(lease, Payload::bytes("hello world")).await?;
/// let end = engine.wait(work.id()).await?;
/// assert_eq!(end.result.unwrap().bytes, b"hello world");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    namespace: Arc<str>,
}

/// What all handles of one database share.
pub(crate) struct Shared {
    driver: Driver,
    closed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(driver: Driver) -> Self {
        Self { driver, closed: AtomicBool::new(false) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.driver().info().store)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Opening, closing, and the way to every command and query.
impl Engine {
    /// Opens a database with the usual options. See [`OpenOptions::open`].
    pub async fn open(url: &str) -> Result<Self> {
        Self::options().open(url).await
    }

    /// Options to open a database with.
    pub fn options() -> OpenOptions {
        OpenOptions::default()
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, namespace: Arc::from(DEFAULT_NAME) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    /// The same engine, acting in another namespace.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), namespace: Arc::from(name) }
    }

    pub(crate) fn here(&self) -> String {
        self.namespace.to_string()
    }

    /// Runs any command as it is, in the namespace it names.
    pub async fn apply<C: Command>(&self, command: C) -> Result<C::Output> {
        self.driver().apply(command).await
    }

    /// Answers any query as it is, in the namespace it names.
    pub async fn ask<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.driver().query(query).await
    }

    /// What the engine is and can.
    pub async fn about(&self) -> Result<About> {
        let about = self.ask(GetAbout {}).await?;
        Ok(About { store: Some(self.driver().info().clone()), ..about })
    }

    /// Copies the whole database to a new file while everything goes on.
    pub async fn backup_to(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, |_| {}).await
    }

    /// As [`Engine::backup_to`], telling how far it has come. Dropping the future abandons the
    /// backup and removes what there is of it.
    pub async fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(BackupProgress),
    ) -> Result<()> {
        // Small enough that commands between two steps do not notice.
        const PAGES: usize = 256;
        let path = path.as_ref().to_owned();
        let mut abandon = AbandonBackup(Some(self.driver().clone()));
        loop {
            let to = path.clone();
            let step = self.driver().with_store(move |store| store.backup(&to, PAGES)).await?;
            let done = match step {
                Ok(done) => done,
                Err(error) => {
                    abandon.0 = None;
                    return Err(error);
                }
            };
            progress(done);
            if done.is_complete() {
                abandon.0 = None;
                return Ok(());
            }
        }
    }

    /// Refuses new calls, finishes what waits within the grace, and stops. Never fails; says what
    /// it abandoned. Closes every handle of the database in this process.
    pub async fn close(&self, grace: Duration) -> Closed {
        self.shared.closed.store(true, Ordering::Release);
        self.driver().close(grace).await
    }
}

/// Forgets a backup whose caller has gone.
struct AbandonBackup(Option<Driver>);

impl Drop for AbandonBackup {
    fn drop(&mut self) {
        if let Some(driver) = self.0.take() {
            driver.visit(|store| store.abandon_backup());
        }
    }
}

/// Submitting work and waiting for it.
impl Engine {
    /// Submits one execution.
    pub async fn submit(&self, execution: NewExecution) -> Result<Submission> {
        let submitted = self.submit_batch(vec![execution]).await?;
        submitted.first().copied().ok_or_else(|| Error::bug("a submission got no answer"))
    }

    /// Submits executions, all of them or none. The answers are in the order given.
    pub async fn submit_batch(&self, executions: Vec<NewExecution>) -> Result<Vec<Submission>> {
        let Submitted { executions } =
            self.apply(Submit { namespace: self.here(), executions }).await?;
        Ok(executions)
    }

    /// Waits until an execution has ended.
    pub async fn wait(&self, execution: ExecutionId) -> Result<ExecutionResult> {
        let ended = self.driver().hub().endings().watch(execution.0);
        loop {
            let result = self.result(execution).await?;
            if result.status.is_terminal() {
                return Ok(result);
            }
            let recheck = Instant::now() + self.driver().options().recheck;
            // Whether it was called or not, the next look tells.
            let _ = timeout_at(recheck, ended.called()).await;
        }
    }

    /// Waits until an execution has ended, but not longer than this: then what it is doing.
    pub async fn wait_for(
        &self,
        execution: ExecutionId,
        longest: Duration,
    ) -> Result<ExecutionResult> {
        match tokio::time::timeout(longest, self.wait(execution)).await {
            Ok(ended) => ended,
            Err(_) => self.result(execution).await,
        }
    }
}

/// Working.
impl Engine {
    /// Takes the next work a worker can do, waiting for it as long as the claim says.
    ///
    /// Dropping the future is safe at any moment: what it had claimed is released at once.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed> {
        let claim = Claim { namespace: self.here(), ..claim };
        if claim.wait.is_zero() {
            return self.claim_now(claim).await;
        }
        let deadline = Instant::now() + claim.wait.min(Limits::WAIT_MAX);
        let mut seat = self.driver().hub().stand_in_line(Interest {
            namespace: claim.namespace.clone(),
            lanes: claim.lanes.clone(),
            kinds: claim.kinds.clone(),
            capabilities: claim.capabilities.clone(),
        });
        loop {
            seat.stand();
            let claimed = self.claim_now(claim.clone()).await?;
            if !claimed.is_empty() {
                seat.took(|work| includes(&claimed, work));
                return Ok(claimed);
            }
            seat.tried();
            let now = Instant::now();
            if now >= deadline {
                return Ok(claimed);
            }
            let recheck = deadline.min(now + self.driver().options().recheck);
            // Whether it was called or not, the next try tells.
            let _ = timeout_at(recheck, seat.called()).await;
        }
    }

    /// What there is now, however much of what limits hold back stands before it.
    async fn claim_now(&self, claim: Claim) -> Result<Claimed> {
        loop {
            let claimed = self.claim_once(claim.clone()).await?;
            if !claimed.is_empty() || !claimed.more {
                return Ok(claimed);
            }
        }
    }

    async fn claim_once(&self, claim: Claim) -> Result<Claimed> {
        let driver = self.driver().clone();
        let namespace = claim.namespace.clone();
        self.driver()
            .apply_with(claim, move |claimed| give_back(&driver, &namespace, claimed))
            .await
    }

    /// Claims one execution for a worker, as lease or grant.
    pub async fn claim_execution(&self, claim: ClaimExecution) -> Result<ClaimedExecution> {
        let claim = ClaimExecution { namespace: self.here(), ..claim };
        let driver = self.driver().clone();
        let namespace = claim.namespace.clone();
        let undelivered = move |claimed| match claimed {
            ClaimedExecution::Leased(lease) => {
                let claimed = Claimed { leases: vec![*lease], ..Claimed::default() };
                give_back(&driver, &namespace, claimed);
            }
            ClaimedExecution::Granted(grant) => {
                let claimed = Claimed { grants: vec![grant], ..Claimed::default() };
                give_back(&driver, &namespace, claimed);
            }
            ClaimedExecution::Refused { .. } => {}
        };
        self.driver().apply_with(claim, undelivered).await
    }

    /// Turns a grant into a lease.
    pub async fn redeem_grant(
        &self,
        grant: &LeaseToken,
        worker: &str,
        ttl: Duration,
    ) -> Result<Leased> {
        self.apply(RedeemGrant {
            namespace: self.here(),
            grant: grant.clone(),
            worker: worker.to_owned(),
            lease_ttl: ttl,
        })
        .await
    }

    /// Prolongs leases. The answers are in the order given.
    pub async fn renew(&self, leases: Vec<LeaseToken>) -> Result<Vec<Renewal>> {
        Ok(self.apply(Renew { namespace: self.here(), leases, ttl: None }).await?.leases)
    }

    /// Tells how far the work has come.
    pub async fn progress(
        &self,
        lease: &LeaseToken,
        percent: Option<u8>,
        message: Option<&str>,
    ) -> Result<()> {
        self.apply(ReportProgress {
            namespace: self.here(),
            lease: lease.clone(),
            percent,
            message: message.map(str::to_owned),
        })
        .await
    }

    /// Ends an execution with its result.
    pub async fn complete(&self, lease: &LeaseToken, result: Payload) -> Result<Completed> {
        self.apply(Complete { namespace: self.here(), lease: lease.clone(), result }).await
    }

    /// Ends an attempt without success.
    pub async fn fail(&self, lease: &LeaseToken, failure: Failure) -> Result<FailOutcome> {
        self.fail_with(lease, failure, None).await
    }

    /// Ends an attempt without success, and says when to try again.
    pub async fn fail_with(
        &self,
        lease: &LeaseToken,
        failure: Failure,
        retry_after: Option<Duration>,
    ) -> Result<FailOutcome> {
        let namespace = self.here();
        self.apply(Fail { namespace, lease: lease.clone(), failure, retry_after }).await
    }

    /// Gives the work back and goes on with the same attempt after a while.
    pub async fn delay(&self, lease: &LeaseToken, duration: Duration) -> Result<DelayOutcome> {
        let duration = Some(duration);
        let lease = lease.clone();
        self.apply(Delay { namespace: self.here(), lease, until: None, duration }).await
    }

    /// Gives the work back and goes on with the same attempt at a time.
    pub async fn delay_until(&self, lease: &LeaseToken, until: Timestamp) -> Result<DelayOutcome> {
        let until = Some(until);
        let lease = lease.clone();
        self.apply(Delay { namespace: self.here(), lease, until, duration: None }).await
    }

    /// Gives the work back for another attempt at once.
    pub async fn release(
        &self,
        lease: &LeaseToken,
        reason: Option<&str>,
    ) -> Result<ReleaseOutcome> {
        self.apply(Release {
            namespace: self.here(),
            lease: lease.clone(),
            reason: reason.map(str::to_owned),
        })
        .await
    }

    /// Stops work: because it was asked to, or of its own accord.
    pub async fn acknowledge_cancel(
        &self,
        lease: &LeaseToken,
        reason: Option<&str>,
    ) -> Result<CancelAcknowledged> {
        self.apply(AcknowledgeCancel {
            namespace: self.here(),
            lease: lease.clone(),
            reason: reason.map(str::to_owned),
        })
        .await
    }

    /// Makes a worker process known.
    pub async fn register_worker(&self, worker: RegisterWorker) -> Result<Registration> {
        self.apply(RegisterWorker { namespace: self.here(), ..worker }).await
    }

    /// Says that a worker process is alive.
    pub async fn heartbeat_worker(&self, instance: &str) -> Result<Heartbeat> {
        let instance = instance.to_owned();
        self.apply(HeartbeatWorker { namespace: self.here(), instance }).await
    }

    /// Declares a worker process dead.
    pub async fn mark_worker_dead(
        &self,
        instance: &str,
        reason: Option<&str>,
    ) -> Result<MarkedDead> {
        self.apply(MarkWorkerDead {
            namespace: self.here(),
            instance: instance.to_owned(),
            reason: reason.map(str::to_owned),
        })
        .await
    }
}

/// Whether some of what was claimed is of the work that became ready.
fn includes(claimed: &Claimed, work: &ReadyWork) -> bool {
    let is_of = |lane: &str, kind: &str, capabilities: &[String]| {
        let same = |route: &Arc<Route>| route.kind == kind && route.capabilities == capabilities;
        lane == work.lane.name && work.route.as_ref().is_none_or(same)
    };
    claimed.leases.iter().any(|lease| is_of(&lease.lane, &lease.kind, &lease.capabilities))
        || claimed.grants.iter().any(|grant| is_of(&grant.lane, &grant.kind, &grant.capabilities))
}

/// Releases what was claimed for a caller that has gone.
fn give_back(driver: &Driver, namespace: &str, claimed: Claimed) {
    let reason = "the caller of the claim has gone";
    for leased in claimed.leases {
        driver.spawn(Release {
            namespace: namespace.to_owned(),
            lease: leased.lease,
            reason: Some(reason.to_owned()),
        });
    }
    for granted in claimed.grants {
        driver.spawn(RevokeLease {
            namespace: namespace.to_owned(),
            epoch: Some(granted.grant.epoch),
            reason: Some(reason.to_owned()),
            by: "engine".to_owned(),
            ..RevokeLease::new(granted.grant.execution)
        });
    }
}

/// Operating.
impl Engine {
    /// Stops an execution, with the usual grace if it is active.
    pub async fn cancel(&self, execution: ExecutionId) -> Result<CancelOutcome> {
        self.cancel_with(Cancel::new(execution)).await
    }

    /// Stops an execution as the request says.
    pub async fn cancel_with(&self, cancel: Cancel) -> Result<CancelOutcome> {
        self.apply(Cancel { namespace: self.here(), ..cancel }).await
    }

    /// Takes an execution from its worker.
    pub async fn revoke_lease(&self, revoke: RevokeLease) -> Result<RevokeOutcome> {
        self.apply(RevokeLease { namespace: self.here(), ..revoke }).await
    }

    /// Changes an execution's priority.
    pub async fn change_priority(
        &self,
        execution: ExecutionId,
        priority: i32,
    ) -> Result<PriorityChanged> {
        self.apply(ChangePriority { namespace: self.here(), execution, priority }).await
    }

    /// Keeps an execution from workers.
    pub async fn hold(&self, execution: ExecutionId) -> Result<HoldOutcome> {
        self.apply(Hold { namespace: self.here(), execution }).await
    }

    /// Lets a held execution go.
    pub async fn unhold(&self, execution: ExecutionId) -> Result<HoldOutcome> {
        self.apply(Unhold { namespace: self.here(), execution }).await
    }

    /// Runs an ended execution again, with all steps it has recorded.
    pub async fn replay(&self, execution: ExecutionId) -> Result<Replayed> {
        self.replay_with(Replay::new(execution)).await
    }

    /// Runs an ended execution again, with the recorded steps it is to keep.
    pub async fn replay_with(&self, replay: Replay) -> Result<Replayed> {
        self.apply(Replay { namespace: self.here(), ..replay }).await
    }

    /// Merges into an execution's tags.
    pub async fn set_tags(&self, execution: ExecutionId, tags: TagChanges) -> Result<Tagged> {
        self.apply(SetTags { namespace: self.here(), execution, tags }).await
    }

    /// Removes an ended execution.
    pub async fn delete(&self, execution: ExecutionId) -> Result<()> {
        self.apply(Delete { namespace: self.here(), execution }).await
    }

    /// Puts a refused request of the inbox back in line.
    pub async fn retry_request(&self, request: RequestId) -> Result<()> {
        self.apply(RetryRequest { request }).await
    }

    /// Removes a request from the inbox.
    pub async fn delete_request(&self, request: RequestId) -> Result<()> {
        self.apply(DeleteRequest { request }).await
    }

    /// Sets what later submissions into the namespace inherit.
    pub async fn put_namespace(&self, defaults: Defaults) -> Result<()> {
        self.apply(PutNamespace { namespace: self.here(), defaults }).await
    }

    /// Sets a lane's defaults, its maximum, and how keys take turns in it; what is not given is
    /// not so any more.
    pub async fn put_lane(&self, lane: PutLane) -> Result<()> {
        self.apply(PutLane { namespace: self.here(), ..lane }).await
    }

    /// Hands out no more work from a lane.
    pub async fn pause_lane(&self, lane: &str) -> Result<LaneChanged> {
        self.apply(PauseLane { namespace: self.here(), lane: lane.to_owned() }).await
    }

    /// Opens a lane that was paused or draining.
    pub async fn resume_lane(&self, lane: &str) -> Result<LaneChanged> {
        self.apply(ResumeLane { namespace: self.here(), lane: lane.to_owned() }).await
    }

    /// Takes no new work into a lane.
    pub async fn drain_lane(&self, lane: &str) -> Result<LaneChanged> {
        self.apply(DrainLane { namespace: self.here(), lane: lane.to_owned() }).await
    }
}

/// Looking.
impl Engine {
    /// An execution.
    pub async fn get(&self, execution: ExecutionId) -> Result<ExecutionView> {
        self.ask(GetExecution { namespace: self.here(), execution }).await
    }

    /// What an execution is doing.
    pub async fn status(&self, execution: ExecutionId) -> Result<Status> {
        Ok(self.get(execution).await?.status)
    }

    /// An execution's input.
    pub async fn input(&self, execution: ExecutionId) -> Result<Payload> {
        self.ask(GetInput { namespace: self.here(), execution }).await
    }

    /// How an execution ended, with its result.
    pub async fn result(&self, execution: ExecutionId) -> Result<ExecutionResult> {
        self.ask(GetResult { namespace: self.here(), execution }).await
    }

    /// An execution's attempts, the first 1000 of them.
    pub async fn attempts(&self, execution: ExecutionId) -> Result<AttemptPage> {
        self.ask(ListAttempts {
            namespace: self.here(),
            execution,
            after: Epoch::default(),
            limit: Limits::PAGE,
        })
        .await
    }

    /// Why an execution is where it is, in words.
    pub async fn explain(&self, execution: ExecutionId) -> Result<Explanation> {
        self.ask(Explain { namespace: self.here(), execution }).await
    }

    /// Executions that match, the newest first.
    pub async fn list(&self, list: ListExecutions) -> Result<ExecutionPage> {
        self.ask(ListExecutions { namespace: self.here(), ..list }).await
    }

    /// How many executions are in which state.
    pub async fn counts(&self) -> Result<Counts> {
        self.ask(CountExecutions { namespace: self.here(), lane: None }).await
    }

    /// The lanes, the first 1000 of them.
    pub async fn lanes(&self) -> Result<LanePage> {
        self.ask(ListLanes { namespace: self.here(), after: None, limit: Limits::PAGE }).await
    }

    /// The namespaces, the first 1000 of them.
    pub async fn namespaces(&self) -> Result<NamespacePage> {
        self.ask(ListNamespaces { after: None, limit: Limits::PAGE }).await
    }

    /// The workers, the first 1000 of them.
    pub async fn workers(&self) -> Result<WorkerPage> {
        self.ask(ListWorkers { namespace: self.here(), after: None, limit: Limits::PAGE }).await
    }

    /// Leases that have run out and were not taken up again.
    pub async fn expired_leases(&self, list: ListExpiredLeases) -> Result<ExpiredLeasePage> {
        self.ask(ListExpiredLeases { namespace: self.here(), ..list }).await
    }

    /// Requests of the inbox that were refused, from the first one after `after`: up to 1000.
    pub async fn refused_requests(&self, after: Option<RequestId>) -> Result<RefusedRequestPage> {
        self.ask(ListRefusedRequests { after, limit: Limits::PAGE }).await
    }

    /// How many requests are in the inbox.
    pub async fn request_counts(&self) -> Result<RequestCounts> {
        self.ask(CountRequests {}).await
    }

    /// A page of the event log, of all namespaces unless the filter names one.
    pub async fn events(&self, read: ReadEvents) -> Result<EventPage> {
        self.ask(read).await
    }

    /// Follows the event log of this namespace from a place on, for ever. A filter that names a
    /// namespace itself is taken as it is.
    pub fn subscribe(
        &self,
        filter: EventFilter,
        from: From,
    ) -> impl Future<Output = Result<Follow>> + Send + use<> {
        let namespace = filter.namespace.clone().unwrap_or_else(|| self.here());
        let filter = EventFilter { namespace: Some(namespace), ..filter };
        Follow::begin(self.driver().clone(), filter, from)
    }
}
