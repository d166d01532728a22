//! Looking at executions: one, many, and how many.

use serde::{Deserialize, Serialize};

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Axes, CancelRequest, Check, End, Epoch, Error, Execution, ExecutionId, FlowId, LimitedBy,
    Limits, Payload, Policy, Progress, Result, RowId, State, Status, Suspended, Tags, Timestamp,
    default_name,
};
use crate::store::{Count, ListScan, Read};

/// Reads an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetExecution {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub execution: ExecutionId,
}

/// An execution as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionView {
    /// Its id.
    pub id: ExecutionId,
    /// Where it belongs.
    pub namespace: String,
    /// The queue it stands in.
    pub lane: String,
    /// Which handler does it.
    pub kind: String,
    /// What a worker must have to get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it is doing.
    pub status: Status,
    /// Since when.
    pub since: Timestamp,
    /// Whether it is held, whatever its status.
    pub held: bool,
    /// When time alone changes it; for an ended one, when it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// 0 to 9000, higher first.
    pub priority: i32,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it was first claimed in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The fence.
    pub epoch: Epoch,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// Retries used in this run.
    pub retries: u32,
    /// How often in a row it lost its worker.
    pub reclaims: u32,
    /// 1, and one more with every replay.
    pub run: u32,
    /// Who leases or has reserved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Until when it is leased or reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_until: Option<Timestamp>,
    /// Set while it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
    /// What does not let it pass, while something does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
    /// Set while its worker is asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What its worker last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// How it is treated.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// The idempotency key it was submitted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The flow it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// Its name in the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The execution that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// The reference's state vector.
    pub axes: Axes,
}

impl Query for GetExecution {
    const NAME: &'static str = "get_execution";
    type Output = ExecutionView;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<ExecutionView> {
        let execution = load(read, &self.namespace, self.execution)?;
        view(read, cx, &execution)
    }
}

pub(crate) fn view(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
) -> Result<ExecutionView> {
    let namespace = read.namespace_by_id(execution.namespace)?;
    let lane = read.lane_by_id(execution.lane)?;
    let routes = read.routes(execution.namespace)?;
    let route = routes.get(execution.route);
    let parent = match execution.parent {
        Some(row) => read.execution(row)?.map(|parent| parent.id),
        None => None,
    };
    let (owned_until, cancel) = match &execution.state {
        State::Granted(grant) => (Some(grant.until), None),
        State::Active(lease) => (Some(lease.until), lease.cancel.clone()),
        State::Waiting
        | State::Resumable
        | State::Delayed(_)
        | State::WaitingChildren(_)
        | State::Suspended(_)
        | State::Limited(_)
        | State::Ended(_) => (None, None),
    };
    Ok(ExecutionView {
        id: execution.id,
        namespace: namespace.name.clone(),
        lane: lane.name.clone(),
        kind: route.map(|route| route.kind.clone()).unwrap_or_default(),
        capabilities: route.map(|route| route.capabilities.clone()).unwrap_or_default(),
        status: execution.status(),
        since: execution.since,
        held: execution.is_held(),
        due_at: execution.due_at(),
        priority: execution.priority,
        deadline_at: execution.deadline_at,
        created_at: execution.created_at,
        created_by: execution.created_by.clone(),
        started_at: execution.started_at,
        epoch: execution.epoch,
        attempt: execution.attempt,
        retries: execution.retries,
        reclaims: execution.reclaims,
        run: execution.run,
        worker: execution.state.worker().map(str::to_owned),
        owned_until,
        suspended: match &execution.state {
            State::Suspended(suspended) => Some(suspended.clone()),
            _ => None,
        },
        limited_by: match &execution.state {
            State::Limited(limited) => Some(limited.by.clone()),
            _ => None,
        },
        cancel,
        end: execution.state.end().cloned(),
        progress: execution.progress.clone(),
        tags: (*execution.tags).clone(),
        policy: (*execution.policy).clone(),
        key: execution.key.clone(),
        flow: execution.member.as_ref().map(|member| member.flow_id),
        node: execution.member.as_ref().map(|member| member.node.clone()),
        parent,
        axes: execution.axes(lane.mode, cx.now),
    })
}

/// Reads an execution's input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetInput {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub execution: ExecutionId,
}

impl Query for GetInput {
    const NAME: &'static str = "get_input";
    type Output = Payload;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<Payload> {
        let execution = load(read, &self.namespace, self.execution)?;
        let input = read.inputs(&[execution.row])?.pop();
        input.ok_or_else(|| Error::bug("an execution has no input"))
    }
}

/// Reads an execution's result; there is none before it is completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetResult {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub execution: ExecutionId,
}

/// How an execution ended, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionResult {
    /// What it is doing.
    pub status: Status,
    /// How it ended; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What its worker delivered, when it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}

impl Query for GetResult {
    const NAME: &'static str = "get_result";
    type Output = ExecutionResult;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<ExecutionResult> {
        let execution = load(read, &self.namespace, self.execution)?;
        let result = match execution.status() {
            Status::Completed => Some(read.result(execution.row)?.unwrap_or_default()),
            _ => None,
        };
        Ok(ExecutionResult {
            status: execution.status(),
            end: execution.state.end().cloned(),
            result,
        })
    }
}

/// Finds executions, the newest first. What is left out does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListExecutions {
    /// Of this namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// In one of these states; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<Status>,
    /// Held, or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// In this lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// With all these tags.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Leased to or reserved for this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Submitted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Submitted then or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Timestamp>,
    /// Submitted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
    /// Whose end has this text in its message; ASCII letters match in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Read on from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PageCursor>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl Default for ListExecutions {
    fn default() -> Self {
        Self {
            namespace: default_name(),
            statuses: vec![],
            held: None,
            kind: None,
            lane: None,
            tags: Tags::new(),
            worker: None,
            created_by: None,
            created_from: None,
            created_before: None,
            text: None,
            after: None,
            limit: default_page(),
        }
    }
}

/// A place in a list of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageCursor(RowId);

/// A page of executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionPage {
    /// What matched. May be fewer than asked for although there is more: a page looks at a
    /// bounded number of executions.
    pub executions: Vec<ExecutionView>,
    /// Read on from here; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<PageCursor>,
}

/// How many executions one page looks at when hardly any match.
const SCAN: usize = 20_000;

impl Query for ListExecutions {
    const NAME: &'static str = "list_executions";
    type Output = ExecutionPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<ExecutionPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.at_most("tags", self.tags.len(), Limits::TAGS);
        check.finish()?;
        let mut page = ExecutionPage { executions: vec![], next: None };
        let Some(scan) = self.resolve(read)? else {
            return Ok(page);
        };
        let below = self.after.map(|cursor| cursor.0);
        let slice = read.list(&scan, below, self.limit, SCAN)?;
        for execution in &slice.executions {
            page.executions.push(view(read, cx, execution)?);
        }
        page.next = slice.next.map(PageCursor);
        Ok(page)
    }
}

impl ListExecutions {
    /// In the store's own ids; nothing when it can not match.
    fn resolve(&self, read: &mut dyn Read) -> Result<Option<ListScan>> {
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(None);
        };
        let lane = match &self.lane {
            Some(name) => match read.lane(namespace.id, name)? {
                Some(lane) => Some(lane.id),
                None => return Ok(None),
            },
            None => None,
        };
        let routes = match &self.kind {
            Some(kind) => match read.routes(namespace.id)?.of_kind(kind) {
                routes if routes.is_empty() => return Ok(None),
                routes => Some(routes),
            },
            None => None,
        };
        Ok(Some(ListScan {
            namespace: namespace.id,
            statuses: self.statuses.clone(),
            held: self.held,
            routes,
            lane,
            tags: self.tags.clone(),
            worker: self.worker.clone(),
            created_by: self.created_by.clone(),
            created_from: self.created_from,
            created_before: self.created_before,
            text: self.text.clone(),
        }))
    }
}

/// Counts the executions of a namespace, or of one lane, by state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountExecutions {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which lane; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
}

/// How many executions there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// By state, held ones apart; states without executions are left out.
    pub counts: Vec<Count>,
}

impl Counts {
    /// How many are in a state, held or not.
    pub fn of(&self, status: Status) -> u64 {
        self.counts.iter().filter(|one| one.status == status).map(|one| one.count).sum()
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|one| one.count).sum()
    }

    /// How many are not over.
    pub fn open(&self) -> u64 {
        let open = self.counts.iter().filter(|one| !one.status.is_terminal());
        open.map(|one| one.count).sum()
    }
}

impl Query for CountExecutions {
    const NAME: &'static str = "count_executions";
    type Output = Counts;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<Counts> {
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(Counts::default());
        };
        let lane = match &self.lane {
            Some(name) => match read.lane(namespace.id, name)? {
                Some(lane) => Some(lane.id),
                None => return Ok(Counts::default()),
            },
            None => None,
        };
        Ok(Counts { counts: read.counts(namespace.id, lane)? })
    }
}
