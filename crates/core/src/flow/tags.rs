//! Changing a flow's labels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{flow_event, load};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::model::{FlowId, Result, TagChanges, Tags, default_name};
use crate::set_tags::merged;
use crate::store::Tx;

/// Merges labels into those of a flow; null removes one. Its members keep theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetFlowTags {
    /// Where the flow belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which flow.
    pub flow: FlowId,
    /// What changes.
    pub tags: TagChanges,
}

/// The flow's labels as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTagged {
    /// All of them.
    pub tags: Tags,
}

impl Command for SetFlowTags {
    const NAME: &'static str = "set_flow_tags";
    type Output = FlowTagged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<FlowTagged> {
        let mut flow = load(tx, &self.namespace, self.flow)?;
        let tags = merged(&flow.tags, &self.tags)?;
        if tags != *flow.tags {
            flow.tags = Arc::new(tags.clone());
            tx.save_flow(&flow)?;
            tx.add_event(&flow_event(EventKind::FlowTagged, cx.now, &flow, None))?;
        }
        Ok(FlowTagged { tags })
    }
}
