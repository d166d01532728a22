//! Claiming work: the next executions of some lanes that a worker can do.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::finish::take_slots;
use crate::flow::{Bound, bindings, gate};
use crate::limit::{admit, advance};
use crate::misses::Misses;
use crate::model::{
    Cause, Check, DEFAULT_NAME, Error, Execution, ExecutionId, Fallback, FlowId, Grant, Lane,
    LaneMode, Lease, LeaseToken, Limits, Namespace, Payload, Ready, Result, RouteId, State, Tags,
    Timestamp, default_name, duration_ms, option_duration_ms,
};
use crate::steps::{StepPage, StepView, recorded};
use crate::store::Tx;
use crate::suspend::{Resumption, resumption};

/// Takes the next work a worker can do.
///
/// Lanes are emptied strictly in the order given; within a lane the highest priority goes first,
/// then the lowest rank. Work of other kinds or beyond the worker's capabilities is not looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Where the work belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Who will hold the leases: the worker's instance id.
    pub worker: String,
    /// The lanes, in order.
    #[serde(default = "default_lanes")]
    pub lanes: Vec<String>,
    /// The kinds the worker handles; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// What the worker has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// How much to take at most, 1 to 1000.
    #[serde(default = "one")]
    pub max: usize,
    /// How long a lease lasts without renewal: 1 s to 1 h.
    #[serde(rename = "lease_ttl_ms", with = "duration_ms", default = "default_ttl")]
    pub lease_ttl: Duration,
    /// Reserve the work for this long instead of leasing it: at most a minute.
    #[serde(rename = "reserve_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Duration>,
    /// How long to wait when there is nothing: at most a minute. The engine waits, outside the
    /// store.
    #[serde(rename = "wait_ms", with = "duration_ms")]
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub wait: Duration,
}

fn default_lanes() -> Vec<String> {
    vec![DEFAULT_NAME.to_owned()]
}

fn one() -> usize {
    1
}

pub(crate) fn default_ttl() -> Duration {
    Duration::from_secs(30)
}

impl Claim {
    /// One execution of any kind from the default lane, for 30 seconds, without waiting.
    pub fn new(worker: impl Into<String>) -> Self {
        Self {
            namespace: default_name(),
            worker: worker.into(),
            lanes: default_lanes(),
            kinds: vec![],
            capabilities: vec![],
            max: 1,
            lease_ttl: default_ttl(),
            reserve: None,
            wait: Duration::ZERO,
        }
    }

    fn check(&self) -> Result<()> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.name("worker", &self.worker);
        check.names("lanes", &self.lanes);
        check.names("kinds", &self.kinds);
        check.capabilities("capabilities", &self.capabilities);
        check.batch("max", self.max);
        check.lease("lease_ttl_ms", self.lease_ttl);
        check_reserve(&mut check, self.reserve);
        check.duration("wait_ms", self.wait, Duration::ZERO, Limits::WAIT_MAX);
        check.finish()
    }
}

pub(crate) fn check_reserve(check: &mut Check, reserve: Option<Duration>) {
    if let Some(reserve) = reserve {
        check.duration("reserve_ms", reserve, Duration::from_millis(1), Limits::GRANT_MAX);
    }
}

/// What a claim got: leases, or grants if it asked to reserve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    /// Work to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Leased>,
    /// Work reserved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Granted>,
    /// Whether so much stood in the way that the claim did not see all there is: ask again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Claimed {
    /// Whether there was nothing to claim.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.grants.is_empty()
    }
}

/// Work a worker holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leased {
    /// What to present with every write.
    pub lease: LeaseToken,
    /// Until when it is held unless renewed.
    pub expires_at: Timestamp,
    /// Where the execution belongs.
    pub namespace: String,
    /// The lane it came from.
    pub lane: String,
    /// Which handler does it.
    pub kind: String,
    /// What it demands of its worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// 1, 2, 3 …
    pub attempt: u32,
    /// 1, and one more with every replay.
    pub run: u32,
    /// Retries used so far.
    pub retries: u32,
    /// Whether this continues an attempt that slept.
    pub resumed: bool,
    /// What the handler gets; absent when the answer would have become too large, then
    /// `GetInput` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// Its priority.
    pub priority: i32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What the handler should use instead, after this many retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The flow it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// Its name in the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What it waited for and was to be handed over, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bound: BTreeMap<String, Bound>,
    /// What came while it was suspended, if it was in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumption: Option<Resumption>,
    /// The steps it has recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// Whether it has recorded more steps than these: [`crate::ListSteps`] has the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_steps: bool,
}

impl Leased {
    /// The execution.
    pub fn id(&self) -> ExecutionId {
        self.lease.execution
    }
}

/// Work reserved for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// What to present to redeem it.
    pub grant: LeaseToken,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// Who may redeem it.
    pub worker: String,
    /// Which handler does it.
    pub kind: String,
    /// What it demands of its worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// The lane it came from.
    pub lane: String,
}

impl Command for Claim {
    const NAME: &'static str = "claim";
    type Output = Claimed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Claimed> {
        self.check()?;
        let mut claimed = Claimed::default();
        let Some(namespace) = tx.namespace(&self.namespace)? else {
            return Ok(claimed);
        };
        let served = tx.routes(namespace.id)?.served(&self.kinds, &self.capabilities);
        if served.is_empty() {
            return Ok(claimed);
        }
        let mut taken = Vec::new();
        for name in &self.lanes {
            if let Some(lane) = tx.lane(namespace.id, name)? {
                let wanted = self.max - taken.len();
                let (found, more) = self.claim_lane(tx, cx, &namespace, &lane, &served, wanted)?;
                taken.extend(found);
                claimed.more |= more;
            }
            if taken.len() == self.max {
                break;
            }
        }
        match self.reserve {
            Some(_) => {
                for taken in &taken {
                    claimed.grants.push(granted(tx, taken)?);
                }
            }
            None => claimed.leases = leased(tx, cx, &namespace, &taken)?,
        }
        Ok(claimed)
    }
}

impl Claim {
    /// What a lane has, and whether it may have more.
    fn claim_lane(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        namespace: &Namespace,
        lane: &Lane,
        served: &[RouteId],
        wanted: usize,
    ) -> Result<(Vec<Taken>, bool)> {
        let room = free_slots(lane).min(wanted);
        if lane.mode == LaneMode::Paused || room == 0 {
            return Ok((vec![], false));
        }
        let mut taken = Vec::new();
        let mut passed_over = 0;
        let mut last = false;
        while taken.len() < room && passed_over < PASSED_OVER && !last {
            let wanted = room - taken.len();
            let found = tx.claimable(lane.id, served, wanted)?;
            last = found.len() < wanted;
            let mut changed = false;
            let mut misses = Misses::default();
            for mut execution in found {
                if changed {
                    // What happened to one may have happened to others that were found with it.
                    match tx.execution(execution.row)?.filter(Execution::claimable) {
                        Some(current) => execution = current,
                        None => continue,
                    }
                }
                let admitted = self.admits(tx, cx, namespace, lane, &mut execution);
                match misses.pass(admitted)? {
                    Some(true) => taken.push(self.own(tx, cx, execution, lane)?),
                    Some(false) => (passed_over, changed) = (passed_over + 1, true),
                    None => {}
                }
            }
            misses.finish()?;
            // What waits for a limit may have let others go that wait for another.
            last &= !changed;
        }
        if !taken.is_empty() {
            advance(tx, lane, taken.iter().map(|taken| &taken.execution))?;
            take_slots(tx, lane, u32::try_from(taken.len()).unwrap_or(u32::MAX))?;
        }
        Ok((taken, passed_over >= PASSED_OVER))
    }

    /// Whether an execution may be owned; if not, it is now where it belongs.
    fn admits(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        namespace: &Namespace,
        lane: &Lane,
        execution: &mut Execution,
    ) -> Result<bool> {
        if execution.deadline_at.is_some_and(|deadline| deadline <= cx.now) {
            clock::settle(tx, cx, execution)?;
            return Ok(false);
        }
        Ok(!gate::refuses(tx, cx, execution)? && admit(tx, cx, namespace, lane, execution)?)
    }

    fn own(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        mut execution: Execution,
        lane: &Lane,
    ) -> Result<Taken> {
        let resumed = execution.state == State::Resumable;
        match self.reserve {
            Some(reserve) => grant(tx, cx, &mut execution, &self.worker, reserve)?,
            None => take(tx, cx, &mut execution, &self.worker, self.lease_ttl, Cause::Claim)?,
        }
        Ok(Taken { execution, lane: lane.name.clone(), resumed })
    }
}

/// How many executions a claim puts aside on its way, because their deadline has passed or because
/// a limit does not let them pass.
const PASSED_OVER: usize = 200;

/// An execution that found its owner.
pub(crate) struct Taken {
    pub(crate) execution: Execution,
    pub(crate) lane: String,
    pub(crate) resumed: bool,
}

/// How many more of a lane's executions may be owned.
pub(crate) fn free_slots(lane: &Lane) -> usize {
    lane.max_active.map_or(usize::MAX, |max| max.saturating_sub(lane.active) as usize)
}

/// What a claimable or reserved execution is when nobody owns it.
pub(crate) fn readiness(execution: &Execution) -> Option<Ready> {
    match &execution.state {
        State::Waiting => Some(Ready::Waiting),
        State::Resumable => Some(Ready::Resumable),
        State::Granted(grant) => Some(grant.back),
        State::Delayed(_)
        | State::Active(_)
        | State::WaitingChildren(_)
        | State::Suspended(_)
        | State::Limited(_)
        | State::Ended(_) => None,
    }
}

/// Leases an execution to a worker. The caller takes the lane's slot.
pub(crate) fn take(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    worker: &str,
    ttl: Duration,
    cause: Cause,
) -> Result<()> {
    if readiness(execution) == Some(Ready::Waiting) {
        execution.attempt += 1;
    }
    execution.started_at.get_or_insert(cx.now);
    // A redeemed grant keeps its secret, so that a repeated redemption finds its lease.
    let secret = match &execution.state {
        State::Granted(grant) => grant.secret,
        _ => cx.secret(),
    };
    let lease = Lease {
        worker: worker.to_owned(),
        secret,
        until: cx.now + ttl,
        ttl,
        cancel: None,
        pause: None,
    };
    execution.enter(State::Active(lease), cause, cx.now);
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::Claimed, Some(worker), None)
}

/// Reserves a claimable execution for a worker. The caller takes the lane's slot.
pub(crate) fn grant(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    worker: &str,
    reserve: Duration,
) -> Result<()> {
    let grant = Grant {
        worker: worker.to_owned(),
        secret: cx.secret(),
        until: cx.now + reserve,
        back: readiness(execution).unwrap_or(Ready::Waiting),
    };
    execution.enter(State::Granted(grant), Cause::Grant, cx.now);
    tx.save(execution)?;
    log(tx, cx, execution, EventKind::Granted, Some(worker), None)
}

/// The answer for executions just leased, with as much of what belongs to them as fits.
pub(crate) fn leased(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    taken: &[Taken],
) -> Result<Vec<Leased>> {
    let rows: Vec<_> = taken.iter().map(|taken| taken.execution.row).collect();
    let inputs = tx.inputs(&rows)?;
    let mut room = cx.limits().batch_bytes;
    let mut leases = Vec::with_capacity(taken.len());
    let mut misses = Misses::default();
    for (taken, input) in taken.iter().zip(inputs) {
        leases.extend(misses.pass(lease(tx, namespace, taken, input, &mut room))?);
    }
    misses.finish()?;
    Ok(leases)
}

fn lease(
    tx: &mut dyn Tx,
    namespace: &Namespace,
    Taken { execution, lane, resumed }: &Taken,
    input: Payload,
    room: &mut usize,
) -> Result<Leased> {
    let State::Active(lease) = &execution.state else {
        return Err(Error::bug("an execution that was claimed has no lease"));
    };
    let input = (input.bytes.len() <= *room).then_some(input);
    *room -= input.as_ref().map_or(0, |input| input.bytes.len());
    let routes = tx.routes(namespace.id)?;
    let route = routes.get(execution.route).ok_or_else(unknown_route)?;
    let bound = bindings(tx, execution, room)?;
    let resumption = resumption(tx, execution, room)?;
    let StepPage { steps, next } = recorded(tx, execution, room)?;
    Ok(Leased {
        lease: LeaseToken { execution: execution.id, epoch: execution.epoch, secret: lease.secret },
        expires_at: lease.until,
        namespace: namespace.name.clone(),
        lane: lane.clone(),
        kind: route.kind.clone(),
        capabilities: route.capabilities.clone(),
        attempt: execution.attempt,
        run: execution.run,
        retries: execution.retries,
        resumed: *resumed,
        input,
        priority: execution.priority,
        created_at: execution.created_at,
        deadline_at: execution.deadline_at,
        tags: (*execution.tags).clone(),
        fallback: execution.policy.fallback(execution.retries).cloned(),
        flow: execution.member.as_ref().map(|member| member.flow_id),
        node: execution.member.as_ref().map(|member| member.node.clone()),
        bound,
        resumption,
        steps,
        more_steps: next.is_some(),
    })
}

/// The answer for an execution just reserved.
pub(crate) fn granted(tx: &mut dyn Tx, taken: &Taken) -> Result<Granted> {
    let Taken { execution, lane, .. } = taken;
    let State::Granted(grant) = &execution.state else {
        return Err(Error::bug("a reserved execution has no grant"));
    };
    let routes = tx.routes(execution.namespace)?;
    let route = routes.get(execution.route).ok_or_else(unknown_route)?;
    Ok(Granted {
        grant: LeaseToken { execution: execution.id, epoch: execution.epoch, secret: grant.secret },
        expires_at: grant.until,
        worker: grant.worker.clone(),
        kind: route.kind.clone(),
        capabilities: route.capabilities.clone(),
        lane: lane.clone(),
    })
}

fn unknown_route() -> Error {
    Error::bug("an execution is on a route that does not exist")
}
