//! The suspensions of an execution.

use serde::{Deserialize, Serialize};

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    ExecutionId, Result, Suspension, SuspensionEnd, SuspensionTerms, Timestamp, default_name,
};
use crate::page::{check_page, cut};
use crate::store::Read;

/// Lists an execution's suspensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSuspensions {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListSuspensions {
    /// The first page.
    pub fn new(execution: ExecutionId) -> Self {
        Self { namespace: default_name(), execution, after: 0, limit: default_page() }
    }
}

/// A suspension as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspensionView {
    /// 1, 2, 3 … over all runs.
    pub number: u32,
    /// The run it belongs to.
    pub run: u32,
    /// Names it among those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was asked for.
    #[serde(flatten)]
    pub terms: SuspensionTerms,
    /// What is still waited for, in words; absent when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When it was passed on to an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SuspensionEnd>,
}

/// A page of suspensions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuspensionPage {
    /// The suspensions, the first one first.
    pub suspensions: Vec<SuspensionView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Query for ListSuspensions {
    const NAME: &'static str = "list_suspensions";
    type Output = SuspensionPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<SuspensionPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let mut found = read.suspensions(execution.row, self.after, self.limit + 1)?;
        let next = cut(&mut found, self.limit, |last| last.number);
        let view = |Suspension { number, run, key, terms, course, .. }| {
            let waits = course.end.is_none().then(|| course.tally.tell(&terms.condition));
            let (escalated_at, end) = (course.escalated_at, course.end);
            SuspensionView { number, run, key, terms, waits_for: waits, escalated_at, end }
        };
        Ok(SuspensionPage { suspensions: found.into_iter().map(view).collect(), next })
    }
}
