//! Making, changing and removing quotas.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::budget::{LimitCreated, create, expect_unused};
use super::find;
use crate::chore::ChoreKind;
use crate::command::{Command, Context};
use crate::event::{EventKind, NewEvent};
use crate::model::{Check, Limit, LimitSort, LimitTerms, QuotaTerms, Result, default_name};
use crate::namespace::namespace_of;
use crate::store::Tx;

/// Makes a quota. Making the same one again changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateQuota {
    /// Where it belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Its name.
    pub quota: String,
    /// What it allows.
    pub terms: QuotaTerms,
}

impl CreateQuota {
    /// A quota of the default namespace.
    pub fn new(quota: impl Into<String>, terms: QuotaTerms) -> Self {
        Self { namespace: default_name(), quota: quota.into(), terms }
    }
}

impl Command for CreateQuota {
    const NAME: &'static str = "create_quota";
    type Output = LimitCreated;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<LimitCreated> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.name("quota", &self.quota);
        self.terms.check(&mut check);
        check.finish()?;
        create(tx, cx, &self.namespace, &self.quota, LimitTerms::Quota(self.terms.clone()))
    }
}

/// Changes what a quota allows. What waits for it is looked at anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateQuota {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub quota: String,
    /// What it allows from now on.
    pub terms: QuotaTerms,
}

impl Command for UpdateQuota {
    const NAME: &'static str = "update_quota";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        self.terms.check(&mut check);
        check.finish()?;
        let namespace = namespace_of(tx, &self.namespace, "quota", &self.quota)?;
        let limit = find(tx, namespace.id, LimitSort::Quota, &self.quota)?;
        if limit.quota() == Some(&self.terms) {
            return Ok(());
        }
        let terms = LimitTerms::Quota(self.terms.clone());
        tx.put_limit(&Limit { terms, ..Limit::clone(&limit) })?;
        tx.add_chore(&ChoreKind::Reconsider { limit: limit.row, after: None }, cx.now)?;
        let data = json!({ "quota": self.quota, "terms": self.terms });
        let event = NewEvent::new(EventKind::QuotaUpdated, cx.now, namespace.id);
        tx.add_event(&NewEvent { data: Some(data), ..event })
    }
}

/// Removes a quota that nothing is under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteQuota {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub quota: String,
}

impl Command for DeleteQuota {
    const NAME: &'static str = "delete_quota";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let namespace = namespace_of(tx, &self.namespace, "quota", &self.quota)?;
        let limit = find(tx, namespace.id, LimitSort::Quota, &self.quota)?;
        expect_unused(tx, &limit)?;
        tx.drop_limit(&limit)?;
        let data = json!({ "quota": self.quota });
        let event = NewEvent::new(EventKind::QuotaDeleted, cx.now, namespace.id);
        tx.add_event(&NewEvent { data: Some(data), ..event })
    }
}
