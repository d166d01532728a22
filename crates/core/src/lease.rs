//! Holding a lease: the fence every worker's write passes, renewing, and reporting progress.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::limit::unpause;
use crate::model::{
    CancelRequest, Check, Error, Execution, ExecutionId, Lease, LeaseLost, LeaseToken, Namespace,
    PastLease, PauseRequest, Progress, Result, State, Timestamp, default_name, option_duration_ms,
};
use crate::store::{Read, Tx};

/// What the fence found.
pub(crate) enum Fenced {
    /// The lease is held.
    Live(Box<Execution>),
    /// The lease has ended; a repeated call is answered from the record.
    Ended(PastLease),
}

impl Fenced {
    /// The execution, for calls that do not end a lease.
    pub(crate) fn live(self, lease: &LeaseToken) -> Result<Execution> {
        match self {
            Self::Live(execution) => Ok(*execution),
            Self::Ended(past) => Err(Error::lease_lost(lease.execution, past.end.why_lost())),
        }
    }
}

/// Lets a worker's write pass iff it holds the lease it presents, by the store's clock.
pub(crate) fn fence(
    read: &mut dyn Read,
    cx: &Context,
    namespace: &str,
    lease: &LeaseToken,
) -> Result<Fenced> {
    let execution = load(read, namespace, lease.execution)?;
    judge(read, cx, execution, lease)
}

fn judge(
    read: &mut dyn Read,
    cx: &Context,
    execution: Execution,
    token: &LeaseToken,
) -> Result<Fenced> {
    let lost = |why| Err(Error::lease_lost(token.execution, why));
    match &execution.state {
        State::Active(lease) if execution.epoch == token.epoch && lease.secret == token.secret => {
            match cx.now < lease.until {
                true => Ok(Fenced::Live(Box::new(execution))),
                false => lost(LeaseLost::Expired),
            }
        }
        _ => match read.past_lease(execution.row, token.epoch)? {
            Some(past) if past.secret == token.secret => Ok(Fenced::Ended(past)),
            _ => lost(LeaseLost::Superseded),
        },
    }
}

/// The execution of that id.
pub(crate) fn load(read: &mut dyn Read, namespace: &str, id: ExecutionId) -> Result<Execution> {
    let found = match read.namespace(namespace)? {
        Some(namespace) => read.find(namespace.id, &[id])?.pop().flatten(),
        None => None,
    };
    found.ok_or_else(|| Error::not_found("execution", format!("{id} in namespace `{namespace}`")))
}

/// The lease of an execution that passed the fence.
pub(crate) fn lease_of(execution: &mut Execution) -> Result<&mut Lease> {
    match &mut execution.state {
        State::Active(lease) => Ok(lease),
        _ => Err(Error::bug("an execution without a lease passed the fence")),
    }
}

/// Prolongs leases to now plus their time to live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// Where the executions belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The leases, 1 to 1000.
    pub leases: Vec<LeaseToken>,
    /// A new time to live; each lease keeps its own when absent.
    #[serde(rename = "lease_ttl_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// What became of each lease, in the order given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewedLeases {
    /// One answer for each lease.
    pub leases: Vec<Renewal>,
}

/// What became of one lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Renewal {
    /// It is held on.
    Renewed {
        /// Until when.
        expires_at: Timestamp,
        /// Set when the worker should stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancel: Option<CancelRequest>,
        /// Set when the worker should give the work back until its budget has more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<PauseRequest>,
    },
    /// It is lost: the worker must stop.
    Lost {
        /// Why.
        why: LeaseLost,
    },
}

impl Command for Renew {
    const NAME: &'static str = "renew";
    type Output = RenewedLeases;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<RenewedLeases> {
        let mut check = Check::default();
        check.batch("leases", self.leases.len());
        if let Some(ttl) = self.ttl {
            check.lease("lease_ttl_ms", ttl);
        }
        check.finish()?;
        let superseded = Renewal::Lost { why: LeaseLost::Superseded };
        let Some(namespace) = tx.namespace(&self.namespace)? else {
            return Ok(RenewedLeases { leases: vec![superseded; self.leases.len()] });
        };
        let mut leases = Vec::with_capacity(self.leases.len());
        for lease in &self.leases {
            leases.push(self.renew(tx, cx, &namespace, lease)?);
        }
        Ok(RenewedLeases { leases })
    }
}

impl Renew {
    fn renew(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        namespace: &Namespace,
        token: &LeaseToken,
    ) -> Result<Renewal> {
        let Some(found) = tx.find(namespace.id, &[token.execution])?.pop().flatten() else {
            return Ok(Renewal::Lost { why: LeaseLost::Superseded });
        };
        let mut execution = match judge(tx, cx, found, token) {
            Ok(Fenced::Live(execution)) => execution,
            Ok(Fenced::Ended(past)) => {
                return Ok(Renewal::Lost { why: past.end.why_lost() });
            }
            Err(error) => match error.why_lease_lost() {
                Some(why) => return Ok(Renewal::Lost { why }),
                None => return Err(error),
            },
        };
        unpause(tx, cx, &mut execution)?;
        let lease = lease_of(&mut execution)?;
        lease.ttl = self.ttl.unwrap_or(lease.ttl);
        lease.until = cx.now + lease.ttl;
        let (expires_at, worker) = (lease.until, lease.worker.clone());
        let (cancel, pause) = (lease.cancel.clone(), lease.pause.clone());
        tx.save(&execution)?;
        if cx.settings.log_renewals {
            log(tx, cx, &execution, EventKind::Renewed, Some(&worker), None)?;
        }
        Ok(Renewal::Renewed { expires_at, cancel, pause })
    }
}

/// Tells how far the work has come. What is left out stays as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportProgress {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Command for ReportProgress {
    const NAME: &'static str = "report_progress";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        if let Some(percent) = self.percent {
            check.that(percent <= 100, "percent", || format!("must be 0 to 100, not {percent}"));
        }
        if let Some(message) = &self.message {
            check.text("message", message);
        }
        check.finish()?;
        let mut execution = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        let before = execution.progress.take();
        let kept = |value: fn(Progress) -> _| before.clone().and_then(value);
        if self.percent.is_none() && self.message.is_none() {
            return Ok(());
        }
        execution.progress = Some(Progress {
            percent: self.percent.or_else(|| before.as_ref().and_then(|before| before.percent)),
            message: self.message.clone().or_else(|| kept(|before| before.message)),
            at: cx.now,
        });
        tx.save(&execution)
    }
}
