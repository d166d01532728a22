//! Adding to a flow that is under way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cascade::Cascade;
use super::create::{expect_revision, node_id};
use super::graph::{NewEdge, NewNode};
use super::plan::Plan;
use super::{flow_event, load_open};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::model::{Check, ExecutionId, FlowId, FlowStatus, Result, default_name};
use crate::store::Tx;

/// Adds nodes to a flow, and edges into nodes that have not started; all of it or nothing.
///
/// What a new node waits for may be over: then that counts at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// Nodes and edges the flow has; if it has others, nothing is added.
    pub expected_revision: u64,
    /// New nodes. They may wait for nodes that are in the flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NewNode>,
    /// New edges. One into a node without any makes it wait for all of its sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<NewEdge>,
}

/// The flow is larger now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowExtended {
    /// Nodes and edges it has.
    pub revision: u64,
    /// What it is doing.
    pub status: FlowStatus,
    /// The executions of the new nodes, by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl Command for ExtendFlow {
    const NAME: &'static str = "extend_flow";
    type Output = FlowExtended;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowExtended> {
        let flow = load_open(tx, &self.namespace, self.flow)?;
        expect_revision(&flow, self.expected_revision)?;
        let mut check = Check::default();
        check.that(!self.nodes.is_empty() || !self.edges.is_empty(), "nodes", || {
            "name at least one node or edge to add".into()
        });
        let namespace = tx.namespace_by_id(flow.namespace)?;
        let (nodes, edges) = (&self.nodes, &self.edges);
        let plan = Plan::check(tx, cx, Some(&namespace), Some(&flow), nodes, edges, check)?;
        let data = json!({ "nodes": nodes.len(), "edges": plan.edge_count() });
        tx.add_event(&flow_event(EventKind::FlowExtended, cx.now, &flow, Some(data)))?;
        let mut cascade = Cascade::new(flow);
        let id_of = |node: &NewNode| node_id(self.flow, node);
        let planted = plan.plant(tx, cx, &namespace, &mut cascade, None, &id_of)?;
        let revision = cascade.flow.revision();
        let status = cascade.finish(tx, cx)?;
        Ok(FlowExtended { revision, status, nodes: planted.ids })
    }
}
