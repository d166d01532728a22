//! The character NUL, which PostgreSQL keeps in no text.
//!
//! No rule lets it be stored, so nothing has a name with it; but anyone may ask for one, and must not
//! spoil the questions of others that travel along.

/// Whether something can have that name.
pub(crate) fn can_be(name: &str) -> bool {
    !name.contains('\0')
}

/// What the names after this one come after.
pub(crate) fn bound(after: Option<&str>) -> String {
    let after = after.unwrap_or_default();
    after.split('\0').next().unwrap_or_default().to_owned()
}

/// The least name after this one; the least of all if there is none.
pub(crate) fn from(after: Option<&str>) -> String {
    after.map_or_else(String::new, |_| bound(after) + "\u{1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_after_one_that_nothing_has_are_those_after_what_comes_before_nul() {
        assert_eq!(bound(Some("a\0b")), "a");
        assert_eq!(bound(Some("\0")), "");
        assert_eq!(bound(None), "");
        assert_eq!(
            (from(None), from(Some("a")), from(Some(""))),
            ("".into(), "a\u{1}".into(), "\u{1}".into())
        );
        assert!(can_be("a") && !can_be("a\0"));
    }
}
