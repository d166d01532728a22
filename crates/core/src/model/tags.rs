use std::collections::BTreeMap;

/// Labels of an execution: names to short texts, in the order of their names.
pub type Tags = BTreeMap<String, String>;

/// A change of tags: a text sets, null removes, what is not named stays.
pub type TagChanges = BTreeMap<String, Option<String>>;
