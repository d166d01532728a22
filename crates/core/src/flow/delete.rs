//! Removing an ended flow by hand.

use serde::{Deserialize, Serialize};

use super::cascade::drop_chore;
use super::{chores, load};
use crate::chore::{ChoreKind, Slice};
use crate::command::{Command, Context};
use crate::model::{Code, Error, FlowId, KeyOf, Limits, Result, default_name};
use crate::store::Tx;

/// Removes an ended flow with all its members. A large one is removed bit by bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteFlow {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
}

impl Command for DeleteFlow {
    const NAME: &'static str = "delete_flow";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let flow = load(tx, &self.namespace, self.flow)?;
        if !flow.status().is_terminal() {
            return Err(Error::new(
                Code::WrongState,
                format!("flow {} is {}; cancel it first", flow.id, flow.status()),
            ));
        }
        if let Some(parent) = flow.parent
            && tx.execution(parent)?.is_some_and(|parent| !parent.status().is_terminal())
        {
            return Err(Error::new(
                Code::InUse,
                format!("the execution that made flow {} may still ask for it", flow.id),
            ));
        }
        if let Some(name) = &flow.terms.key {
            let key = tx.keys(flow.namespace, &[name])?.pop().flatten();
            if key.is_some_and(|key| key.of == KeyOf::Flow(flow.id)) {
                tx.drop_key(flow.namespace, name)?;
            }
        }
        let chore = ChoreKind::RemoveFlow { flow: flow.row };
        drop_chore(tx, &chore)?;
        match chores::remove(tx, cx, flow.row, Limits::BATCH, "operator")? {
            Slice::Done => Ok(()),
            Slice::More { due_at } => tx.add_chore(&chore, due_at).map(drop),
        }
    }
}
