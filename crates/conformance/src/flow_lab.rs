//! Flows in the lab: short ways to make them, run them and count them.

use std::collections::BTreeMap;
use std::ops::Index;

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

/// A node that waits for nothing.
pub fn node(name: &str) -> NewNode {
    NewNode::new(name, work())
}

/// A node that waits.
pub fn waits(name: &str, after: After) -> NewNode {
    node(name).after(after)
}

/// A flow of these nodes.
pub fn flow(nodes: impl IntoIterator<Item = NewNode>) -> NewFlow {
    NewFlow::new().nodes(nodes)
}

/// A flow in which each of these waits for the one before.
pub fn chain<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> NewFlow {
    let mut before: Option<String> = None;
    let nodes = names.into_iter().map(|name| {
        let new = match &before {
            Some(before) => waits(name.as_ref(), After::all([before.as_str()])),
            None => node(name.as_ref()),
        };
        before = Some(name.as_ref().to_owned());
        new
    });
    flow(nodes.collect::<Vec<_>>())
}

/// Submits a flow.
pub fn submit_flow(flow: NewFlow) -> SubmitFlow {
    SubmitFlow { namespace: ns(), flow }
}

/// Reads a flow.
pub fn get_flow(flow: FlowId) -> GetFlow {
    GetFlow { namespace: ns(), flow, brief: false }
}

/// Adds to a flow at a revision.
pub fn extend(flow: FlowId, expected_revision: u64) -> ExtendFlow {
    ExtendFlow { namespace: ns(), flow, expected_revision, nodes: vec![], edges: vec![] }
}

/// Replays these nodes of a flow, or all that failed.
pub fn replay_flow<const N: usize>(flow: FlowId, nodes: [&str; N]) -> ReplayFlow {
    ReplayFlow { namespace: ns(), flow, nodes: names(nodes) }
}

/// Holds a flow.
pub fn hold_flow(flow: FlowId) -> HoldFlow {
    HoldFlow { namespace: ns(), flow }
}

/// Lets a held flow go.
pub fn unhold_flow(flow: FlowId) -> UnholdFlow {
    UnholdFlow { namespace: ns(), flow }
}

/// Removes an ended flow.
pub fn delete_flow(flow: FlowId) -> DeleteFlow {
    DeleteFlow { namespace: ns(), flow }
}

/// Cancels a flow in that scope.
pub fn cancel_flow(flow: FlowId, scope: CancelScope) -> CancelFlow {
    CancelFlow { scope, ..CancelFlow::new(flow) }
}

/// Completes with that result.
pub fn complete_with(leased: &Leased, result: &str) -> Complete {
    Complete { result: Payload::bytes(result.to_owned()), ..complete(leased) }
}

/// Events about a flow and its members.
pub fn about_flow(flow: FlowId) -> EventFilter {
    EventFilter { flow: Some(flow), ..EventFilter::default() }
}

/// A flow that was made, with the executions of its nodes by name.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The flow.
    pub id: FlowId,
    /// Its nodes.
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl Index<&str> for Graph {
    type Output = ExecutionId;

    fn index(&self, name: &str) -> &ExecutionId {
        self.nodes.get(name).unwrap_or_else(|| panic!("the flow has a node `{name}`"))
    }
}

#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference")]
impl Lab {
    /// Submits a flow that is new.
    #[track_caller]
    pub fn plant(&mut self, flow: NewFlow) -> Graph {
        let submitted = self.ok(submit_flow(flow));
        assert!(!submitted.duplicate);
        Graph { id: submitted.id, nodes: submitted.nodes }
    }

    /// Leases an execution and completes it.
    #[track_caller]
    pub fn complete(&mut self, id: ExecutionId) {
        let lease = self.take(id);
        self.ok(complete(&lease));
    }

    /// Leases an execution and completes it with that result.
    #[track_caller]
    pub fn complete_with(&mut self, id: ExecutionId, result: &str) {
        let lease = self.take(id);
        self.ok(complete_with(&lease, result));
    }

    /// Leases an execution and fails it for good.
    #[track_caller]
    pub fn fail(&mut self, id: ExecutionId) {
        let lease = self.take(id);
        self.ok(fail(&lease, Failure::permanent("broken")));
    }

    /// Fails what a lease is about for good.
    #[track_caller]
    pub fn fail_lease(&mut self, lease: &Leased) {
        self.ok(fail(lease, Failure::permanent("broken")));
    }

    /// Works off what is due now.
    #[track_caller]
    pub fn settle(&mut self) {
        self.advance(secs(0));
    }

    /// A flow.
    #[track_caller]
    pub fn flow(&mut self, id: FlowId) -> FlowView {
        self.see(get_flow(id))
    }

    /// All nodes of a flow.
    #[track_caller]
    pub fn nodes(&mut self, id: FlowId) -> Vec<NodeView> {
        let mut query = ListNodes::new(id);
        let mut all = Vec::new();
        loop {
            let page = self.see(query.clone());
            all.extend(page.nodes);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return all,
            }
        }
    }

    /// A node of a flow.
    #[track_caller]
    pub fn node(&mut self, id: FlowId, name: &str) -> NodeView {
        let nodes = self.nodes(id);
        nodes.into_iter().find(|node| node.name == name).expect("the node exists")
    }

    /// What every node of a flow is doing, in one line: `a:completed b:waiting`.
    #[track_caller]
    pub fn states(&mut self, id: FlowId) -> String {
        let nodes = self.nodes(id);
        let told: Vec<_> =
            nodes.iter().map(|node| format!("{}:{}", node.name, node.status)).collect();
        told.join(" ")
    }

    /// Counts a flow anew from its nodes and its events, and compares that with what it says.
    #[track_caller]
    pub fn recount(&mut self, id: FlowId) -> FlowView {
        let view = self.flow(id);
        let nodes = self.nodes(id);
        let mut counted = FlowCounts { unsettled: view.counts.unsettled, ..FlowCounts::default() };
        counted.nodes = nodes.len() as u64;
        for node in &nodes {
            match node.status {
                Status::Completed => counted.completed += 1,
                Status::Failed => counted.failed += 1,
                Status::Cancelled => counted.cancelled += 1,
                Status::Expired => counted.expired += 1,
                Status::Skipped => counted.skipped += 1,
                _ => {}
            }
            let edges = node.join.iter().flat_map(|join| &join.edges);
            counted.edges += edges.filter(|edge| !edge.child).count() as u64;
        }
        counted.unhandled = match view.parent.is_some() || view.settling {
            true => view.counts.unhandled,
            false => self.unhandled(&nodes),
        };
        assert_eq!(view.counts, counted, "the counts of {id} are not those of its nodes");
        assert_eq!(view.revision, counted.nodes + counted.edges);
        assert_eq!(view.settling, counted.unsettled > 0);
        let members: u64 = view.members.iter().map(|one| one.count).sum();
        assert_eq!(members, counted.nodes);
        self.recount_ends(&view);
        view
    }

    fn unhandled(&mut self, nodes: &[NodeView]) -> u64 {
        let edges = nodes.iter().filter_map(|node| node.join.as_ref()).flat_map(|join| &join.edges);
        let handlers: Vec<_> = edges.filter(|edge| edge.when != When::Success).collect();
        let mut unhandled = 0;
        for node in nodes {
            let failed =
                matches!(node.status, Status::Failed | Status::Expired | Status::Cancelled);
            if failed && !handlers.iter().any(|edge| edge.execution == node.execution) {
                unhandled += u64::from(!self.end(node.execution).reason.is_by_flow());
            }
        }
        unhandled
    }

    /// Every run that is over has exactly one event that says so.
    fn recount_ends(&mut self, view: &FlowView) {
        let events = self.events(about_flow(view.id));
        let ends = events.iter().filter(|event| event.kind.ends_flow()).count() as u64;
        let over = view.status.is_terminal();
        assert_eq!(ends, u64::from(view.run) - u64::from(!over), "the ends of flow {}", view.id);
        if over {
            assert_eq!(view.counts.open(), 0);
            assert!(!view.settling);
        }
    }
}
