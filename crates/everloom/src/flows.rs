//! Flows as programs see them.

use std::time::Duration;

use everloom_core::{
    AddExecution, AddExecutionOutcome, ApplyEdge, ApplyEdgeOutcome, CancelFlow, CreateFlow,
    CreateFlowOutcome, DeleteFlow, DrawFlow, Drawing, DrawnFlow, EdgeId, EdgeStaged, ExecutionId,
    ExplainNode, Explanation, ExtendFlow, FlowCancelled, FlowExtended, FlowId, FlowPage,
    FlowReplayed, FlowSubmitted, FlowTagged, FlowView, GetFlow, HoldFlow, HoldOutcome, LeaseToken,
    ListFlows, ListNodes, Need, NewFlow, NewNode, NodePage, ReplayFlow, Rest, Result, SetFlowTags,
    SetJoin, SetJoinOutcome, Spawn, SpawnInto, Spawned, StageEdge, SubmitFlow, TagChanges,
    UnholdFlow, WaitChildren, WaitChildrenOutcome,
};
use tokio::time::{Instant, timeout_at};

use crate::Engine;

/// Flows: graphs of executions that wait for each other.
///
/// ```
/// use everloom::{After, Claim, Engine, FlowStatus, NewExecution, NewFlow, NewNode, Payload};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let flow = engine
///     .submit_flow(
///         NewFlow::new().node(NewNode::new("ask", NewExecution::new("ask"))).node(
///             NewNode::new("answer", NewExecution::new("answer"))
///                 .after(After::all(["ask"]).bind("ask", "question")),
///         ),
///     )
///     .await?;
/// let ask = engine.claim(Claim::new("w")).await?.leases.remove(0);
/// engine.complete(&ask.lease, Payload::bytes("6 x 9?")).await?;
/// let answer = engine.claim(Claim::new("w")).await?.leases.remove(0);
/// assert_eq!(answer.bound["question"].result, Some(Payload::bytes("6 x 9?")));
/// engine.complete(&answer.lease, Payload::bytes("42")).await?;
/// assert_eq!(engine.wait_flow(flow.id).await?.status, FlowStatus::Completed);
/// # Ok(())
/// # }
/// ```
impl Engine {
    /// Submits a flow with all its nodes and edges, or nothing.
    pub async fn submit_flow(&self, flow: NewFlow) -> Result<FlowSubmitted> {
        self.apply(SubmitFlow { namespace: self.here(), flow }).await
    }

    /// Adds nodes and edges to a flow, all of them or none.
    pub async fn extend_flow(&self, extend: ExtendFlow) -> Result<FlowExtended> {
        self.apply(ExtendFlow { namespace: self.here(), ..extend }).await
    }

    /// Waits until a flow has ended.
    pub async fn wait_flow(&self, flow: FlowId) -> Result<FlowView> {
        let ended = self.driver().hub().endings().watch(flow.0);
        loop {
            let view = self.ask(GetFlow { namespace: self.here(), flow, brief: true }).await?;
            if view.status.is_terminal() {
                return Ok(view);
            }
            let recheck = Instant::now() + self.driver().options().recheck;
            // Whether it was called or not, the next look tells.
            let _ = timeout_at(recheck, ended.called()).await;
        }
    }

    /// Waits until a flow has ended, but not longer than this: then what it is doing.
    pub async fn wait_flow_for(&self, flow: FlowId, longest: Duration) -> Result<FlowView> {
        match tokio::time::timeout(longest, self.wait_flow(flow)).await {
            Ok(ended) => ended,
            Err(_) => self.get_flow(flow).await,
        }
    }

    /// Stops a flow with everything in it, at once.
    pub async fn cancel_flow(&self, flow: FlowId) -> Result<FlowCancelled> {
        self.cancel_flow_with(CancelFlow::new(flow)).await
    }

    /// Stops a flow as the request says.
    pub async fn cancel_flow_with(&self, cancel: CancelFlow) -> Result<FlowCancelled> {
        self.apply(CancelFlow { namespace: self.here(), ..cancel }).await
    }

    /// Keeps a flow's members from workers.
    pub async fn hold_flow(&self, flow: FlowId) -> Result<HoldOutcome> {
        self.apply(HoldFlow { namespace: self.here(), flow }).await
    }

    /// Lets a held flow go.
    pub async fn unhold_flow(&self, flow: FlowId) -> Result<HoldOutcome> {
        self.apply(UnholdFlow { namespace: self.here(), flow }).await
    }

    /// Runs nodes of a flow again, all that failed when none is named.
    pub async fn replay_flow(&self, flow: FlowId, nodes: Vec<String>) -> Result<FlowReplayed> {
        self.apply(ReplayFlow { namespace: self.here(), flow, nodes }).await
    }

    /// Merges into a flow's tags.
    pub async fn set_flow_tags(&self, flow: FlowId, tags: TagChanges) -> Result<FlowTagged> {
        self.apply(SetFlowTags { namespace: self.here(), flow, tags }).await
    }

    /// Removes an ended flow with all its members.
    pub async fn delete_flow(&self, flow: FlowId) -> Result<()> {
        self.apply(DeleteFlow { namespace: self.here(), flow }).await
    }

    /// A flow, with how many of its members are in which state.
    pub async fn get_flow(&self, flow: FlowId) -> Result<FlowView> {
        self.ask(GetFlow { namespace: self.here(), flow, brief: false }).await
    }

    /// A flow's nodes with what each waits for, by name.
    pub async fn nodes(&self, list: ListNodes) -> Result<NodePage> {
        self.ask(ListNodes { namespace: self.here(), ..list }).await
    }

    /// Why a node is where it is, in words.
    pub async fn explain_node(&self, flow: FlowId, node: &str) -> Result<Explanation> {
        self.ask(ExplainNode { namespace: self.here(), flow, node: node.to_owned() }).await
    }

    /// Flows that match, the newest first.
    pub async fn list_flows(&self, list: ListFlows) -> Result<FlowPage> {
        self.ask(ListFlows { namespace: self.here(), ..list }).await
    }

    /// A flow, ready to be drawn.
    pub async fn draw_flow(&self, flow: FlowId, drawing: Drawing) -> Result<DrawnFlow> {
        self.ask(DrawFlow { namespace: self.here(), flow, drawing }).await
    }
}

/// Building a flow step by step, from executions that exist.
impl Engine {
    /// Creates a flow without nodes. It is held until it is unheld.
    pub async fn create_flow(&self, flow: NewFlow) -> Result<CreateFlowOutcome> {
        self.apply(CreateFlow { namespace: self.here(), flow }).await
    }

    /// Makes an execution that has not started a member of a flow.
    pub async fn add_execution(
        &self,
        flow: FlowId,
        execution: ExecutionId,
        node: Option<&str>,
    ) -> Result<AddExecutionOutcome> {
        let node = node.map(str::to_owned);
        self.apply(AddExecution { namespace: self.here(), flow, execution, node }).await
    }

    /// Adds an edge between two members.
    pub async fn stage_edge(&self, edge: StageEdge) -> Result<EdgeStaged> {
        self.apply(StageEdge { namespace: self.here(), ..edge }).await
    }

    /// Acknowledges a staged edge.
    pub async fn apply_edge(&self, flow: FlowId, edge: EdgeId) -> Result<ApplyEdgeOutcome> {
        self.apply(ApplyEdge { namespace: self.here(), flow, edge }).await
    }

    /// Says how many of its sources a member needs.
    pub async fn set_join(
        &self,
        flow: FlowId,
        execution: ExecutionId,
        need: Need,
        rest: Option<Rest>,
    ) -> Result<SetJoinOutcome> {
        self.apply(SetJoin { namespace: self.here(), flow, execution, need, rest }).await
    }
}

/// Work that a running execution makes.
impl Engine {
    /// Makes executions from within a running one, once for each step's name.
    pub async fn spawn(
        &self,
        lease: &LeaseToken,
        step: &str,
        nodes: Vec<NewNode>,
        into: SpawnInto,
    ) -> Result<Spawned> {
        let (lease, step) = (lease.clone(), step.to_owned());
        self.apply(Spawn { namespace: self.here(), lease, step, nodes, into }).await
    }

    /// Waits for what an execution has made, holding no lease meanwhile.
    pub async fn wait_children(&self, wait: WaitChildren) -> Result<WaitChildrenOutcome> {
        self.apply(WaitChildren { namespace: self.here(), ..wait }).await
    }
}
