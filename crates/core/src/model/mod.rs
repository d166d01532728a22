//! The nouns: ids, time, payloads, policy, the state of an execution, errors and limits.

mod axes;
mod check;
mod condition;
mod error;
mod execution;
mod flow;
mod id;
mod join;
mod limit;
mod limits;
mod payload;
mod policy;
mod rows;
mod signing;
mod state;
mod step;
mod stream;
mod suspension;
mod tags;
mod tally;
mod time;
mod transition;

pub use axes::{Attempt, Axes, Blocking, Eligibility, Ownership, Phase};
pub(crate) use check::Check;
pub use check::Violation;
pub use condition::{Condition, Distinct};
pub use error::{Again, Class, Code, Error, LeaseLost, Result};
pub use execution::{Beside, Execution, Progress};
pub(crate) use flow::member_id;
pub use flow::{
    CancelScope, Closing, ClosingCause, Extent, Flow, FlowCounts, FlowEnd, FlowOutcome, FlowState,
    FlowStatus, FlowTerms, Member, OnMemberFailure,
};
pub use id::{
    ChoreId, Cursor, DEFAULT_NAME, EdgeId, Epoch, ExecutionId, FlowId, FlowRow, GateRow, LaneId,
    LeaseToken, LimitRow, NamespaceId, RequestId, RouteId, RowId, Secret, SignalId, WaitpointId,
};
pub(crate) use id::{default_name, derived};
pub use join::{Beginning, Edge, Join, Need, Otherwise, Rest, Verdict, When};
pub(crate) use limit::check_uses;
pub use limit::{
    Allowance, Amounts, Breach, BudgetCourse, BudgetTerms, BudgetUse, ConcurrencyKey, FairTerms,
    Gate, GateCourse, Limit, LimitPlace, LimitSort, LimitTerms, LimitUses, NamespaceLimits,
    OnBreach, Passage, QuotaTerms, QuotaUse, RateTerms, Share, Turn, Usage, Use,
};
pub use limits::{Limits, Settings};
pub use payload::Payload;
pub use policy::{
    Backoff, Defaults, Fallback, OnParentEnd, Policy, RetryOn, RetryPolicy, SuspensionPolicy,
};
pub use rows::{
    Key, KeyOf, Lane, LaneMode, LeaseEnd, Namespace, PastLease, Route, RouteTable, WorkerRow,
};
pub use signing::{KeyState, SigningKey, SigningSecret};
pub use state::{
    Blocked, CancelRequest, DelayCause, End, EndReason, Grant, Lease, Limited, LimitedBy, Outcome,
    PauseRequest, Ready, State, StateColumns, Status, Timer,
};
pub use step::{Step, StepFacts};
pub use stream::{
    Chunk, ChunkFacts, ChunkSpan, FrameFacts, FrameKind, FrameMode, KeptFrames, Liveness, Rate,
    Stream, StreamClosed, StreamEnd, StreamState, Summary,
};
pub use suspension::{
    Approval, CloseReason, EndedBy, Fingerprint, OnTimeout, Signal, SignalFacts, SuspendReason,
    Suspended, Suspension, SuspensionCourse, SuspensionEnd, SuspensionTerms, TakenSignal,
    TokenTrace, Waitpoint, WaitpointCourse, WaitpointState,
};
pub use tags::{TagChanges, Tags};
pub use tally::{Offer, Offered, Tally};
pub use time::{Timestamp, duration_ms, option_duration_ms};
pub use transition::{Cause, TRANSITIONS, Transition};
