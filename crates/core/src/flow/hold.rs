//! Keeping all of a flow from workers.

use serde::{Deserialize, Serialize};

use super::cascade::Cascade;
use super::chores::FlowWork;
use super::{already_terminal, flow_event, load};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::hold::HoldOutcome;
use crate::model::{Code, Error, FlowId, FlowState, Result, default_name};
use crate::store::Tx;

/// Keeps a flow's members from workers until it is unheld. What runs may finish; time goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
}

/// Lets a held flow go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnholdFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
}

impl Command for HoldFlow {
    const NAME: &'static str = "hold_flow";
    type Output = HoldOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<HoldOutcome> {
        set(tx, cx, &self.namespace, self.flow, true)
    }
}

impl Command for UnholdFlow {
    const NAME: &'static str = "unhold_flow";
    type Output = HoldOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<HoldOutcome> {
        set(tx, cx, &self.namespace, self.flow, false)
    }
}

fn set(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &str,
    id: FlowId,
    held: bool,
) -> Result<HoldOutcome> {
    let mut flow = load(tx, namespace, id)?;
    match &flow.state {
        FlowState::Open if flow.held == held => return Ok(HoldOutcome::Already),
        FlowState::Open => {}
        FlowState::Closing(_) => {
            return Err(Error::new(
                Code::WrongState,
                format!("flow {id} is being cancelled and can not be held"),
            ));
        }
        FlowState::Ended(_) => return Err(already_terminal(&flow)),
    }
    flow.held = held;
    let kind = if held { EventKind::FlowHeld } else { EventKind::FlowUnheld };
    tx.add_event(&flow_event(kind, cx.now, &flow, None))?;
    let mut cascade = Cascade::new(flow);
    cascade.push(FlowWork::Gate { after: None });
    cascade.finish(tx, cx)?;
    Ok(HoldOutcome::Done)
}
