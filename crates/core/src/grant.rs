//! Claiming a named execution for a named worker, as lease or grant, and redeeming grants: the
//! way for an operator or an external scheduler.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::claim::{
    Granted, Leased, Taken, check_reserve, default_ttl, free_slots, grant, granted, leased,
    readiness, take,
};
use crate::clock;
use crate::command::{Command, Context};
use crate::finish::take_slots;
use crate::flow::gate;
use crate::lease::load;
use crate::limit::admit;
use crate::model::{
    Cause, Check, Epoch, Error, Execution, ExecutionId, LaneMode, LeaseLost, LeaseToken, LimitedBy,
    Limits, Namespace, Ready, Result, State, Status, default_name, duration_ms, option_duration_ms,
};
use crate::store::Tx;

/// Claims one execution, whatever stands before it in its lane.
///
/// Work whose lease has run out is taken up on the spot, without waiting for the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimExecution {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// For which worker.
    pub worker: String,
    /// What the worker has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// How long a lease lasts without renewal: 1 s to 1 h.
    #[serde(rename = "lease_ttl_ms", with = "duration_ms", default = "default_ttl")]
    pub lease_ttl: Duration,
    /// Reserve the execution for this long instead of leasing it: at most a minute.
    #[serde(rename = "reserve_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Duration>,
}

/// How long a scheduler usually reserves work for: 10 seconds.
pub const DEFAULT_RESERVE: Duration = Duration::from_secs(10);

/// What became of a claim by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ClaimedExecution {
    /// It is leased.
    Leased(Box<Leased>),
    /// It is reserved.
    Granted(Granted),
    /// It can not be claimed.
    Refused {
        /// Why.
        why: ClaimRefusal,
    },
}

/// Why an execution can not be claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum ClaimRefusal {
    /// It is neither waiting nor resumable.
    NotClaimable {
        /// What it is doing instead.
        status: Status,
    },
    /// A budget or quota does not let it pass.
    Limited {
        /// Which.
        by: LimitedBy,
    },
    /// It is held.
    Held,
    /// Its lane is paused.
    LanePaused,
    /// As many executions of its lane are owned as may be.
    LaneFull,
    /// The worker lacks what it needs.
    MissingCapabilities {
        /// What is missing.
        missing: Vec<String>,
    },
}

impl Command for ClaimExecution {
    const NAME: &'static str = "claim_execution";
    type Output = ClaimedExecution;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<ClaimedExecution> {
        let mut check = Check::default();
        check.name("worker", &self.worker);
        check.capabilities("capabilities", &self.capabilities);
        check.lease("lease_ttl_ms", self.lease_ttl);
        check_reserve(&mut check, self.reserve);
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        if execution.due_at().is_some_and(|due| due <= cx.now) && !execution.status().is_terminal()
        {
            clock::settle(tx, cx, &mut execution)?;
        }
        if execution.claimable() {
            gate::refuses(tx, cx, &mut execution)?;
        }
        if let Some(why) = self.refusal(tx, &execution)? {
            return Ok(ClaimedExecution::Refused { why });
        }
        let lane = tx.lane_by_id(execution.lane)?;
        let namespace = tx.namespace_by_id(execution.namespace)?;
        if !admit(tx, cx, &namespace, &lane, &mut execution)? {
            let why = self.refusal(tx, &execution)?;
            let why = why.ok_or_else(|| Error::bug("a limit refuses and lets pass"))?;
            return Ok(ClaimedExecution::Refused { why });
        }
        take_slots(tx, &lane, 1)?;
        let resumed = execution.state == State::Resumable;
        match self.reserve {
            Some(reserve) => grant(tx, cx, &mut execution, &self.worker, reserve)?,
            None => take(tx, cx, &mut execution, &self.worker, self.lease_ttl, Cause::Claim)?,
        }
        let taken = Taken { execution, lane: lane.name.clone(), resumed };
        match self.reserve {
            Some(_) => Ok(ClaimedExecution::Granted(granted(tx, &taken)?)),
            None => Ok(ClaimedExecution::Leased(Box::new(only_lease(tx, cx, &namespace, taken)?))),
        }
    }
}

fn only_lease(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    taken: Taken,
) -> Result<Leased> {
    let lease = leased(tx, cx, namespace, &[taken])?.pop();
    lease.ok_or_else(|| Error::bug("a leased execution has no lease"))
}

impl ClaimExecution {
    fn refusal(&self, tx: &mut dyn Tx, execution: &Execution) -> Result<Option<ClaimRefusal>> {
        let lane = tx.lane_by_id(execution.lane)?;
        let routes = tx.routes(execution.namespace)?;
        let needed = routes.get(execution.route).map_or(&[][..], |route| &route.capabilities);
        let missing: Vec<_> =
            needed.iter().filter(|token| !self.capabilities.contains(token)).cloned().collect();
        Ok(if let State::Limited(limited) = &execution.state {
            Some(ClaimRefusal::Limited { by: limited.by.clone() })
        } else if !matches!(execution.state, State::Waiting | State::Resumable) {
            Some(ClaimRefusal::NotClaimable { status: execution.status() })
        } else if execution.is_held() {
            Some(ClaimRefusal::Held)
        } else if lane.mode == LaneMode::Paused {
            Some(ClaimRefusal::LanePaused)
        } else if free_slots(&lane) == 0 {
            Some(ClaimRefusal::LaneFull)
        } else if !missing.is_empty() {
            Some(ClaimRefusal::MissingCapabilities { missing })
        } else {
            None
        })
    }
}

/// Whether an active execution's attempt was worked on before its present lease.
fn continues(tx: &mut dyn Tx, execution: &Execution) -> Result<bool> {
    let mut after = Epoch::default();
    loop {
        let page = tx.past_leases(execution.row, after, Limits::PAGE)?;
        if page.iter().any(|past| past.attempt == execution.attempt) {
            return Ok(true);
        }
        match page.last().filter(|_| page.len() == Limits::PAGE) {
            Some(last) => after = last.epoch,
            None => return Ok(false),
        }
    }
}

/// Turns a grant into a lease. Repeating it returns the same lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedeemGrant {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The grant.
    pub grant: LeaseToken,
    /// The worker it was given to.
    pub worker: String,
    /// How long the lease lasts without renewal: 1 s to 1 h.
    #[serde(rename = "lease_ttl_ms", with = "duration_ms", default = "default_ttl")]
    pub lease_ttl: Duration,
}

impl Command for RedeemGrant {
    const NAME: &'static str = "redeem_grant";
    type Output = Leased;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Leased> {
        let mut check = Check::default();
        check.name("worker", &self.worker);
        check.lease("lease_ttl_ms", self.lease_ttl);
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.grant.execution)?;
        let lost = |why| Err(Error::lease_lost(self.grant.execution, why));
        let resumed = match &execution.state {
            State::Granted(grant)
                if execution.epoch == self.grant.epoch && grant.secret == self.grant.secret =>
            {
                if grant.worker != self.worker {
                    return Err(Error::invalid("worker", "the grant was given to another worker"));
                }
                if grant.until <= cx.now {
                    return lost(LeaseLost::Expired);
                }
                if gate::is_stopped(tx, &execution)? {
                    return lost(LeaseLost::Cancelled);
                }
                if gate::is_held(tx, &execution)? {
                    return lost(LeaseLost::Revoked);
                }
                let ready = readiness(&execution);
                take(tx, cx, &mut execution, &self.worker, self.lease_ttl, Cause::Redeem)?;
                ready == Some(Ready::Resumable)
            }
            State::Active(lease)
                if execution.epoch.0 == self.grant.epoch.0 + 1
                    && lease.secret == self.grant.secret
                    && lease.worker == self.worker
                    && cx.now < lease.until =>
            {
                continues(tx, &execution)?
            }
            _ => return lost(LeaseLost::Superseded),
        };
        let namespace = tx.namespace_by_id(execution.namespace)?;
        let lane = tx.lane_by_id(execution.lane)?.name.clone();
        only_lease(tx, cx, &namespace, Taken { execution, lane, resumed })
    }
}
