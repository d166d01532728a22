//! The nouns: ids, time, payloads, policy, the state of an execution, errors and limits.

mod check;
mod error;
mod execution;
mod flow;
mod id;
mod join;
mod limits;
mod payload;
mod policy;
mod rows;
mod state;
mod tags;
mod time;
mod transition;

pub(crate) use check::Check;
pub use check::Violation;
pub use error::{Again, Class, Code, Error, LeaseLost, Result};
pub use execution::{Execution, Progress};
pub(crate) use flow::member_id;
pub use flow::{
    CancelScope, Closing, ClosingCause, Extent, Flow, FlowCounts, FlowEnd, FlowOutcome, FlowState,
    FlowStatus, FlowTerms, Member, OnMemberFailure,
};
pub use id::{
    ChoreId, Cursor, DEFAULT_NAME, EdgeId, Epoch, ExecutionId, FlowId, FlowRow, LaneId, LeaseToken,
    NamespaceId, RequestId, RouteId, RowId, Secret,
};
pub(crate) use id::{default_name, derived};
pub use join::{Beginning, Edge, Join, Need, Otherwise, Rest, Verdict, When};
pub use limits::{Limits, Settings};
pub use payload::Payload;
pub use policy::{Backoff, Defaults, Fallback, OnParentEnd, Policy, RetryOn, RetryPolicy};
pub use rows::{
    Key, KeyOf, Lane, LaneMode, LeaseEnd, Namespace, PastLease, Route, RouteTable, WorkerRow,
};
pub use state::{
    Attempt, Axes, Blocked, Blocking, CancelRequest, DelayCause, Eligibility, End, EndReason,
    Grant, Lease, Outcome, Ownership, Phase, Ready, State, StateColumns, Status, Timer,
};
pub use tags::{TagChanges, Tags};
pub use time::{Timestamp, duration_ms, option_duration_ms};
pub use transition::{Cause, TRANSITIONS, Transition};
