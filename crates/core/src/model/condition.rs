//! When a suspended execution goes on: a small language over the signals it collects.
//!
//! A condition is checked once, when it is given, and evaluated signal by signal: a [`Tally`] keeps
//! what each of its parts has seen.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Check, Code, Limits, Tally};

/// When a suspended execution goes on.
///
/// ```
/// # use everloom_core::{Condition, Distinct};
/// let two_of_three = Condition::count(2, Distinct::Waitpoints, ["finance", "legal", "ops"]);
/// let or_the_boss = Condition::any([two_of_three, Condition::approval("boss", 1)]);
/// assert_eq!(or_the_boss.waitpoints(), ["finance", "legal", "ops", "boss"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "when", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// A signal came.
    Signal {
        /// At the waitpoint of that key; to the execution itself when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waitpoint: Option<String>,
        /// Of that name; of any when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// So many people approved, or enough refused.
    Approval {
        /// At the waitpoint of that key.
        waitpoint: String,
        /// How many different people must approve.
        #[serde(default = "one")]
        approvers: u32,
        /// How many rejections settle it as well; with 0 none does.
        #[serde(default = "one")]
        rejections: u32,
        /// The role an approver must have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// All of these are so.
    All {
        /// The parts.
        of: Vec<Condition>,
    },
    /// One of these is so.
    Any {
        /// The parts.
        of: Vec<Condition>,
    },
    /// So many different ones came.
    Count {
        /// How many.
        n: u32,
        /// Different in what.
        distinct: Distinct,
        /// At the waitpoints of these keys.
        waitpoints: Vec<String>,
        /// Of that name; of any when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An operator said so; no signal will do.
    Operator,
    /// Its time has come; no signal will do.
    Timeout,
}

fn one() -> u32 {
    1
}

/// In what signals must differ to count apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distinct {
    /// Each waitpoint counts once.
    Waitpoints,
    /// Each signal counts.
    Signals,
    /// Each who sends counts once.
    Sources,
}

impl Condition {
    /// Any signal to the execution itself.
    pub fn signal() -> Self {
        Self::Signal { waitpoint: None, name: None }
    }

    /// Any signal at a waitpoint.
    pub fn at(waitpoint: impl Into<String>) -> Self {
        Self::Signal { waitpoint: Some(waitpoint.into()), name: None }
    }

    /// Approval by so many different people, at a waitpoint; one rejection settles it too.
    pub fn approval(waitpoint: impl Into<String>, approvers: u32) -> Self {
        Self::Approval { waitpoint: waitpoint.into(), approvers, rejections: 1, role: None }
    }

    /// Only signals of that name, for a part that asks for signals.
    #[must_use]
    pub fn named(mut self, wanted: impl Into<String>) -> Self {
        if let Self::Signal { name, .. } | Self::Count { name, .. } = &mut self {
            *name = Some(wanted.into());
        }
        self
    }

    /// Only people of that role, for a part that asks for approval.
    #[must_use]
    pub fn by_role(mut self, wanted: impl Into<String>) -> Self {
        if let Self::Approval { role, .. } = &mut self {
            *role = Some(wanted.into());
        }
        self
    }

    /// All of these.
    pub fn all(of: impl IntoIterator<Item = Self>) -> Self {
        Self::All { of: of.into_iter().collect() }
    }

    /// One of these.
    pub fn any(of: impl IntoIterator<Item = Self>) -> Self {
        Self::Any { of: of.into_iter().collect() }
    }

    /// So many different ones.
    pub fn count<K: Into<String>>(
        n: u32,
        distinct: Distinct,
        waitpoints: impl IntoIterator<Item = K>,
    ) -> Self {
        let waitpoints = waitpoints.into_iter().map(Into::into).collect();
        Self::Count { n, distinct, waitpoints, name: None }
    }

    /// Adds everything that is wrong with it, each with its path.
    pub(crate) fn check(&self, check: &mut Check, field: &str) {
        let mut parts = 0;
        self.check_part(check, field, 1, &mut parts);
        check.at_most(field, parts, Limits::CONDITION_PARTS);
        // What is far too large is not looked at any closer.
        if check.is_clean() {
            check.at_most(field, self.waitpoints().len(), Limits::OPEN_WAITPOINTS);
        }
    }

    fn check_part(&self, check: &mut Check, path: &str, depth: usize, parts: &mut usize) {
        *parts += 1;
        if *parts > Limits::CONDITION_PARTS {
            return;
        }
        if depth > Limits::CONDITION_DEPTH {
            let what = format!("is nested deeper than {}", Limits::CONDITION_DEPTH);
            check.violate(Code::InvalidInput, path, what);
            return;
        }
        match self {
            Self::Signal { waitpoint, name } => {
                check_names(check, path, waitpoint.iter().chain(name));
            }
            Self::Approval { waitpoint, approvers, rejections, role } => {
                check.that(*approvers > 0, path, || "needs at least one approver".into());
                check.at_most(path, *approvers as usize, Limits::CONDITION_COUNT);
                check.at_most(path, *rejections as usize, Limits::CONDITION_COUNT);
                check_names(check, path, [waitpoint].into_iter().chain(role));
            }
            Self::All { of } | Self::Any { of } => {
                check.that(!of.is_empty(), path, || "names no part".into());
                for (index, part) in of.iter().enumerate() {
                    part.check_part(check, &format!("{path}.of[{index}]"), depth + 1, parts);
                }
            }
            Self::Count { n, distinct, waitpoints, name } => {
                check.that(*n > 0, path, || "counts to 0; 1 is the least".into());
                check.that(!waitpoints.is_empty(), path, || "names no waitpoint".into());
                check.at_most(path, waitpoints.len(), Limits::OPEN_WAITPOINTS);
                let different = waitpoints.iter().collect::<BTreeSet<_>>().len();
                let limit = match distinct {
                    Distinct::Waitpoints => different,
                    Distinct::Signals => Limits::SIGNALS,
                    Distinct::Sources => Limits::CONDITION_COUNT,
                };
                check.that(*n as usize <= limit, path, || {
                    format!("counts to {n}, and there can be at most {limit}")
                });
                let some = waitpoints.iter().take(Limits::OPEN_WAITPOINTS);
                check_names(check, path, some.chain(name));
            }
            Self::Operator | Self::Timeout => {}
        }
    }

    /// Whether its time lets it come about, whatever else has come.
    pub(crate) fn is_met_by_time(&self) -> bool {
        Tally::new(self).is_met_in_time(self)
    }

    /// Whether it asks for its time to come.
    pub(crate) fn asks_for_time(&self) -> bool {
        let mut asks = false;
        self.each_part(&mut |part| asks |= *part == Self::Timeout);
        asks
    }

    /// The keys of the waitpoints it names, in the order it names them.
    pub fn waitpoints(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        self.each_part(&mut |part| match part {
            Self::Signal { waitpoint, .. } => keys.extend(waitpoint.iter()),
            Self::Approval { waitpoint, .. } => keys.push(waitpoint),
            Self::Count { waitpoints, .. } => keys.extend(waitpoints),
            Self::All { .. } | Self::Any { .. } | Self::Operator | Self::Timeout => {}
        });
        once_each(keys)
    }

    /// The names of signals it waits for at a waitpoint, or at the execution itself; none means
    /// that any will do.
    pub fn names_at(&self, at: Option<&str>) -> Vec<&str> {
        let (mut names, mut any) = (Vec::new(), false);
        self.each_part(&mut |part| {
            let (here, name) = match part {
                Self::Signal { waitpoint, name } => (waitpoint.as_deref() == at, name),
                Self::Count { waitpoints, name, .. } => {
                    (at.is_some_and(|at| waitpoints.iter().any(|key| key == at)), name)
                }
                _ => return,
            };
            if here {
                names.extend(name);
                any |= name.is_none();
            }
        });
        if any { vec![] } else { once_each(names) }
    }

    /// The role of whoever is asked for approval at a waitpoint, once for each approval asked for
    /// there; none where anyone will do.
    pub(crate) fn roles_at(&self, at: &str) -> Vec<Option<&str>> {
        let mut roles = Vec::new();
        self.each_part(&mut |part| match part {
            Self::Approval { waitpoint, role, .. } if waitpoint == at => {
                roles.push(role.as_deref());
            }
            _ => {}
        });
        roles
    }

    fn each_part<'a>(&'a self, look: &mut dyn FnMut(&'a Self)) {
        look(self);
        if let Self::All { of } | Self::Any { of } = self {
            of.iter().for_each(|part| part.each_part(look));
        }
    }
}

fn check_names<'a>(check: &mut Check, path: &str, names: impl Iterator<Item = &'a String>) {
    names.for_each(|name| check.name(path, name));
}

/// Each of them once, where it comes first.
pub(super) fn once_each<'a>(all: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    all.into_iter().map(String::as_str).filter(|one| seen.insert(*one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(condition: &Condition) -> Vec<(String, String)> {
        let mut check = Check::default();
        condition.check(&mut check, "condition");
        match check.finish() {
            Ok(()) => vec![],
            Err(error) if error.violations().is_empty() => {
                vec![(error.field().unwrap_or_default().to_owned(), error.message().to_owned())]
            }
            Err(error) => {
                error.violations().into_iter().map(|one| (one.field, one.message)).collect()
            }
        }
    }

    #[test]
    fn everything_wrong_is_told_with_its_path() {
        let nested = |part| Condition::all([part]);
        let four = nested(nested(nested(Condition::signal())));
        assert!(problems(&four).is_empty());
        let [(path, message)] = &problems(&nested(four))[..] else { panic!("one problem") };
        assert_eq!(path, "condition.of[0].of[0].of[0].of[0]");
        assert!(message.contains("nested deeper than 4"), "{message}");

        let bad = Condition::any([
            Condition::all([]),
            Condition::count(0, Distinct::Signals, Vec::<String>::new()),
            Condition::count(2, Distinct::Waitpoints, ["a", "a"]),
            Condition::at("not a name"),
            Condition::approval("a", 0),
        ]);
        let found = problems(&bad);
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        let of = |index: usize| format!("condition.of[{index}]");
        assert_eq!(paths, [of(0), of(1), of(1), of(2), of(3), of(4)], "{found:?}");
        assert!(problems(&Condition::count(9, Distinct::Signals, ["a"])).is_empty());
    }

    #[test]
    fn what_is_far_too_large_is_refused_without_a_closer_look() {
        let keys: Vec<_> = (0..300_000).map(|number| format!("not a name {number}")).collect();
        assert_eq!(problems(&Condition::count(1, Distinct::Signals, keys)).len(), 201);
        let parts = Condition::all((0..300_000).map(|_| Condition::at("not a name")));
        assert_eq!(problems(&parts).len(), 200);
        let many = |from: usize| {
            let keys = (from..from + 200).map(|number| format!("k{number}"));
            Condition::count(1, Distinct::Signals, keys)
        };
        let all = Condition::all((0..199).map(|part| many(part * 200)));
        let [(_, message)] = &problems(&all)[..] else { panic!("one problem") };
        assert!(message.contains("39800"), "{message}");
    }
}
