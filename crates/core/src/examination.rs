//! What a store can tell about itself without being opened.

use serde::{Deserialize, Serialize};

use crate::store::StoreInfo;

/// How a database is, whether or not an engine could work with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// What it is, with the version of the schema it has: 0 when it has none.
    pub store: StoreInfo,
    /// The version of the schema this program works with.
    pub wanted_schema: u32,
    /// Migrations that opening it would apply, in order.
    pub pending: Vec<String>,
    /// What was looked at.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Whether something must be fixed.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Problem)
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Works, but not as well or not for as long as it could.
    Warning,
    /// Must be fixed: it does not work, or what was promised does not hold.
    Problem,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about: a setting by its name, everything else in a few words.
    pub about: String,
    /// How it is.
    pub value: String,
    /// How much that matters.
    pub level: Level,
    /// What to do, unless it is fine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// Something that is fine unless one of the methods below says otherwise.
    pub fn new(about: impl Into<String>, value: impl Into<String>) -> Self {
        Self { about: about.into(), value: value.into(), level: Level::Fine, advice: None }
    }

    /// A warning if this is so.
    #[must_use]
    pub fn warn_if(self, so: bool, advice: impl Into<String>) -> Self {
        self.raise(so, Level::Warning, advice)
    }

    /// A problem if this is so.
    #[must_use]
    pub fn problem_if(self, so: bool, advice: impl Into<String>) -> Self {
        self.raise(so, Level::Problem, advice)
    }

    fn raise(self, so: bool, level: Level, advice: impl Into<String>) -> Self {
        match so && level > self.level {
            true => Self { level, advice: Some(advice.into()), ..self },
            false => self,
        }
    }

    /// The finding about the version of a schema.
    pub fn about_schema(has: u32, wanted: u32) -> Self {
        let value = format!("version {has}, this program works with {wanted}");
        Self::new("schema", value)
            .problem_if(
                has < wanted,
                "Run `everloom migrate`, or open an engine with migrating on.",
            )
            .problem_if(has > wanted, "Upgrade Everloom: a newer version has migrated it.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_word_about_a_finding_counts() {
        let finding = Finding::new("room", "1 MiB")
            .problem_if(true, "Make room.")
            .warn_if(true, "Keep an eye on it.")
            .problem_if(false, "Never.");
        assert_eq!(finding.level, Level::Problem);
        assert_eq!(finding.advice.as_deref(), Some("Make room."));
    }

    #[test]
    fn a_schema_is_a_problem_unless_it_is_the_one_that_is_wanted() {
        let level = |has| Finding::about_schema(has, 2).level;
        assert_eq!([1, 2, 3].map(level), [Level::Problem, Level::Fine, Level::Problem]);
    }
}
