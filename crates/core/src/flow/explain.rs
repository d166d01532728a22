//! What a node waits for, in words.

use serde::{Deserialize, Serialize};

use super::load;
use super::read::{JoinView, join_view};
use crate::command::{Context, Query};
use crate::explain::{Explanation, explain};
use crate::model::{Error, Execution, FlowId, Need, Result, When, default_name};
use crate::store::Read;

/// Asks what a node of a flow waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainNode {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// Which node, by name.
    pub node: String,
}

impl Query for ExplainNode {
    const NAME: &'static str = "explain_node";
    type Output = Explanation;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<Explanation> {
        let flow = load(read, &self.namespace, self.flow)?;
        match read.member(flow.row, &self.node)? {
            Some(member) => explain(read, cx, &member),
            None => Err(Error::not_found("node", format!("`{}` in flow {}", self.node, flow.id))),
        }
    }
}

/// How many names are told.
const SHOWN: usize = 5;

/// What keeps an execution whose join is open.
pub(crate) fn what_for(read: &mut dyn Read, execution: &Execution) -> Result<Vec<String>> {
    let Some(mut join) = join_view(read, execution)? else {
        return Ok(vec!["It waits for something that was never said.".to_owned()]);
    };
    let for_children = execution.started_at.is_some() && join.edges.iter().any(|edge| edge.child);
    join.edges.retain(|edge| edge.child == for_children && (edge.applied || !edge.child));
    let mut reasons = vec![sentence(&join)];
    if let Some(member) = &execution.member
        && read.is_gated(member.flow)?
    {
        reasons.push(format!("Its flow {} is held or being cancelled.", member.flow_id));
    }
    Ok(reasons)
}

fn sentence(join: &JoinView) -> String {
    let needed = match join.need {
        Need::All => format!("all {}", join.sources),
        Need::Any => format!("any of {}", join.sources),
        Need::Count(count) => format!("{count} of {}", join.sources),
    };
    let open = join.edges.iter().filter(|edge| edge.satisfied.is_none());
    let names: Vec<String> = open
        .map(|edge| match edge.when {
            When::Success => format!("`{}`", edge.from),
            When::Failure => format!("`{}` to fail", edge.from),
            When::Done => format!("`{}` to be over", edge.from),
        })
        .collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = names[..names.len().min(SHOWN)].join(", ");
    format!("It needs {needed}, has {}: waiting for {shown}{more}.", join.met)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::EdgeView;
    use crate::model::{ExecutionId, Rest};

    #[test]
    fn a_join_is_told_with_the_names_it_waits_for() {
        let edge = |from: &str, when, satisfied| EdgeView {
            from: from.into(),
            execution: ExecutionId(uuid::Uuid::nil()),
            when,
            bind: None,
            id: None,
            applied: true,
            satisfied,
            child: false,
        };
        let join = JoinView {
            need: Need::Count(2),
            rest: Rest::Run,
            sources: 3,
            met: 1,
            unmet: 0,
            verdict: None,
            edges: vec![
                edge("ops", When::Success, Some(true)),
                edge("finance", When::Success, None),
                edge("legal", When::Done, None),
            ],
        };
        assert_eq!(
            sentence(&join),
            "It needs 2 of 3, has 1: waiting for `finance`, `legal` to be over."
        );
    }
}
