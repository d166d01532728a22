//! The event log: what is in it, and how it is followed from a cursor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::{Context, Query};
use crate::model::{
    Check, Code, Cursor, Epoch, Error, Execution, ExecutionId, FlowId, LaneId, Limits, NamespaceId,
    Result, RowId, Tags, Timestamp,
};
use crate::store::{EventScan, Read, Tx};

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident $text:literal $code:literal;)*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum EventKind {$(
            $(#[$doc])*
            #[serde(rename = $text)]
            $name,
        )*}

        impl EventKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The number a store saves.
            pub const fn code(self) -> i64 {
                match self { $(Self::$name => $code,)* }
            }

            /// The kind of that number.
            pub fn from_code(code: i64) -> Result<Self> {
                match code {
                    $($code => Ok(Self::$name),)*
                    _ => Err(Error::bug(format!("the log has an event of unknown kind {code}"))),
                }
            }
        }
    };
}

event_kinds! {
    /// An execution was submitted.
    Submitted "execution.submitted" 1;
    /// Its delay is over: it may be claimed.
    BecameReady "execution.ready" 2;
    /// Its worker asked to continue later.
    Delayed "execution.delayed" 3;
    /// An attempt failed and is tried again.
    Retrying "execution.retrying" 4;
    /// It ended with a result.
    Completed "execution.completed" 5;
    /// It ended without success.
    Failed "execution.failed" 6;
    /// It ended because someone stopped it.
    Cancelled "execution.cancelled" 7;
    /// It ended because its deadline passed.
    Expired "execution.expired" 8;
    /// Its worker was asked to stop.
    CancelRequested "execution.cancel_requested" 9;
    /// It began anew.
    Replayed "execution.replayed" 10;
    /// It was held.
    Held "execution.held" 11;
    /// It was let go.
    Unheld "execution.unheld" 12;
    /// Its priority changed.
    PriorityChanged "execution.priority_changed" 13;
    /// Its tags changed.
    Tagged "execution.tagged" 14;
    /// It was removed, by hand or because its time was over.
    Deleted "execution.deleted" 15;
    /// It ended without having run: what it waited for can not happen any more.
    Skipped "execution.skipped" 16;
    /// It waits for its join or for its children.
    Blocked "execution.blocked" 17;
    /// Its worker waits for signals.
    Suspended "execution.suspended" 18;
    /// It goes on: what it was suspended for has come, or someone said so.
    Resumed "execution.resumed" 19;
    /// Its suspension timed out and was passed on to an operator.
    Escalated "execution.escalated" 20;
    /// A budget or quota does not let it pass; the data say which.
    Limited "execution.limited" 21;
    /// Its budget is used up, and its worker was asked to stop until there is more.
    PauseRequested "execution.pause_requested" 22;
    /// A worker took it.
    Claimed "lease.claimed" 30;
    /// It was reserved for a worker.
    Granted "lease.granted" 31;
    /// The reservation ended unused.
    GrantEnded "lease.grant_ended" 32;
    /// Its lease was prolonged; logged only when asked for.
    Renewed "lease.renewed" 33;
    /// Its worker gave it back.
    Released "lease.released" 34;
    /// An operator took it from its worker.
    Revoked "lease.revoked" 35;
    /// Its worker did not renew in time.
    LeaseExpired "lease.expired" 36;
    /// Its worker registered again or was marked dead.
    LeaseLost "lease.worker_gone" 37;
    /// Its budget was used up, and its worker did not stop in time.
    Paused "lease.paused" 38;
    /// A lane was configured.
    LanePut "lane.put" 50;
    /// A lane no longer hands out work.
    LanePaused "lane.paused" 51;
    /// A lane is open again.
    LaneResumed "lane.resumed" 52;
    /// A lane no longer takes work in.
    LaneDraining "lane.draining" 53;
    /// A namespace was configured.
    NamespacePut "namespace.put" 60;
    /// A worker registered.
    WorkerRegistered "worker.registered" 70;
    /// A worker registered again.
    WorkerRefreshed "worker.refreshed" 71;
    /// A worker was marked dead.
    WorkerDead "worker.dead" 72;
    /// A worker was not heard of in time.
    WorkerExpired "worker.expired" 73;
    /// A flow was submitted.
    FlowSubmitted "flow.submitted" 80;
    /// Nodes or edges were added to a flow.
    FlowExtended "flow.extended" 81;
    /// A flow was held.
    FlowHeld "flow.held" 82;
    /// A flow was let go.
    FlowUnheld "flow.unheld" 83;
    /// A flow is being ended before its members are through.
    FlowCancelling "flow.cancelling" 84;
    /// Every member is over, and no failure went unhandled.
    FlowCompleted "flow.completed" 85;
    /// A member failed and nothing handled it.
    FlowFailed "flow.failed" 86;
    /// A flow ended because someone stopped it.
    FlowCancelled "flow.cancelled" 87;
    /// A flow ended because its deadline passed.
    FlowExpired "flow.expired" 88;
    /// Members of a flow began anew.
    FlowReplayed "flow.replayed" 89;
    /// A flow was removed, by hand or because its time was over.
    FlowDeleted "flow.deleted" 90;
    /// A flow's tags changed.
    FlowTagged "flow.tagged" 91;
    /// A signal came; the data say from whom, with what effect, and with which token.
    SignalDelivered "signal.delivered" 100;
    /// A waitpoint was created.
    WaitpointCreated "waitpoint.created" 110;
    /// A waitpoint takes no more signals.
    WaitpointClosed "waitpoint.closed" 111;
    /// A stream takes no more frames.
    StreamClosed "stream.closed" 115;
    /// A signing key was made or brought.
    KeyAdded "key.added" 120;
    /// A signing key signs no more.
    KeyRetired "key.retired" 121;
    /// A signing key does nothing any more.
    KeyRevoked "key.revoked" 122;
    /// A budget was made.
    BudgetCreated "budget.created" 130;
    /// A budget's terms changed.
    BudgetUpdated "budget.updated" 131;
    /// A budget was removed.
    BudgetDeleted "budget.deleted" 132;
    /// A budget began anew.
    BudgetReset "budget.reset" 133;
    /// More of a budget was asked for than was left.
    BudgetBreached "budget.breached" 134;
    /// More of a budget was spent than its soft limit.
    BudgetSoftBreached "budget.soft_breached" 135;
    /// What an execution had spent of a budget was given back.
    BudgetReleased "budget.released" 136;
    /// A quota was made.
    QuotaCreated "quota.created" 140;
    /// A quota's terms changed.
    QuotaUpdated "quota.updated" 141;
    /// A quota was removed.
    QuotaDeleted "quota.deleted" 142;
    /// A budget or quota applies to something.
    LimitAttached "limit.attached" 145;
    /// A budget or quota no longer applies to something.
    LimitDetached "limit.detached" 146;
}

impl EventKind {
    /// Whether it ends an execution's run; there is exactly one such event per run that ended.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Skipped
        )
    }

    /// Whether it ends a flow's run; there is exactly one such event per run that ended.
    pub const fn ends_flow(self) -> bool {
        matches!(
            self,
            Self::FlowCompleted | Self::FlowFailed | Self::FlowCancelled | Self::FlowExpired
        )
    }
}

/// An event as a rule writes it.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// The execution it is about.
    pub execution: Option<(RowId, ExecutionId)>,
    /// The lane it is about.
    pub lane: Option<LaneId>,
    /// The flow it, or its execution, belongs to.
    pub flow: Option<FlowId>,
    /// The attempt it is about.
    pub attempt: Option<u32>,
    /// The fence at the time.
    pub epoch: Option<Epoch>,
    /// The worker it is about.
    pub worker: Option<String>,
    /// The execution's tags at the time.
    pub tags: Arc<Tags>,
    /// What else there is to say.
    pub data: Option<Value>,
}

impl NewEvent {
    /// An event about a namespace.
    pub fn new(kind: EventKind, at: Timestamp, namespace: NamespaceId) -> Self {
        Self {
            kind,
            at,
            namespace,
            execution: None,
            lane: None,
            flow: None,
            attempt: None,
            epoch: None,
            worker: None,
            tags: Arc::default(),
            data: None,
        }
    }
}

/// Writes an event about an execution as it is now.
pub(crate) fn log(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    kind: EventKind,
    worker: Option<&str>,
    data: Option<Value>,
) -> Result<()> {
    tx.add_event(&NewEvent {
        kind,
        at: cx.now,
        namespace: execution.namespace,
        execution: Some((execution.row, execution.id)),
        lane: Some(execution.lane),
        flow: execution.member.as_ref().map(|member| member.flow_id),
        attempt: Some(execution.attempt).filter(|attempt| *attempt > 0),
        epoch: Some(execution.epoch),
        worker: worker.map(str::to_owned),
        tags: Arc::clone(&execution.tags),
        data,
    })
}

/// An event as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub cursor: Cursor,
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// Where it belongs.
    pub namespace: String,
    /// The execution it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The lane it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// The flow it, or its execution, belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// The attempt it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The fence at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The worker it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The execution's tags at the time.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Which events a reader wants. What is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventFilter {
    /// Of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of one of these kinds; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<EventKind>,
    /// About this execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// About this lane; needs the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// About this flow or a member of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// About an execution that had all these tags when it happened.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// From where a log is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// From the oldest event still kept.
    #[default]
    Oldest,
    /// From the next one on.
    Now,
    /// From the one after this cursor.
    After(Cursor),
}

/// Reads a page of the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadEvents {
    /// Which events.
    #[serde(default)]
    pub filter: EventFilter,
    /// From where.
    #[serde(default)]
    pub from: From,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

pub(crate) fn default_page() -> usize {
    Limits::DEFAULT_PAGE
}

impl Default for ReadEvents {
    fn default() -> Self {
        Self { filter: EventFilter::default(), from: From::default(), limit: default_page() }
    }
}

/// A page of the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Read on from here. Everything up to it has been seen, also what did not match.
    pub next: Cursor,
    /// Whether the end of the log was reached.
    pub at_end: bool,
}

/// How many events one page looks at when hardly any match.
const SCAN: usize = 10_000;

impl Query for ReadEvents {
    const NAME: &'static str = "read_events";
    type Output = EventPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<EventPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.that(
            self.filter.lane.is_none() || self.filter.namespace.is_some(),
            "filter.namespace",
            || "a lane is named within its namespace; give that too".into(),
        );
        check.finish()?;

        let span = read.event_span()?;
        let after = match self.from {
            From::Oldest => Cursor(span.first.0 - 1),
            From::Now => {
                return Ok(EventPage { events: vec![], next: span.last, at_end: true });
            }
            From::After(cursor) if cursor > span.last => {
                return Err(Error::invalid(
                    "from",
                    format!("the log ends at {}; this cursor is from another store", span.last),
                ));
            }
            From::After(cursor) if cursor.0 + 1 < span.first.0 => {
                return Err(Error::new(
                    Code::CursorExpired,
                    format!(
                        "events up to {} have been removed; begin again at `oldest`",
                        span.first.0 - 1
                    ),
                ));
            }
            From::After(cursor) => cursor,
        };
        let Some(scan) = self.filter.resolve(read)? else {
            return Ok(EventPage { events: vec![], next: span.last, at_end: true });
        };
        let slice = read.events(after, &scan, self.limit, SCAN)?;
        let next = slice.scanned_to.max(after);
        Ok(EventPage { events: slice.events, next, at_end: next >= span.last })
    }
}

impl EventFilter {
    /// In the store's own ids; nothing when it can not match yet.
    fn resolve(&self, read: &mut dyn Read) -> Result<Option<EventScan>> {
        let mut scan = EventScan {
            kinds: self.kinds.clone(),
            execution: self.execution,
            flow: self.flow,
            tags: self.tags.clone(),
            ..EventScan::default()
        };
        if let Some(name) = &self.namespace {
            let Some(namespace) = read.namespace(name)? else {
                return Ok(None);
            };
            scan.namespace = Some(namespace.id);
            if let Some(lane) = &self.lane {
                let Some(lane) = read.lane(namespace.id, lane)? else {
                    return Ok(None);
                };
                scan.lane = Some(lane.id);
            }
            if let Some(id) = self.execution {
                scan.row = only_row(read, namespace.id, id)?;
            }
        }
        Ok(Some(scan))
    }
}

/// The row all events of an execution are about. An id that was given by its submitter may have
/// had an earlier life under another row; then there is no such row.
fn only_row(read: &mut dyn Read, namespace: NamespaceId, id: ExecutionId) -> Result<Option<RowId>> {
    let Some(execution) = read.find(namespace, &[id])?.pop().flatten() else { return Ok(None) };
    let given = read.fingerprint(execution.row)?.is_some();
    Ok((!given).then_some(execution.row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_text_and_a_number_of_its_own() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_code(kind.code()).unwrap(), *kind);
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.as_str());
        }
        let mut texts: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), EventKind::ALL.len());
    }
}
