//! What people and systems outside are asked for, over all executions of a namespace.

use serde::{Deserialize, Serialize};

use super::waitpoints::{ApprovalAsked, Viewer, WaitpointView};
use crate::command::{Context, Query};
use crate::event::default_page;
use crate::model::{Limits, Result, WaitpointId, default_name};
use crate::page::check_page;
use crate::store::Read;

/// Lists the open waitpoints of a namespace, the oldest first: what people and systems outside are
/// asked for. What is left out does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListInbox {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// With this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only where approval is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approvals: bool,
    /// Where someone of this role may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Read on after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<WaitpointId>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl Default for ListInbox {
    fn default() -> Self {
        Self {
            namespace: default_name(),
            key: None,
            approvals: false,
            role: None,
            after: None,
            limit: default_page(),
        }
    }
}

/// A page of the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InboxPage {
    /// What matched. May be fewer than asked for although there is more: a page looks at a bounded
    /// number of waitpoints.
    pub waitpoints: Vec<WaitpointView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<WaitpointId>,
}

impl Query for ListInbox {
    const NAME: &'static str = "list_inbox";
    type Output = InboxPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<InboxPage> {
        check_page(self.limit)?;
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(InboxPage::default());
        };
        // Filters by role look at more than they show.
        let looks = if self.approvals || self.role.is_some() { Limits::PAGE } else { self.limit };
        let found = read.inbox(namespace.id, self.key.as_deref(), self.after, looks + 1)?;
        let more = found.len() > looks;
        let mut page = InboxPage::default();
        let mut viewer = Viewer::default();
        for waitpoint in found.into_iter().take(looks) {
            if page.waitpoints.len() == self.limit {
                return Ok(page);
            }
            page.next = Some(waitpoint.id);
            page.waitpoints.extend(viewer.view(read, waitpoint)?.filter(|one| self.wants(one)));
        }
        page.next = page.next.filter(|_| more);
        Ok(page)
    }
}

impl ListInbox {
    fn wants(&self, waitpoint: &WaitpointView) -> bool {
        let may = |asked: &ApprovalAsked| match (&self.role, &asked.role) {
            (Some(has), Some(needs)) => has == needs,
            _ => true,
        };
        let filters = self.approvals || self.role.is_some();
        !filters || waitpoint.approvals.iter().any(may)
    }
}
