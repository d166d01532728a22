//! JSON Merge Patch, RFC 7396.

use serde_json::{Map, Value};

/// Changes a document as a patch says.
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            match value {
                Value::Null => drop(target.remove(&key)),
                value => merge(target.entry(key).or_insert(Value::Null), value),
            }
        }
    }
}

/// Sets the member a JSON pointer names to null, which no patch can; its parent must exist. Says
/// whether it does. The document itself is no member of anything.
pub(super) fn set_null(document: &mut Value, pointer: &str) -> bool {
    if pointer.is_empty() || !is_escaped(pointer) {
        return false;
    }
    if let Some(member) = document.pointer_mut(pointer) {
        *member = Value::Null;
        return true;
    }
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    match document.pointer_mut(parent) {
        Some(Value::Object(parent)) => {
            parent.insert(name.replace("~1", "/").replace("~0", "~"), Value::Null);
            true
        }
        _ => false,
    }
}

/// Whether each `~` of a pointer stands for a character, as RFC 6901 wants.
fn is_escaped(pointer: &str) -> bool {
    pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// How deep a value is nested.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cases_of_the_rfc_hold() {
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, result, "{target} patched with {patch}");
        }
    }

    #[test]
    fn a_pointer_sets_what_a_patch_would_remove() {
        let mut document = json!({"a":{"b":1},"c/d":[1,2],"e~f":0});
        assert!(set_null(&mut document, "/a/b"));
        assert!(set_null(&mut document, "/a/new"));
        assert!(set_null(&mut document, "/c~1d/1"));
        assert!(set_null(&mut document, "/e~0f"));
        assert!(!set_null(&mut document, "/x/y"));
        assert!(!set_null(&mut document, "nothing"));
        assert!(!set_null(&mut document, ""));
        assert!(!set_null(&mut document, "/e~2f"));
        assert!(!set_null(&mut document, "/e~"));
        assert_eq!(document, json!({"a":{"b":null,"new":null},"c/d":[1,null],"e~f":null}));
    }
}
