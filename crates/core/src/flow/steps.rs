//! Building a flow step by step, from executions that exist: create, add, stage, apply.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cascade::Cascade;
use super::create::{Earlier, NewFlow, expect_revision, submitted};
use super::graph::{check_need, default_rest};
use super::plan::expect_unstarted;
use super::plant::{Tie, tie_one};
use super::{flow_event, load, load_open};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::lease;
use crate::limit::{self, check_named};
use crate::model::{
    Check, Code, EdgeId, Error, Execution, ExecutionId, Flow, FlowId, Join, Limits, Member, Need,
    Otherwise, Rest, Result, RowId, Verdict, When, default_name,
};
use crate::namespace;
use crate::store::Tx;

/// Creates a flow without nodes. It is held, so that nothing runs before its graph is whole;
/// unhold it then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateFlow {
    /// Where it belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow; it has no nodes yet.
    #[serde(default)]
    pub flow: NewFlow,
}

/// A flow is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CreateFlowOutcome {
    /// It is there now.
    Created {
        /// Its id.
        id: FlowId,
    },
    /// The same was created before.
    Duplicate {
        /// The id of the first.
        id: FlowId,
    },
}

impl Command for CreateFlow {
    const NAME: &'static str = "create_flow";
    type Output = CreateFlowOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<CreateFlowOutcome> {
        let new = NewFlow { hold: true, ..self.flow.clone() };
        let mut check = new.check();
        check.name("namespace", &self.namespace);
        check.that(new.nodes.is_empty(), "nodes", || {
            "are added later; use `submit_flow` to submit them at once".into()
        });
        check.finish()?;
        let known = tx.namespace(&self.namespace)?;
        if let Some(Earlier { id, .. }) = new.earlier(tx, cx, known.as_deref())? {
            return Ok(CreateFlowOutcome::Duplicate { id });
        }
        check_named(tx, known.as_deref(), &new.policy, "policy.")?;
        let namespace = namespace::used(tx, &self.namespace)?;
        let id = new.id.unwrap_or_else(|| cx.flow_id());
        let flow = new.begin(tx, cx, &namespace, id, None)?;
        tx.add_event(&submitted(cx, &flow, 0, 0))?;
        Ok(CreateFlowOutcome::Created { id })
    }
}

/// Makes an execution that has not started a member of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddExecution {
    /// Where both belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow.
    pub flow: FlowId,
    /// The execution.
    pub execution: ExecutionId,
    /// Its name in the flow; its id when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The execution is in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AddExecutionOutcome {
    /// It is now.
    Added {
        /// Members the flow has.
        nodes: u64,
        /// Nodes and edges it has.
        revision: u64,
    },
    /// It was.
    AlreadyMember {
        /// Members the flow has.
        nodes: u64,
        /// Nodes and edges it has.
        revision: u64,
    },
}

impl Command for AddExecution {
    const NAME: &'static str = "add_execution";
    type Output = AddExecutionOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<AddExecutionOutcome> {
        let node = self.node.clone().unwrap_or_else(|| self.execution.to_string());
        let mut check = Check::default();
        check.name("node", &node);
        check.finish()?;
        let mut flow = load_open(tx, &self.namespace, self.flow)?;
        let mut execution = lease::load(tx, &self.namespace, self.execution)?;
        if let Some(member) = &execution.member {
            return match member.flow == flow.row {
                true => Ok(AddExecutionOutcome::AlreadyMember {
                    nodes: flow.counts.nodes,
                    revision: flow.revision(),
                }),
                false => Err(member_of_other(&execution, member.flow_id)),
            };
        }
        expect_unstarted(&execution)?;
        let mut check = Check::default();
        check.at_most("flow", flow.counts.nodes as usize + 1, Limits::FLOW_SIZE);
        check.finish()?;
        if tx.member(flow.row, &node)?.is_some() {
            return Err(Error::invalid(
                "node",
                format!("`{node}` is the name of a node that is in the flow"),
            ));
        }
        let namespace = tx.namespace_by_id(flow.namespace)?;
        check_named(tx, Some(&namespace), &flow.terms.policy, "flow.policy.")?;
        execution.member = Some(Arc::new(Member { flow: flow.row, flow_id: flow.id, node }));
        execution.gated = flow.held;
        tx.save_member(&execution)?;
        tx.save(&execution)?;
        limit::joined(tx, cx, &flow, execution.row)?;
        flow.counts.nodes += 1;
        tx.save_flow(&flow)?;
        let data = json!({ "nodes": 1, "execution": execution.id });
        tx.add_event(&flow_event(EventKind::FlowExtended, cx.now, &flow, Some(data)))?;
        Ok(AddExecutionOutcome::Added { nodes: flow.counts.nodes, revision: flow.revision() })
    }
}

fn member_of_other(execution: &Execution, flow: FlowId) -> Error {
    Error::new(
        Code::MemberOfOtherFlow,
        format!("execution {} is a member of flow {flow}, for life", execution.id),
    )
    .with_details(json!({ "flow": flow }))
}

/// A member of that flow.
fn load_member(
    tx: &mut dyn Tx,
    namespace: &str,
    flow: &Flow,
    id: ExecutionId,
) -> Result<Execution> {
    let execution = lease::load(tx, namespace, id)?;
    match &execution.member {
        Some(member) if member.flow == flow.row => Ok(execution),
        Some(member) => Err(member_of_other(&execution, member.flow_id)),
        None => Err(Error::new(
            Code::NotAMember,
            format!("execution {id} is not a member of flow {}; add it first", flow.id),
        )),
    }
}

/// Adds an edge between two members. The one below waits from then on, if it has not started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageEdge {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow.
    pub flow: FlowId,
    /// The edge's name, minted by the caller.
    pub edge: EdgeId,
    /// What is waited for.
    pub upstream: ExecutionId,
    /// What waits.
    pub downstream: ExecutionId,
    /// Nodes and edges the flow has; if it has others, nothing is added.
    pub expected_revision: u64,
    /// Which outcome counts.
    #[serde(default)]
    pub when: When,
    /// Under which name the result is handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
}

/// The edge is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeStaged {
    /// Nodes and edges the flow has.
    pub revision: u64,
}

impl Command for StageEdge {
    const NAME: &'static str = "stage_edge";
    type Output = EdgeStaged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<EdgeStaged> {
        if self.upstream == self.downstream {
            return Err(Error::new(
                Code::SelfEdge,
                format!("execution {} can not wait for itself", self.upstream),
            )
            .with_field("downstream"));
        }
        let mut check = Check::default();
        if let Some(bind) = &self.bind {
            check.name("bind", bind);
        }
        check.finish()?;
        let flow = load_open(tx, &self.namespace, self.flow)?;
        if let Some(edge) = tx.edge(flow.row, self.edge)? {
            return Err(self.exists(tx, &flow, edge.source, edge.target)?);
        }
        expect_revision(&flow, self.expected_revision)?;
        let source = load_member(tx, &self.namespace, &flow, self.upstream)?;
        let target = load_member(tx, &self.namespace, &flow, self.downstream)?;
        expect_unstarted(&target)?;
        if tx.reach(&[target.row])?.iter().any(|(_, reached)| *reached == source.row) {
            return Err(Error::new(
                Code::Cycle,
                format!(
                    "execution {} already waits for {}, directly or through others",
                    self.upstream, self.downstream
                ),
            ));
        }
        let mut cascade = Cascade::new(flow);
        let tie = Tie {
            source: source.row,
            target: target.row,
            when: self.when,
            bind: self.bind.clone(),
            id: Some(self.edge),
        };
        tie_one(tx, cx, &mut cascade, tie)?;
        let revision = cascade.flow.revision();
        let data = json!({ "edges": 1, "edge": self.edge });
        tx.add_event(&flow_event(EventKind::FlowExtended, cx.now, &cascade.flow, Some(data)))?;
        cascade.finish(tx, cx)?;
        Ok(EdgeStaged { revision })
    }
}

impl StageEdge {
    fn exists(&self, tx: &mut dyn Tx, flow: &Flow, source: RowId, target: RowId) -> Result<Error> {
        let id = |found: Option<Execution>| found.map(|execution| execution.id);
        let (upstream, downstream) = (id(tx.execution(source)?), id(tx.execution(target)?));
        Ok(Error::new(
            Code::EdgeExists,
            format!("flow {} has an edge {}; give each edge an id of its own", flow.id, self.edge),
        )
        .with_details(json!({ "upstream": upstream, "downstream": downstream })))
    }
}

/// Acknowledges a staged edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyEdge {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow.
    pub flow: FlowId,
    /// The edge.
    pub edge: EdgeId,
}

/// The edge is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ApplyEdgeOutcome {
    /// It is now.
    Applied {
        /// How many acknowledged edges into the same execution are not decided yet.
        open: u64,
    },
    /// It was.
    AlreadyApplied,
}

impl Command for ApplyEdge {
    const NAME: &'static str = "apply_edge";
    type Output = ApplyEdgeOutcome;

    fn apply(&self, tx: &mut dyn Tx, _: &Context) -> Result<ApplyEdgeOutcome> {
        let flow = load(tx, &self.namespace, self.flow)?;
        let Some(mut edge) = tx.edge(flow.row, self.edge)? else {
            return Err(Error::not_found("edge", format!("{} in flow {}", self.edge, flow.id)));
        };
        if edge.applied {
            return Ok(ApplyEdgeOutcome::AlreadyApplied);
        }
        if flow.status().is_terminal() {
            return Err(super::already_terminal(&flow));
        }
        let mut open = 0;
        for other in tx.edges_into(edge.target, false)? {
            let counts = other.applied || other.id == edge.id;
            let source = tx.execution(other.source)?;
            let over = source.is_some_and(|source| source.status().is_terminal());
            open += u64::from(counts && !over);
        }
        edge.applied = true;
        tx.save_edge(&edge)?;
        Ok(ApplyEdgeOutcome::Applied { open })
    }
}

/// Says how many of its sources a member needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetJoin {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The flow.
    pub flow: FlowId,
    /// The member that waits.
    pub execution: ExecutionId,
    /// How many sources it needs. A count may exceed those it has by now; more may come.
    pub need: Need,
    /// What happens to sources it no longer needs; as for `submit_flow` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

/// The join is as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SetJoinOutcome {
    /// It is now.
    Set,
    /// It was.
    AlreadySet,
}

impl Command for SetJoin {
    const NAME: &'static str = "set_join";
    type Output = SetJoinOutcome;

    fn apply(&self, tx: &mut dyn Tx, _: &Context) -> Result<SetJoinOutcome> {
        let mut check = Check::default();
        check_need(&mut check, "need", self.need, Limits::FAN_IN);
        check.finish()?;
        let flow = load_open(tx, &self.namespace, self.flow)?;
        let target = load_member(tx, &self.namespace, &flow, self.execution)?;
        let rest = self.rest.unwrap_or_else(|| default_rest(self.need));
        let join = tx.join(target.row)?;
        let set = join.as_ref().is_some_and(|join| (join.need, join.rest) == (self.need, rest));
        if set {
            return Ok(SetJoinOutcome::AlreadySet);
        }
        let decided = |join: &Join| join.met + join.unmet > 0 || join.verdict.is_some();
        if join.as_ref().is_some_and(|join| join.otherwise != Otherwise::Skip || decided(join)) {
            return Err(Error::new(
                Code::WrongState,
                format!("a source of {} is over; its join can not be changed", self.execution),
            ));
        }
        expect_unstarted(&target)?;
        let join = Join {
            target: target.row,
            need: self.need,
            rest,
            otherwise: Otherwise::Skip,
            sources: join.map_or(0, |join| join.sources),
            met: 0,
            unmet: 0,
            verdict: None::<Verdict>,
        };
        tx.put_join(&join)?;
        Ok(SetJoinOutcome::Set)
    }
}
