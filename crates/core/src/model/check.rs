use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Amounts, Code, Error, Limits, Payload, Result};

/// One thing that is wrong with a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// Where, as a path into the call.
    pub field: String,
    /// `invalid_input`, `too_large` or `unsupported`.
    pub code: Code,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Collects everything that is wrong with a call, so that the caller can mend it in one go.
#[derive(Default)]
pub(crate) struct Check {
    violations: Vec<Violation>,
    item: Option<(&'static str, usize, &'static str)>,
}

impl Check {
    /// Prefixes the fields checked from here on with `list[index].`.
    pub(crate) fn item(&mut self, list: &'static str, index: usize) {
        self.item = Some((list, index, ""));
    }

    /// Prefixes the fields checked from here on with `list[index].part.`.
    pub(crate) fn part(&mut self, list: &'static str, index: usize, part: &'static str) {
        self.item = Some((list, index, part));
    }

    /// Names fields of the whole call from here on.
    pub(crate) fn whole(&mut self) {
        self.item = None;
    }

    pub(crate) fn violate(&mut self, code: Code, field: &str, message: String) {
        let field = match self.item {
            Some((list, index, "")) => format!("{list}[{index}].{field}"),
            Some((list, index, part)) => format!("{list}[{index}].{part}.{field}"),
            None => field.to_owned(),
        };
        self.violations.push(Violation { field, code, message });
    }

    fn invalid(&mut self, field: &str, message: String) {
        self.violate(Code::InvalidInput, field, message);
    }

    /// Demands that `ok`, else says `message`.
    pub(crate) fn that(&mut self, ok: bool, field: &str, message: impl FnOnce() -> String) {
        if !ok {
            self.invalid(field, message());
        }
    }

    /// 1–128 characters of `A-Za-z0-9._:@-`, starting with a letter or digit.
    pub(crate) fn name(&mut self, field: &str, name: &str) {
        let bytes = name.as_bytes();
        let starts = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(byte);
        if name.len() > Limits::NAME {
            self.invalid(
                field,
                format!("a name has at most {} characters, this one {}", Limits::NAME, name.len()),
            );
        } else if !starts || !bytes.iter().all(allowed) {
            self.invalid(
                field,
                format!(
                    "`{}` is not a name: use 1 to {} of A-Z a-z 0-9 . _ : @ - and begin with a letter or digit",
                    name.escape_debug(),
                    Limits::NAME
                ),
            );
        }
    }

    pub(crate) fn names(&mut self, field: &str, names: &[String]) {
        self.at_most(field, names.len(), Limits::NAMES);
        for name in names.iter().take(Limits::NAMES) {
            self.name(field, name);
        }
    }

    /// A short text without control characters.
    pub(crate) fn text(&mut self, field: &str, text: &str) {
        self.sized_text(field, text, Limits::TEXT);
    }

    pub(crate) fn sized_text(&mut self, field: &str, text: &str, limit: usize) {
        self.bytes(field, text.len(), limit);
        if text.chars().any(char::is_control) {
            self.invalid(field, "must not contain control characters".into());
        }
    }

    pub(crate) fn key(&mut self, field: &str, key: &str) {
        if key.is_empty() {
            self.invalid(field, "must not be empty; leave it out for no key".into());
        }
        self.sized_text(field, key, Limits::KEY);
    }

    pub(crate) fn tag(&mut self, field: &str, key: &str, value: Option<&str>) {
        self.name(field, key);
        if let Some(value) = value {
            self.bytes(field, value.len(), Limits::TAG_VALUE);
            // No text of PostgreSQL has one.
            self.that(!value.contains('\0'), field, || {
                "must not contain the character U+0000".into()
            });
        }
    }

    pub(crate) fn capabilities(&mut self, field: &str, tokens: &[String]) {
        self.at_most(field, tokens.len(), Limits::CAPABILITIES);
        self.bytes(field, tokens.iter().map(String::len).sum(), Limits::CAPABILITY_BYTES);
        for token in tokens.iter().take(Limits::CAPABILITIES) {
            self.name(field, token);
        }
    }

    pub(crate) fn payload(&mut self, field: &str, payload: &Payload, limits: &Limits) {
        self.bytes(field, payload.bytes.len(), limits.payload_bytes);
        self.sized_text(field, &payload.content_type, Limits::CONTENT_TYPE);
        if payload.content_type.is_empty() {
            self.invalid(field, "the content type must not be empty".into());
        }
    }

    pub(crate) fn bytes(&mut self, field: &str, size: usize, limit: usize) {
        if size > limit {
            self.violate(Code::TooLarge, field, format!("{size} bytes, the limit is {limit}"));
        }
    }

    pub(crate) fn at_most(&mut self, field: &str, count: usize, limit: usize) {
        if count > limit {
            self.invalid(field, format!("at most {limit} are allowed, these are {count}"));
        }
    }

    /// From one to a batch of items.
    pub(crate) fn batch(&mut self, field: &str, count: usize) {
        self.that((1..=Limits::BATCH).contains(&count), field, || {
            format!("a batch has 1 to {} items, not {count}", Limits::BATCH)
        });
    }

    pub(crate) fn page(&mut self, field: &str, count: usize) {
        self.that((1..=Limits::PAGE).contains(&count), field, || {
            format!("a page has 1 to {} items, not {count}", Limits::PAGE)
        });
    }

    pub(crate) fn priority(&mut self, field: &str, priority: i32) {
        self.that((0..=Limits::PRIORITY).contains(&priority), field, || {
            format!("a priority is 0 to {}, higher first, not {priority}", Limits::PRIORITY)
        });
    }

    pub(crate) fn duration(&mut self, field: &str, value: Duration, min: Duration, max: Duration) {
        self.that((min..=max).contains(&value), field, || {
            format!(
                "must be {} to {} ms, not {}",
                min.as_millis(),
                max.as_millis(),
                value.as_millis()
            )
        });
    }

    /// An amount that can be counted.
    pub(crate) fn amount(&mut self, field: &str, amount: u64) {
        self.that(amount <= Limits::AMOUNT, field, || {
            format!("must be at most {}, not {amount}", Limits::AMOUNT)
        });
    }

    /// Amounts by dimension.
    pub(crate) fn amounts(&mut self, field: &str, amounts: &Amounts) {
        self.at_most(field, amounts.len(), Limits::DIMENSIONS);
        for (dimension, amount) in amounts.iter().take(Limits::DIMENSIONS) {
            self.name(field, dimension);
            self.amount(&format!("{field}.{dimension}"), *amount);
        }
    }

    pub(crate) fn lease(&mut self, field: &str, ttl: Duration) {
        self.duration(field, ttl, Limits::LEASE_MIN, Limits::LEASE_MAX);
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// The verdict.
    pub(crate) fn finish(self) -> Result<()> {
        match self.violations.is_empty() {
            true => Ok(()),
            false => Err(Error::from_violations(self.violations)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_is_accepted(name: &str) -> bool {
        let mut check = Check::default();
        check.name("name", name);
        check.finish().is_ok()
    }

    #[test]
    fn names_are_one_to_128_plain_characters() {
        for good in ["a", "9", "gpu:a100@eu-1.x_y", &"n".repeat(128)] {
            assert!(name_is_accepted(good), "{good}");
        }
        for bad in ["", " ", "a b", "-a", ".a", "ü", "a\n", "a/b", &"n".repeat(129)] {
            assert!(!name_is_accepted(bad), "{bad:?}");
        }
    }

    #[test]
    fn every_violation_is_listed_with_its_place() {
        let mut check = Check::default();
        check.item("items", 2);
        check.name("kind", "a b");
        check.priority("priority", 9001);
        let error = check.finish().unwrap_err();
        let fields: Vec<_> = error.violations().into_iter().map(|one| one.field).collect();
        assert_eq!(fields, ["items[2].kind", "items[2].priority"]);
    }
}
