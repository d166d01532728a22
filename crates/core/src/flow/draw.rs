//! A flow as a picture: levels for drawing, and text for Mermaid and Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::load;
use super::read::{NodeView, node_view};
use crate::command::{Context, Query};
use crate::model::{Code, Error, FlowId, FlowStatus, Limits, Result, Status, When, default_name};
use crate::store::Read;

/// Draws a flow of up to 10 000 nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// As what.
    #[serde(default)]
    pub drawing: Drawing,
}

/// What a drawing is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawing {
    /// Nodes with their levels, as data only.
    #[default]
    Data,
    /// Also as the text of a Mermaid diagram.
    Mermaid,
    /// Also as the text of a Graphviz graph.
    Dot,
}

/// A flow, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnFlow {
    /// The flow.
    pub id: FlowId,
    /// What it is doing.
    pub status: FlowStatus,
    /// Nodes and edges.
    pub revision: u64,
    /// Its nodes, by level and name.
    pub nodes: Vec<DrawnNode>,
    /// The diagram's text, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A node, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnNode {
    /// 0 for one that waits for nothing, else one more than the highest of those it waits for.
    pub level: u32,
    /// The node.
    #[serde(flatten)]
    pub node: NodeView,
}

impl Query for DrawFlow {
    const NAME: &'static str = "draw_flow";
    type Output = DrawnFlow;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<DrawnFlow> {
        let flow = load(read, &self.namespace, self.flow)?;
        if flow.counts.nodes > Limits::FLOW_NODES as u64 {
            return Err(Error::new(
                Code::TooLarge,
                format!(
                    "flow {} has {} nodes, more than the {} that can be drawn; list them instead",
                    flow.id,
                    flow.counts.nodes,
                    Limits::FLOW_NODES
                ),
            ));
        }
        let mut views = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = read.members(flow.row, after.as_deref(), Limits::PAGE)?;
            for member in &page {
                views.push(node_view(read, member)?);
            }
            if page.len() < Limits::PAGE {
                break;
            }
            after = views.last().map(|last| last.name.clone());
        }
        let levels = levels(&views);
        let mut nodes: Vec<DrawnNode> = (views.into_iter().zip(levels))
            .map(|(node, level)| DrawnNode { level, node })
            .collect();
        nodes.sort_by(|one, other| {
            (one.level, &one.node.name).cmp(&(other.level, &other.node.name))
        });
        let text = match self.drawing {
            Drawing::Data => None,
            Drawing::Mermaid => Some(mermaid(&nodes)),
            Drawing::Dot => Some(dot(&nodes)),
        };
        let (status, revision) = (flow.status(), flow.revision());
        Ok(DrawnFlow { id: flow.id, status, revision, nodes, text })
    }
}

/// The level of each node. Edges of children to the one that made them do not count.
fn levels(nodes: &[NodeView]) -> Vec<u32> {
    let places: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let mut out = vec![Vec::new(); nodes.len()];
    let mut waits_for = vec![0_usize; nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        let edges = node.join.iter().flat_map(|join| &join.edges);
        for edge in edges.filter(|edge| !edge.child) {
            if let Some(from) = places.get(edge.from.as_str()) {
                out[*from].push(place);
                waits_for[place] += 1;
            }
        }
    }
    let mut levels = vec![0; nodes.len()];
    let mut free: Vec<usize> = (0..nodes.len()).filter(|place| waits_for[*place] == 0).collect();
    while let Some(place) = free.pop() {
        for next in &out[place] {
            levels[*next] = levels[*next].max(levels[place] + 1);
            waits_for[*next] -= 1;
            if waits_for[*next] == 0 {
                free.push(*next);
            }
        }
    }
    levels
}

fn label(when: When, bind: Option<&str>) -> Option<String> {
    match (when, bind) {
        (When::Success, None) => None,
        (When::Success, Some(bind)) => Some(bind.to_owned()),
        (when, None) => Some(when.as_str().to_owned()),
        (when, Some(bind)) => Some(format!("{} {bind}", when.as_str())),
    }
}

fn colour(status: Status) -> &'static str {
    match status {
        Status::Completed => "#d3f2d8",
        Status::Failed | Status::Expired => "#f8d3d3",
        Status::Cancelled | Status::Skipped => "#e4e4e4",
        Status::Active | Status::Granted => "#d3e4f8",
        Status::Waiting | Status::Resumable | Status::Delayed | Status::RateLimited => "#fdf3cf",
        Status::WaitingChildren | Status::Suspended => "#ffffff",
    }
}

// Names have no character that needs escaping in either language.
fn mermaid(nodes: &[DrawnNode]) -> String {
    let ids: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(id, drawn)| (drawn.node.name.as_str(), id)).collect();
    let mut text = String::from("flowchart TD\n");
    for (id, DrawnNode { node, .. }) in nodes.iter().enumerate() {
        let _ = writeln!(text, "  n{id}[\"{}<br/>{}\"]", node.name, node.status);
    }
    for DrawnNode { node, .. } in nodes {
        for edge in node.join.iter().flat_map(|join| &join.edges) {
            let Some(from) = ids.get(edge.from.as_str()) else { continue };
            let label = label(edge.when, edge.bind.as_deref());
            let label = label.map(|label| format!("|{label}|")).unwrap_or_default();
            let _ = writeln!(text, "  n{from} -->{label} n{}", ids[node.name.as_str()]);
        }
    }
    for (id, DrawnNode { node, .. }) in nodes.iter().enumerate() {
        let _ = writeln!(text, "  style n{id} fill:{}", colour(node.status));
    }
    text
}

fn dot(nodes: &[DrawnNode]) -> String {
    let mut text = String::from("digraph flow {\n  node [shape=box, style=\"rounded,filled\"];\n");
    for DrawnNode { node, .. } in nodes {
        let _ = writeln!(
            text,
            "  \"{}\" [label=\"{}\\n{}\", fillcolor=\"{}\"];",
            node.name,
            node.name,
            node.status,
            colour(node.status)
        );
    }
    for DrawnNode { node, .. } in nodes {
        for edge in node.join.iter().flat_map(|join| &join.edges) {
            let label = label(edge.when, edge.bind.as_deref());
            let label = label.map(|label| format!(" [label=\"{label}\"]")).unwrap_or_default();
            let _ = writeln!(text, "  \"{}\" -> \"{}\"{label};", edge.from, node.name);
        }
    }
    text.push_str("}\n");
    text
}
