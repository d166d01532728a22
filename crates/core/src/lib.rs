//! The heart of Everloom: the model, the rules, and the contract a store fulfils.
//!
//! Everything here is synchronous and deterministic. A [`Command`] is plain data; its rule reads
//! and writes rows through [`Tx`] and takes time, ids and randomness from its [`Context`]: the
//! same rows, command and context give the same rows, events and answer. Stores only know how to
//! load and save rows; [`run_batch`] is the one place that begins and commits.
//!
//! This crate does no input or output, asks no clock, and knows no store but [`MemoryStore`].
//!
//! Suggested reading order: [`State`] and [`Execution`], then [`Submit`], [`Claim`] and
//! [`Complete`], then [`Store`].

// The table of transitions is written out edge by edge.
#![recursion_limit = "256"]

mod model;

mod command;
mod store;

mod batch;
mod recorder;

mod retry;

mod submit;

mod claim;
mod grant;
mod lease;

mod cancel;
mod complete;
mod delay;
mod fail;
mod finish;
mod flow;
mod release;
mod suspend;

mod hold;
mod inbox;
mod lane;
mod limit;
mod namespace;
mod priority;
mod replay;
mod revoke;
mod set_tags;
mod steps;
mod stream;

mod worker;

mod chore;
mod clock;
mod delete;

mod event;
mod examination;
mod explain;
mod overview;
mod page;
mod read;
mod registry;

mod memory;
mod misses;

pub use batch::{Call, Clock, Job, ReadyWork, Wakes, run_batch, run_within};
pub use cancel::{AcknowledgeCancel, Cancel, CancelAcknowledged, CancelOutcome};
pub use chore::{Chore, ChoreKind};
pub use claim::{Claim, Claimed, Granted, Leased};
pub use clock::{Prepare, Tick, Ticked};
pub use command::{Command, Context, Query, Seed};
pub use complete::{Complete, Completed};
pub use delay::{Delay, DelayOutcome};
pub use delete::Delete;
pub use event::{Event, EventFilter, EventKind, EventPage, From, NewEvent, ReadEvents};
pub use examination::{Examination, Finding, Level};
pub use explain::{Explain, Explanation};
pub use fail::{Fail, FailOutcome};
pub use flow::{
    AddExecution, AddExecutionOutcome, After, ApplyEdge, ApplyEdgeOutcome, Bound, CancelFlow,
    CreateFlow, CreateFlowOutcome, DeleteFlow, DrawFlow, Drawing, DrawnFlow, DrawnNode, EdgeStaged,
    EdgeView, ExplainNode, ExtendFlow, FlowCancelled, FlowCursor, FlowExtended, FlowPage,
    FlowReplayed, FlowSubmitted, FlowTagged, FlowView, FlowWork, GetFlow, HoldFlow, JoinView,
    ListFlows, ListNodes, NewEdge, NewFlow, NewNode, NodePage, NodeView, ReplayFlow, SetFlowTags,
    SetJoin, SetJoinOutcome, Spawn, SpawnInto, Spawned, StageEdge, SubmitFlow, UnholdFlow,
    Upstream, WaitChildren, WaitChildrenOutcome,
};
pub use grant::{ClaimExecution, ClaimRefusal, ClaimedExecution, DEFAULT_RESERVE, RedeemGrant};
pub use hold::{Hold, HoldOutcome, Unhold};
pub use inbox::{
    ApplyInbox, CountRequests, DeleteRequest, InboxApplied, ListRefusedRequests, NewRequest,
    Refusal, RefusedRequest, RefusedRequestPage, Request, RequestCounts, RetryRequest,
};
pub use lane::{DrainLane, LaneChanged, PauseLane, PutLane, ResumeLane};
pub use lease::{Renew, Renewal, RenewedLeases, ReportProgress};
pub use limit::{
    AttachLimit, AttachTo, BreachWork, BudgetPage, BudgetReleased, BudgetStatus, CreateBudget,
    CreateQuota, DeleteBudget, DeleteQuota, DetachLimit, DimensionStatus, GetBudget, GetLedger,
    GetQuota, Ledger, LedgerEntry, LimitChange, LimitChanged, LimitCreated, LimitName, ListBudgets,
    ListQuotas, QuotaKeyStatus, QuotaPage, QuotaStatus, ReleaseBudget, ResetBudget, Spend, Spent,
    UpdateBudget, UpdateQuota,
};
pub use memory::MemoryStore;
pub use model::*;
pub use namespace::PutNamespace;
pub use overview::{
    About, AttemptPage, AttemptView, GetAbout, LanePage, LaneView, ListAttempts, ListLanes,
    ListNamespaces, NamespacePage, NamespaceView,
};
pub use priority::{ChangePriority, PriorityChanged};
pub use read::{
    CountExecutions, Counts, ExecutionPage, ExecutionResult, ExecutionView, GetExecution, GetInput,
    GetResult, ListExecutions, PageCursor,
};
pub use registry::{COMMANDS, QUERIES};
pub use release::{Release, ReleaseOutcome};
pub use replay::{Replay, Replayed};
pub use retry::{Failure, FailureClass};
pub use revoke::{NothingToRevoke, RevokeLease, RevokeOutcome};
pub use set_tags::{SetTags, Tagged};
pub use steps::{KeepSteps, ListSteps, RecordStep, StepPage, StepRecorded, StepView};
pub use store::{
    BackupProgress, Count, EventScan, EventSlice, EventSpan, FlowScan, FlowSlice, ListScan,
    ListSlice, MemberCount, News, Read, ReadLimits, ReadMail, ReadStreams, Source, Store,
    StoreInfo, Transaction, Tx, WriteLimits, WriteMail, WriteStreams,
};
pub use stream::{
    Append, Appended, CloseStream, FrameView, NewFrame, ReadStream, ReadSummary, StreamFrom,
    StreamPage, SummaryView,
};
pub use submit::{NewExecution, Submission, Submit, Submitted};
pub use suspend::{
    ApprovalAsked, Approve, CloseWaitpoint, CloseWaitpointOutcome, CreateWaitpoint,
    CreatedWaitpoint, DeliverSignal, Delivered, Effect, InboxPage, KeyRevoked, ListInbox,
    ListSignals, ListSigningKeys, ListSuspensions, ListWaitpoints, ObserveSignals, Reject, Resume,
    Resumed, Resumption, RevokeSigningKey, RotateOutcome, RotateSigningKey, SeedOutcome,
    SeedSigningKey, SignalPage, SignalTo, SignalView, SigningKeyView, SigningKeys, Suspend,
    SuspendOutcome, SuspensionPage, SuspensionView, Ticket, Token, WaitpointName, WaitpointPage,
    WaitpointView,
};
pub use worker::{
    ExpiredLease, ExpiredLeaseCursor, ExpiredLeasePage, Heartbeat, HeartbeatWorker,
    ListExpiredLeases, ListWorkers, MarkWorkerDead, MarkedDead, RegisterWorker, Registration,
    WorkerPage, WorkerView,
};
