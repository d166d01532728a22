use everloom_core::{Execution, NamespaceId, RowId, Tags};

use crate::link::{Param, Step, params};
use crate::sql::tags as sql;

/// Labels of many executions, collected for one statement.
#[derive(Default)]
pub(crate) struct Labels(Vec<(NamespaceId, String, String, RowId)>);

impl Labels {
    /// Adds what an execution has in `these` and not in `others`.
    pub(crate) fn collect(&mut self, execution: &Execution, these: &Tags, others: &Tags) {
        let absent = these.iter().filter(|(key, value)| others.get(*key) != Some(*value));
        self.0.extend(
            absent.map(|(key, value)| {
                (execution.namespace, key.clone(), value.clone(), execution.row)
            }),
        );
    }

    pub(crate) fn add(self) -> Option<Step> {
        (!self.0.is_empty()).then(|| Step::Prepared(sql::ADD, self.columns()))
    }

    pub(crate) fn remove(self) -> Option<Step> {
        (!self.0.is_empty()).then(|| Step::Prepared(sql::DROP, self.columns()))
    }

    fn columns(self) -> Vec<Param> {
        let namespaces: Vec<i64> = self.0.iter().map(|label| label.0.0).collect();
        let rows: Vec<i64> = self.0.iter().map(|label| label.3.0).collect();
        let (keys, values): (Vec<String>, Vec<String>) =
            self.0.into_iter().map(|(_, key, value, _)| (key, value)).unzip();
        params![namespaces, keys, values, rows]
    }
}
