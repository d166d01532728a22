//! Flows: graphs of executions that wait for each other.
//!
//! Edges between executions are rows; a [`Join`](crate::Join) counts, for one execution, how its
//! sources ended. Whatever ends a member goes through its flow's [`Cascade`], in the transaction
//! that ended it: joins are decided, executions released or skipped, sources that nothing needs
//! any more cancelled, and the flow itself ended when its last member is.

pub(crate) mod cascade;
pub(crate) mod children;
mod chores;
mod close;
mod create;
mod delete;
mod draw;
mod explain;
mod extend;
pub(crate) mod gate;
mod graph;
mod hold;
mod list;
mod plan;
mod plant;
mod read;
mod replay;
mod steps;
mod tags;

pub(crate) use cascade::Cascade;
pub use children::{Spawn, SpawnInto, Spawned, WaitChildren, WaitChildrenOutcome};
pub use chores::FlowWork;
pub(crate) use chores::{expire, remove, work};
pub use close::{CancelFlow, FlowCancelled};
pub use create::{FlowSubmitted, NewFlow, SubmitFlow};
pub use delete::DeleteFlow;
pub use draw::{DrawFlow, Drawing, DrawnFlow, DrawnNode};
pub use explain::ExplainNode;
pub(crate) use explain::what_for;
pub use extend::{ExtendFlow, FlowExtended};
pub use graph::{After, NewEdge, NewNode, Upstream};
pub use hold::{HoldFlow, UnholdFlow};
pub use list::{FlowCursor, FlowPage, ListFlows};
pub(crate) use read::bindings;
pub use read::{Bound, EdgeView, FlowView, GetFlow, JoinView, ListNodes, NodePage, NodeView};
pub(crate) use replay::replay_member;
pub use replay::{FlowReplayed, ReplayFlow};
pub use steps::{
    AddExecution, AddExecutionOutcome, ApplyEdge, ApplyEdgeOutcome, CreateFlow, CreateFlowOutcome,
    EdgeStaged, SetJoin, SetJoinOutcome, StageEdge,
};
pub use tags::{FlowTagged, SetFlowTags};

use crate::event::{EventKind, NewEvent};
use crate::model::{Code, Error, Flow, FlowId, FlowState, Result};
use crate::store::Read;

/// The flow of that id.
pub(crate) fn load(read: &mut dyn Read, namespace: &str, id: FlowId) -> Result<Flow> {
    let found = match read.namespace(namespace)? {
        Some(namespace) => read.flow(namespace.id, id)?,
        None => None,
    };
    found.ok_or_else(|| Error::not_found("flow", format!("{id} in namespace `{namespace}`")))
}

/// A flow whose graph may change.
pub(crate) fn load_open(read: &mut dyn Read, namespace: &str, id: FlowId) -> Result<Flow> {
    let flow = load(read, namespace, id)?;
    expect_open(&flow)?;
    Ok(flow)
}

/// Refuses what a flow that is over, or about to be, does not take any more.
pub(crate) fn expect_open(flow: &Flow) -> Result<()> {
    match &flow.state {
        FlowState::Open => expect_settled(flow),
        FlowState::Closing(_) => Err(Error::new(
            Code::WrongState,
            format!("flow {} is being cancelled; nothing can be added to it", flow.id),
        )),
        FlowState::Ended(_) => Err(already_terminal(flow)),
    }
}

/// Refuses for the moment what must not happen while ends are still passed on.
pub(crate) fn expect_settled(flow: &Flow) -> Result<()> {
    match flow.counts.unsettled {
        0 => Ok(()),
        unsettled => Err(Error::new(
            Code::Unavailable,
            format!(
                "flow {} is still working off {unsettled} ends of its members; try again in a moment",
                flow.id
            ),
        )),
    }
}

pub(crate) fn already_terminal(flow: &Flow) -> Error {
    Error::new(
        Code::AlreadyTerminal,
        format!("flow {} is {} already; replay it to run it again", flow.id, flow.status()),
    )
    .with_details(serde_json::json!({ "status": flow.status() }))
}

/// An event about a flow as it is now.
pub(crate) fn flow_event(
    kind: EventKind,
    at: crate::Timestamp,
    flow: &Flow,
    data: Option<serde_json::Value>,
) -> NewEvent {
    NewEvent {
        flow: Some(flow.id),
        tags: std::sync::Arc::clone(&flow.tags),
        data,
        ..NewEvent::new(kind, at, flow.namespace)
    }
}
