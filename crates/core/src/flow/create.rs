//! Submitting a whole flow in one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::cascade::Cascade;
use super::flow_event;
use super::graph::NewNode;
use super::plan::Plan;
use crate::chore::ChoreKind;
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::limit::check_named;
use crate::model::{
    Check, Error, ExecutionId, Flow, FlowCounts, FlowId, FlowState, FlowStatus, FlowTerms, Key,
    KeyOf, Limits, Namespace, OnMemberFailure, Policy, Result, RowId, Tags, Timestamp,
    default_name, member_id, option_duration_ms,
};
use crate::namespace;
use crate::store::{Read, Tx};
use crate::submit::{held_by, used_otherwise};

/// Submits a flow with all its nodes and edges, or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitFlow {
    /// Where it belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow.
    pub flow: NewFlow,
}

/// A flow to submit.
///
/// ```
/// # use everloom_core::{After, NewExecution, NewFlow, NewNode};
/// let flow = NewFlow::new()
///     .node(NewNode::new("fetch", NewExecution::new("http_get")))
///     .node(
///         NewNode::new("parse", NewExecution::new("parse"))
///             .after(After::all(["fetch"]).bind("fetch", "page")),
///     )
///     .key("order-17");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFlow {
    /// Its id, unique in the namespace; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<FlowId>,
    /// Submitting again under the same key gives the first flow instead of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What sort of flow it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The nodes, 1 to 10 000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NewNode>,
    /// Whether to keep all of it from workers until it is unheld.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// What a member's failure does to the others.
    #[serde(default)]
    pub on_member_failure: OnMemberFailure,
    /// When it expires if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// How long from now it expires; instead of `deadline_at`.
    #[serde(rename = "deadline_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What nodes inherit that name no priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Fills what a node's own policy leaves open. Its retention and key window are the flow's.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// Who submits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl NewFlow {
    /// A flow without nodes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, node: NewNode) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = NewNode>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: FlowId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says what sort of flow it is.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Keeps it from workers until it is unheld.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.hold = true;
        self
    }

    /// Cancels everything else when a member fails and nothing handles it.
    #[must_use]
    pub fn cancel_rest_on_failure(mut self) -> Self {
        self.on_member_failure = OnMemberFailure::CancelRest;
        self
    }

    /// Expires it this long from now.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Sets what nodes inherit that name no priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets what nodes inherit.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Everything that is wrong with it but for its nodes.
    pub(super) fn check(&self) -> Check {
        let mut check = Check::default();
        if let Some(key) = &self.key {
            check.key("key", key);
        }
        if let Some(kind) = &self.kind {
            check.name("kind", kind);
        }
        check.that(self.deadline_at.is_none() || self.deadline.is_none(), "deadline_ms", || {
            "give either `deadline_at` or `deadline_ms`, not both".into()
        });
        if let Some(deadline) = self.deadline {
            check.duration("deadline_ms", deadline, Duration::from_millis(1), Limits::DURATION_MAX);
        }
        check.at_most("tags", self.tags.len(), Limits::TAGS);
        for (key, value) in self.tags.iter().take(Limits::TAGS) {
            check.tag("tags", key, Some(value));
        }
        if let Some(priority) = self.priority {
            check.priority("priority", priority);
        }
        self.policy.check(&mut check, "policy");
        if let Some(creator) = &self.created_by {
            check.name("created_by", creator);
        }
        check
    }

    /// What was asked for, without the key it was asked under.
    pub(super) fn fingerprint(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(b"flow\0");
        let request = Self { key: None, nodes: vec![], ..self.clone() };
        hash.update(serde_json::to_vec(&request).expect("plain data has a JSON form"));
        for node in &self.nodes {
            hash.update(serde_json::to_vec(node).expect("plain data has a JSON form"));
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        short
    }

    /// The flow's row as it begins, before its nodes are planted.
    pub(super) fn begin(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        namespace: &Namespace,
        id: FlowId,
        parent: Option<RowId>,
    ) -> Result<Flow> {
        let mut policy = self.policy.clone();
        // Only what is the flow's own: for the rest, a member's lane goes before its namespace.
        policy.retention = policy.retention.or(namespace.defaults.policy.retention);
        policy.key_window = policy.key_window.or(namespace.defaults.policy.key_window);
        // What the flow is given is the flow's; a member's deadline is its own.
        let deadline =
            self.deadline.or_else(|| self.deadline_at.map(|deadline| deadline.since(cx.now)));
        let flow = Flow {
            row: tx.new_flow_row()?,
            id,
            namespace: namespace.id,
            kind: self.kind.clone(),
            state: FlowState::Open,
            since: cx.now,
            held: self.hold,
            run: 1,
            counts: FlowCounts::default(),
            terms: Arc::new(FlowTerms {
                on_member_failure: self.on_member_failure,
                priority: self.priority,
                policy,
                deadline,
                created_by: self.created_by.clone(),
                key: self.key.clone(),
            }),
            deadline_at: deadline.map(|allowed| cx.now + allowed),
            created_at: cx.now,
            tags: Arc::new(self.tags.clone()),
            parent,
            fingerprint: self.fingerprint(),
        };
        if let Some(key) = &self.key {
            tx.put_key(&Key {
                namespace: namespace.id,
                key: key.clone(),
                of: KeyOf::Flow(id),
                fingerprint: flow.fingerprint,
                expires_at: None,
            })?;
        }
        tx.insert_flow(&flow)?;
        if let Some(at) = flow.deadline_at {
            tx.add_chore(&ChoreKind::FlowDeadline { flow: flow.row }, at)?;
        }
        Ok(flow)
    }

    /// The flow that was submitted before under the same key or id.
    pub(super) fn earlier(
        &self,
        read: &mut dyn Read,
        cx: &Context,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Earlier>> {
        let Some(namespace) = namespace else { return Ok(None) };
        if let Some(name) = &self.key {
            let key = read.keys(namespace.id, &[name])?.pop().flatten();
            if let Some(held) = held_by(read, cx, namespace.id, key.as_ref())? {
                return match (held.of, held.fingerprint == self.fingerprint()) {
                    (KeyOf::Flow(id), true) => {
                        Ok(Some(Earlier { id, flow: read.flow(namespace.id, id)? }))
                    }
                    _ => Err(used_otherwise("key", name)),
                };
            }
        }
        if let Some(id) = self.id
            && let Some(flow) = read.flow(namespace.id, id)?
        {
            return match flow.fingerprint == self.fingerprint() {
                true => Ok(Some(Earlier { id, flow: Some(flow) })),
                false => Err(used_otherwise("id", &id.to_string())),
            };
        }
        Ok(None)
    }
}

/// A flow that was submitted before; without a row when it was removed already.
pub(super) struct Earlier {
    pub(super) id: FlowId,
    pub(super) flow: Option<Flow>,
}

/// What became of a flow that was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSubmitted {
    /// Its id.
    pub id: FlowId,
    /// Whether the same was submitted before.
    pub duplicate: bool,
    /// What it is doing; absent when it was removed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FlowStatus>,
    /// Nodes and edges it has; for a duplicate, by now.
    pub revision: u64,
    /// The executions of the nodes submitted, by name.
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl Command for SubmitFlow {
    const NAME: &'static str = "submit_flow";
    type Output = FlowSubmitted;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowSubmitted> {
        let new = &self.flow;
        let mut check = new.check();
        check.name("namespace", &self.namespace);
        check.that(!new.nodes.is_empty(), "nodes", || {
            "a flow has at least one node; use `create_flow` to add nodes later".into()
        });
        let known = tx.namespace(&self.namespace)?;
        if let Some(earlier) = new.earlier(tx, cx, known.as_deref())? {
            return Ok(self.repeat(&earlier));
        }
        check_named(tx, known.as_deref(), &new.policy, "policy.")?;
        check.that(new.deadline_at.is_none_or(|at| at > cx.now), "deadline_at", || {
            "is in the past; leave it out or set a later one".into()
        });
        let plan = Plan::check(tx, cx, known.as_deref(), None, &new.nodes, &[], check)?;
        let namespace = namespace::used(tx, &self.namespace)?;
        let id = new.id.unwrap_or_else(|| cx.flow_id());
        let flow = new.begin(tx, cx, &namespace, id, None)?;
        tx.add_event(&submitted(cx, &flow, new.nodes.len() as u64, plan.edge_count()))?;
        let mut cascade = Cascade::new(flow);
        let id_of = |node: &NewNode| node_id(id, node);
        let planted = plan.plant(tx, cx, &namespace, &mut cascade, None, &id_of)?;
        let revision = cascade.flow.revision();
        let status = Some(cascade.finish(tx, cx)?);
        Ok(FlowSubmitted { id, duplicate: false, status, revision, nodes: planted.ids })
    }
}

impl SubmitFlow {
    fn repeat(&self, earlier: &Earlier) -> FlowSubmitted {
        let nodes = self.flow.nodes.iter();
        FlowSubmitted {
            id: earlier.id,
            duplicate: true,
            status: earlier.flow.as_ref().map(Flow::status),
            revision: earlier.flow.as_ref().map_or(0, Flow::revision),
            nodes: nodes.map(|node| (node.name.clone(), node_id(earlier.id, node))).collect(),
        }
    }
}

/// A node's own id, or the one that follows from the flow and its name.
pub(super) fn node_id(flow: FlowId, node: &NewNode) -> ExecutionId {
    node.execution.id.unwrap_or_else(|| member_id(flow, &node.name))
}

pub(super) fn submitted(
    cx: &Context,
    flow: &Flow,
    nodes: u64,
    edges: u64,
) -> crate::event::NewEvent {
    let data = json!({ "nodes": nodes, "edges": edges, "kind": flow.kind });
    flow_event(EventKind::FlowSubmitted, cx.now, flow, Some(data))
}

/// Refuses an expectation of the graph that is not true any more.
pub(super) fn expect_revision(flow: &Flow, expected: u64) -> Result<()> {
    match flow.revision() {
        revision if revision == expected => Ok(()),
        revision => Err(Error::new(
            crate::Code::StaleRevision,
            format!(
                "flow {} is at revision {revision}, not {expected}; look at it again and retry",
                flow.id
            ),
        )
        .with_details(json!({ "revision": revision, "expected": expected }))),
    }
}
