//! Short ways to say what behaviours are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use everloom_core::*;
use serde_json::Value;

/// The default namespace.
pub fn ns() -> String {
    DEFAULT_NAME.to_owned()
}

/// So many milliseconds.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So many seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// So many hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3600)
}

/// So many days.
pub const fn days(n: u64) -> Duration {
    hours(n * 24)
}

/// Names as a command takes them.
pub fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).into()
}

/// An id of one's own choice.
pub fn id(n: u32) -> ExecutionId {
    format!("00000000-0000-4000-8000-{n:012x}").parse().expect("a UUID")
}

/// Something to do, without any wishes.
pub fn work() -> NewExecution {
    NewExecution::new("work")
}

/// A request without any wishes.
pub fn request() -> NewRequest {
    NewRequest { kind: "work".to_owned(), ..NewRequest::default() }
}

/// A request with options from their JSON form.
#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference")]
pub fn request_with(options: Value) -> NewRequest {
    NewRequest { options: options.to_string(), ..request() }
}

/// A policy from its JSON form.
#[track_caller]
pub fn policy(json: Value) -> Policy {
    serde_json::from_value(json).expect("a policy")
}

/// Defaults with this policy.
#[track_caller]
pub fn defaults(json: Value) -> Defaults {
    Defaults { priority: None, policy: policy(json) }
}

/// A failure of that class.
pub fn failure(class: FailureClass) -> Failure {
    Failure { class, ..Failure::transient("broken") }
}

/// Tags from pairs.
pub fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Submits these.
pub fn submit(executions: impl IntoIterator<Item = NewExecution>) -> Submit {
    Submit { namespace: ns(), executions: executions.into_iter().collect() }
}

/// Claims up to so many of the default lane for the worker `w`.
pub fn up_to(max: usize) -> Claim {
    Claim { max, ..Claim::new("w") }
}

/// Claims up to a thousand of these lanes for the worker `w`.
pub fn from_lanes<const N: usize>(lanes: [&str; N]) -> Claim {
    Claim { lanes: names(lanes), ..up_to(1000) }
}

/// Claims a named execution.
pub fn by_id(execution: ExecutionId, worker: &str) -> ClaimExecution {
    ClaimExecution {
        namespace: ns(),
        execution,
        worker: worker.to_owned(),
        capabilities: vec![],
        lease_ttl: secs(30),
        reserve: None,
    }
}

/// Redeems a grant as the worker it was given to.
pub fn redeem(granted: &Granted) -> RedeemGrant {
    RedeemGrant {
        namespace: ns(),
        grant: granted.grant.clone(),
        worker: granted.worker.clone(),
        lease_ttl: secs(30),
    }
}

/// Renews a lease.
pub fn renew(leased: &Leased) -> Renew {
    Renew { namespace: ns(), leases: vec![leased.lease.clone()], ttl: None }
}

/// Reports half of the work done.
pub fn progress(leased: &Leased) -> ReportProgress {
    ReportProgress {
        namespace: ns(),
        lease: leased.lease.clone(),
        percent: Some(50),
        message: None,
    }
}

/// Completes without a result.
pub fn complete(leased: &Leased) -> Complete {
    Complete { namespace: ns(), lease: leased.lease.clone(), result: Payload::default() }
}

/// Fails an attempt.
pub fn fail(leased: &Leased, failure: Failure) -> Fail {
    Fail { namespace: ns(), lease: leased.lease.clone(), failure, retry_after: None }
}

/// Fails an attempt in a way that is retried after that time.
pub fn retry_after(leased: &Leased, after: Duration) -> Fail {
    Fail { retry_after: Some(after), ..fail(leased, Failure::transient("busy")) }
}

/// Lets an attempt go on later.
pub fn delay(leased: &Leased, duration: Duration) -> Delay {
    Delay { namespace: ns(), lease: leased.lease.clone(), until: None, duration: Some(duration) }
}

/// Gives work back.
pub fn release(leased: &Leased) -> Release {
    Release { namespace: ns(), lease: leased.lease.clone(), reason: None }
}

/// Stops work.
pub fn acknowledge(leased: &Leased) -> AcknowledgeCancel {
    AcknowledgeCancel { namespace: ns(), lease: leased.lease.clone(), reason: None }
}

/// Cancels without waiting for the worker.
pub fn force_cancel(execution: ExecutionId) -> Cancel {
    Cancel { force: true, ..Cancel::new(execution) }
}

/// Holds an execution.
pub fn hold(execution: ExecutionId) -> Hold {
    Hold { namespace: ns(), execution }
}

/// Lets a held execution go.
pub fn unhold(execution: ExecutionId) -> Unhold {
    Unhold { namespace: ns(), execution }
}

/// Runs an ended execution again.
pub fn replay(execution: ExecutionId) -> Replay {
    Replay { namespace: ns(), ..Replay::new(execution) }
}

/// Removes an ended execution.
pub fn delete(execution: ExecutionId) -> Delete {
    Delete { namespace: ns(), execution }
}

/// Changes a priority.
pub fn prioritise(execution: ExecutionId, priority: i32) -> ChangePriority {
    ChangePriority { namespace: ns(), execution, priority }
}

/// Changes tags; `None` removes.
pub fn set_tags<const N: usize>(
    execution: ExecutionId,
    changes: [(&str, Option<&str>); N],
) -> SetTags {
    let owned = |(key, value): (&str, Option<&str>)| (key.to_owned(), value.map(str::to_owned));
    SetTags { namespace: ns(), execution, tags: BTreeMap::from(changes.map(owned)) }
}

/// Lets at most so many of a lane's executions be owned at once.
pub fn cap(lane: &str, max: u32) -> PutLane {
    PutLane { max_active: Some(max), ..put_lane(lane, Defaults::default()) }
}

/// Sets a lane's defaults.
pub fn put_lane(lane: &str, defaults: Defaults) -> PutLane {
    PutLane { namespace: ns(), lane: lane.to_owned(), defaults, max_active: None, fairness: None }
}

/// Pauses a lane.
pub fn pause(lane: &str) -> PauseLane {
    PauseLane { namespace: ns(), lane: lane.to_owned() }
}

/// Opens a lane.
pub fn resume(lane: &str) -> ResumeLane {
    ResumeLane { namespace: ns(), lane: lane.to_owned() }
}

/// Drains a lane.
pub fn drain(lane: &str) -> DrainLane {
    DrainLane { namespace: ns(), lane: lane.to_owned() }
}

/// Says that a worker is alive.
pub fn heartbeat(instance: &str) -> HeartbeatWorker {
    HeartbeatWorker { namespace: ns(), instance: instance.to_owned() }
}

/// Declares a worker dead.
pub fn mark_dead(instance: &str) -> MarkWorkerDead {
    MarkWorkerDead { namespace: ns(), instance: instance.to_owned(), reason: None }
}

/// Reads an execution.
pub fn get(execution: ExecutionId) -> GetExecution {
    GetExecution { namespace: ns(), execution }
}

/// Reads an execution's result.
pub fn result_of(execution: ExecutionId) -> GetResult {
    GetResult { namespace: ns(), execution }
}

/// Reads an execution's input.
pub fn input_of(execution: ExecutionId) -> GetInput {
    GetInput { namespace: ns(), execution }
}

/// Lists an execution's attempts.
pub fn attempts(execution: ExecutionId) -> ListAttempts {
    ListAttempts { namespace: ns(), execution, after: Epoch(0), limit: Limits::PAGE }
}

/// Lists lanes.
pub fn lanes() -> ListLanes {
    ListLanes { namespace: ns(), after: None, limit: Limits::PAGE }
}

/// Lists workers.
pub fn workers() -> ListWorkers {
    ListWorkers { namespace: ns(), after: None, limit: Limits::PAGE }
}

/// Lists leases that have run out.
pub fn expired_leases() -> ListExpiredLeases {
    ListExpiredLeases { namespace: ns(), as_of: None, after: None, limit: Limits::PAGE }
}

/// Events about an execution.
pub fn about(execution: ExecutionId) -> EventFilter {
    EventFilter { execution: Some(execution), ..in_namespace(DEFAULT_NAME) }
}

/// Events of a namespace.
pub fn in_namespace(namespace: &str) -> EventFilter {
    EventFilter { namespace: Some(namespace.to_owned()), ..EventFilter::default() }
}

/// Events of these kinds.
pub fn of_kinds<const N: usize>(kinds: [EventKind; N]) -> EventFilter {
    EventFilter { kinds: kinds.into(), ..EventFilter::default() }
}

/// The states of work that stands alone and waits for nothing else.
pub const STATES: [Status; 11] = [
    Status::Waiting,
    Status::Resumable,
    Status::Delayed,
    Status::Granted,
    Status::Active,
    Status::Suspended,
    Status::RateLimited,
    Status::Completed,
    Status::Failed,
    Status::Cancelled,
    Status::Expired,
];

/// Those of them that are not terminal.
pub fn open_states() -> impl Iterator<Item = Status> {
    STATES.into_iter().filter(|status| !status.is_terminal())
}

/// Those of them that are terminal.
pub fn ended_states() -> impl Iterator<Item = Status> {
    STATES.into_iter().filter(|status| status.is_terminal())
}
