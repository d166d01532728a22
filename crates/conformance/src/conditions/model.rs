//! What conditions mean, said a second time: from all signals at once, slowly, and by nothing that
//! the engine uses.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Condition, Distinct, Offer, Offered};

/// A signal that came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Came {
    /// The key of the waitpoint; none for the execution itself.
    pub(super) at: Option<String>,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) verdict: Option<bool>,
    /// None for whoever may speak for any role.
    pub(super) roles: Option<Vec<String>>,
}

impl Came {
    /// The same as the engine is told.
    pub(super) fn offer(&self) -> Offer<'_> {
        Offer {
            waitpoint: self.at.as_deref(),
            name: &self.name,
            source: &self.source,
            approves: self.verdict,
            roles: self.roles.as_deref(),
        }
    }

    fn is_at(&self, key: &str) -> bool {
        self.at.as_deref() == Some(key)
    }

    fn is_named(&self, wanted: &Option<String>) -> bool {
        wanted.is_none() || wanted.as_ref() == Some(&self.name)
    }

    fn has_role(&self, wanted: &Option<String>) -> bool {
        match (wanted, &self.roles) {
            (None, _) | (_, None) => true,
            (Some(wanted), Some(roles)) => roles.contains(wanted),
        }
    }
}

/// Whether a part without parts means this signal.
fn means(leaf: &Condition, came: &Came) -> bool {
    match leaf {
        Condition::Signal { waitpoint, name } => came.at == *waitpoint && came.is_named(name),
        Condition::Approval { waitpoint, role, .. } => {
            came.is_at(waitpoint) && came.verdict.is_some() && came.has_role(role)
        }
        Condition::Count { waitpoints, name, .. } => {
            waitpoints.iter().any(|key| came.is_at(key)) && came.is_named(name)
        }
        _ => false,
    }
}

/// Whether a part without parts waits where this signal went.
fn is_there(leaf: &Condition, came: &Came) -> bool {
    match leaf {
        Condition::Signal { waitpoint, .. } => came.at == *waitpoint,
        Condition::Approval { waitpoint, .. } => came.is_at(waitpoint),
        Condition::Count { waitpoints, .. } => waitpoints.iter().any(|key| came.is_at(key)),
        _ => false,
    }
}

/// What makes two signals one for a count: their place, if nothing does.
fn different<'a>(leaf: &Condition, all: &'a [Came]) -> BTreeSet<(&'a str, usize)> {
    let Condition::Count { distinct, .. } = leaf else { return BTreeSet::new() };
    let meant = all.iter().enumerate().filter(|(_, came)| means(leaf, came));
    meant
        .map(|(place, came)| match distinct {
            Distinct::Waitpoints => (came.at.as_deref().unwrap_or_default(), 0),
            Distinct::Signals => ("", place),
            Distinct::Sources => (came.source.as_str(), 0),
        })
        .collect()
}

/// What was said to somebody who asks for approval.
fn words<'a>(leaf: &Condition, all: &'a [Came]) -> Vec<(&'a str, bool)> {
    let meant = all.iter().filter(|came| means(leaf, came));
    meant.filter_map(|came| Some((came.source.as_str(), came.verdict?))).collect()
}

/// The last word of each person.
fn last_words<'a>(words: &[(&'a str, bool)]) -> BTreeMap<&'a str, bool> {
    words.iter().copied().collect()
}

/// Those words after which it was settled.
fn settled_by<'a, 'w>(
    leaf: &Condition,
    words: &'w [(&'a str, bool)],
) -> Option<&'w [(&'a str, bool)]> {
    let Condition::Approval { approvers, rejections, .. } = leaf else { return None };
    let enough = |words: &&[(&str, bool)]| {
        let last = last_words(words);
        let say = |word: bool| last.values().filter(|said| **said == word).count();
        say(true) >= *approvers as usize || (*rejections > 0 && say(false) >= *rejections as usize)
    };
    (0..=words.len()).map(|until| &words[..until]).find(enough)
}

/// What has happened that no signal stands for.
#[derive(Clone, Copy)]
pub(super) struct Outside {
    operator: bool,
    time: bool,
}

impl Outside {
    pub(super) const NOTHING: Self = Self { operator: false, time: false };
    pub(super) const TIME: Self = Self { operator: false, time: true };
    pub(super) const ALL: Self = Self { operator: true, time: true };
}

/// Whether all that came is enough.
pub(super) fn is_met(condition: &Condition, all: &[Came], outside: Outside) -> bool {
    match condition {
        Condition::Signal { .. } => all.iter().any(|came| means(condition, came)),
        Condition::Approval { .. } => settled_by(condition, &words(condition, all)).is_some(),
        Condition::Count { n, .. } => different(condition, all).len() >= *n as usize,
        Condition::All { of } => !of.iter().any(|part| !is_met(part, all, outside)),
        Condition::Any { of } => of.iter().any(|part| is_met(part, all, outside)),
        Condition::Operator => outside.operator,
        Condition::Timeout => outside.time,
    }
}

/// The parts that have no parts, in their order.
pub(super) fn leaves(condition: &Condition) -> Vec<&Condition> {
    match condition {
        Condition::All { of } | Condition::Any { of } => of.iter().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

/// Whether one signal more brings a part without parts on.
fn brings_on(leaf: &Condition, before: &[Came], new: &Came) -> bool {
    if !means(leaf, new) || is_met(leaf, before, Outside::NOTHING) {
        return false;
    }
    let after = [before, std::slice::from_ref(new)].concat();
    match leaf {
        Condition::Approval { .. } => {
            last_words(&words(leaf, before)) != last_words(&words(leaf, &after))
        }
        Condition::Count { .. } => different(leaf, before) != different(leaf, &after),
        _ => true,
    }
}

/// What becomes of one signal more.
pub(super) fn offered(condition: &Condition, before: &[Came], new: &Came) -> Offered {
    let leaves = leaves(condition);
    let any = |wanted: &dyn Fn(&Condition) -> bool| leaves.iter().any(|leaf| wanted(leaf));
    let lacks_role = |leaf: &Condition| {
        matches!(leaf, Condition::Approval { .. }) && is_there(leaf, new) && new.verdict.is_some()
    };
    if any(&|leaf| brings_on(leaf, before, new)) {
        Offered::Counted
    } else if any(&|leaf| means(leaf, new)) {
        Offered::NothingNew
    } else if any(&lacks_role) {
        Offered::OtherRole
    } else if any(&|leaf| is_there(leaf, new)) {
        Offered::OtherName
    } else {
        Offered::NotMeant
    }
}

/// Whether somebody who says yes or no is asked neither by role nor regardless of it, although
/// somebody is asked.
pub(super) fn is_forbidden(condition: &Condition, new: &Came) -> bool {
    let asks =
        |leaf: &&Condition| matches!(leaf, Condition::Approval { .. }) && is_there(leaf, new);
    let asking: Vec<_> = leaves(condition).into_iter().filter(asks).collect();
    new.verdict.is_some() && !asking.is_empty() && !asking.iter().any(|leaf| means(leaf, new))
}

/// What was said to each who asks for approval at a place, until that was settled.
pub(super) fn verdicts(
    condition: &Condition,
    key: &str,
    all: &[Came],
) -> Vec<BTreeMap<String, bool>> {
    let asks = |leaf: &&Condition| matches!(leaf, Condition::Approval { waitpoint, .. } if waitpoint == key);
    let until_settled = |leaf: &Condition| {
        let words = words(leaf, all);
        let heard = last_words(settled_by(leaf, &words).unwrap_or(&words));
        heard.into_iter().map(|(person, word)| (person.to_owned(), word)).collect()
    };
    leaves(condition).into_iter().filter(asks).map(until_settled).collect()
}

/// The keys of all places where something is still missing.
pub(super) fn missing(condition: &Condition, all: &[Came]) -> BTreeSet<String> {
    if is_met(condition, all, Outside::NOTHING) {
        return BTreeSet::new();
    }
    match condition {
        Condition::Signal { waitpoint, .. } => waitpoint.iter().cloned().collect(),
        Condition::Approval { waitpoint, .. } => [waitpoint.clone()].into(),
        Condition::Count { distinct, waitpoints, .. } => {
            let mut missing: BTreeSet<_> = waitpoints.iter().cloned().collect();
            if *distinct == Distinct::Waitpoints {
                for (seen, _) in different(condition, all) {
                    missing.remove(seen);
                }
            }
            missing
        }
        Condition::All { of } | Condition::Any { of } => {
            of.iter().flat_map(|part| missing(part, all)).collect()
        }
        Condition::Operator | Condition::Timeout => BTreeSet::new(),
    }
}
