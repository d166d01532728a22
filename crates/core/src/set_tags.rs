//! Labelling an execution.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::limit::retagged;
use crate::model::{Check, ExecutionId, Limits, Result, TagChanges, Tags, default_name};
use crate::store::Tx;

/// Merges into an execution's tags, also of an ended one: a text sets, null removes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetTags {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// What changes.
    pub tags: TagChanges,
}

/// The tags are as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tagged {
    /// All of them.
    pub tags: Tags,
}

impl Command for SetTags {
    const NAME: &'static str = "set_tags";
    type Output = Tagged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Tagged> {
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let tags = merged(&execution.tags, &self.tags)?;
        if tags != *execution.tags {
            execution.tags = Arc::new(tags.clone());
            tx.save_tags(&execution)?;
            let data = json!({ "changes": self.tags });
            log(tx, cx, &execution, EventKind::Tagged, None, Some(data))?;
            retagged(tx, cx, &mut execution, &self.tags)?;
        }
        Ok(Tagged { tags })
    }
}

/// Tags after a change, unless that is refused.
pub(crate) fn merged(tags: &Tags, changes: &TagChanges) -> Result<Tags> {
    let mut check = Check::default();
    check.at_most("tags", changes.len(), 2 * Limits::TAGS);
    for (key, value) in changes.iter().take(2 * Limits::TAGS) {
        check.tag("tags", key, value.as_deref());
    }
    check.finish()?;
    let mut tags = tags.clone();
    for (key, value) in changes {
        match value {
            Some(value) => tags.insert(key.clone(), value.clone()),
            None => tags.remove(key),
        };
    }
    let mut check = Check::default();
    check.at_most("tags", tags.len(), Limits::TAGS);
    check.finish()?;
    Ok(tags)
}
