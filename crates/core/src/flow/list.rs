//! Finding flows.

use serde::{Deserialize, Serialize};

use super::read::{FlowView, view};
use crate::command::{Context, Query};
use crate::event::default_page;
use crate::model::{Check, FlowRow, FlowStatus, Limits, Result, Tags, Timestamp, default_name};
use crate::store::{FlowScan, Read};

/// Lists flows, newest first. What is left out does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFlows {
    /// Of which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// In one of these states; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<FlowStatus>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// With all these tags.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Submitted then or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Timestamp>,
    /// Submitted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FlowCursor>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl Default for ListFlows {
    fn default() -> Self {
        Self {
            namespace: default_name(),
            statuses: vec![],
            kind: None,
            tags: Tags::new(),
            created_from: None,
            created_before: None,
            after: None,
            limit: default_page(),
        }
    }
}

/// Where a page of flows ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowCursor(pub FlowRow);

/// A page of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPage {
    /// The flows, newest first.
    pub flows: Vec<FlowView>,
    /// Read on from here; absent at the end. A page may be short and have more behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<FlowCursor>,
}

/// How many flows one page looks at when hardly any match.
const SCAN: usize = 10_000;

impl Query for ListFlows {
    const NAME: &'static str = "list_flows";
    type Output = FlowPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<FlowPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.at_most("tags", self.tags.len(), Limits::TAGS);
        check.finish()?;
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(FlowPage { flows: vec![], next: None });
        };
        let scan = FlowScan {
            namespace: namespace.id,
            statuses: self.statuses.clone(),
            kind: self.kind.clone(),
            tags: self.tags.clone(),
            created_from: self.created_from,
            created_before: self.created_before,
        };
        let below = self.after.map(|cursor| cursor.0);
        let slice = read.list_flows(&scan, below, self.limit, SCAN)?;
        let mut flows = Vec::with_capacity(slice.flows.len());
        for flow in &slice.flows {
            flows.push(view(read, flow)?);
        }
        Ok(FlowPage { flows, next: slice.next.map(FlowCursor) })
    }
}
