//! What a condition has seen: one tally for each of its parts, and never more than the part needs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::condition::once_each;
use super::{Condition, Distinct};

/// A signal as a condition sees it.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The key of the waitpoint it came to; none if it came to the execution itself.
    pub waitpoint: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Who sent it.
    pub source: &'a str,
    /// Whether its sender approves or rejects, if that is what it says.
    pub approves: Option<bool>,
    /// The roles of whoever sent it; none means that it may speak for any, as the bearer of a
    /// token may.
    pub roles: Option<&'a [String]>,
}

/// What a condition has seen so far, part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tally {
    /// For one signal: whether it came.
    Seen(bool),
    /// For a count of signals: how many came.
    Times(u32),
    /// For a count of what differs: what came, never more than are needed.
    Different(BTreeSet<String>),
    /// For approvals: the last word of each who spoke.
    Verdicts(BTreeMap<String, bool>),
    /// For several parts, in their order.
    Parts(Vec<Tally>),
    /// For what no signal brings about.
    Apart,
}

/// What became of a signal that was offered to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// No part waits for signals there.
    NotMeant,
    /// Parts wait for signals there, but for none of that name.
    OtherName,
    /// Parts wait for approval there, but by people of another role.
    OtherRole,
    /// It was meant, and what it says was known already.
    NothingNew,
    /// It brought the condition on.
    Counted,
}

impl Offered {
    /// Whether it brought the condition on.
    pub fn has_counted(self) -> bool {
        self == Self::Counted
    }
}

impl Tally {
    /// Nothing has come yet.
    pub fn new(condition: &Condition) -> Self {
        match condition {
            Condition::Signal { .. } => Self::Seen(false),
            Condition::Approval { .. } => Self::Verdicts(BTreeMap::new()),
            Condition::Count { distinct: Distinct::Signals, .. } => Self::Times(0),
            Condition::Count { .. } => Self::Different(BTreeSet::new()),
            Condition::All { of } | Condition::Any { of } => {
                Self::Parts(of.iter().map(Self::new).collect())
            }
            Condition::Operator | Condition::Timeout => Self::Apart,
        }
    }

    /// Takes a signal into account. A signal that several parts mean counts in each of them.
    pub fn offer(&mut self, condition: &Condition, signal: Offer<'_>) -> Offered {
        match (condition, self) {
            (Condition::Signal { waitpoint, name }, Self::Seen(seen)) => {
                if waitpoint.as_deref() != signal.waitpoint {
                    return Offered::NotMeant;
                }
                if name.as_ref().is_some_and(|name| name != signal.name) {
                    return Offered::OtherName;
                }
                counted(!std::mem::replace(seen, true))
            }
            (
                Condition::Approval { waitpoint, approvers, rejections, role },
                Self::Verdicts(all),
            ) => {
                if signal.waitpoint != Some(waitpoint) {
                    return Offered::NotMeant;
                }
                let Some(approves) = signal.approves else { return Offered::OtherName };
                if !speaks_for(signal.roles, role.as_ref()) {
                    return Offered::OtherRole;
                }
                if settled(all, *approvers, *rejections) {
                    return Offered::NothingNew;
                }
                let before = all.insert(signal.source.to_owned(), approves);
                counted(before != Some(approves))
            }
            (Condition::Count { n, distinct, waitpoints, name }, seen) => {
                let Some(key) =
                    signal.waitpoint.filter(|at| waitpoints.iter().any(|key| key == at))
                else {
                    return Offered::NotMeant;
                };
                if name.as_ref().is_some_and(|name| name != signal.name) {
                    return Offered::OtherName;
                }
                match seen {
                    Self::Times(times) => {
                        let more = *times < *n;
                        *times += u32::from(more);
                        counted(more)
                    }
                    Self::Different(seen) => {
                        let what = if *distinct == Distinct::Sources { signal.source } else { key };
                        counted(seen.len() < *n as usize && seen.insert(what.to_owned()))
                    }
                    _ => Offered::NotMeant,
                }
            }
            (Condition::All { of } | Condition::Any { of }, Self::Parts(parts)) => {
                let offered = of.iter().zip(parts).map(|(part, seen)| seen.offer(part, signal));
                offered.max().unwrap_or(Offered::NotMeant)
            }
            _ => Offered::NotMeant,
        }
    }

    /// Whether the condition is met.
    pub fn is_met(&self, condition: &Condition) -> bool {
        match (condition, self) {
            (Condition::Signal { .. }, Self::Seen(seen)) => *seen,
            (Condition::Approval { approvers, rejections, .. }, Self::Verdicts(all)) => {
                settled(all, *approvers, *rejections)
            }
            (Condition::Count { n, .. }, Self::Times(times)) => times >= n,
            (Condition::Count { n, .. }, Self::Different(seen)) => seen.len() >= *n as usize,
            (Condition::All { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).all(|(part, seen)| seen.is_met(part))
            }
            (Condition::Any { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).any(|(part, seen)| seen.is_met(part))
            }
            _ => false,
        }
    }

    /// Whether the condition is met now that its time has come.
    pub(crate) fn is_met_in_time(&self, condition: &Condition) -> bool {
        match (condition, self) {
            (Condition::Timeout, _) => true,
            (Condition::All { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).all(|(part, seen)| seen.is_met_in_time(part))
            }
            (Condition::Any { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).any(|(part, seen)| seen.is_met_in_time(part))
            }
            _ => self.is_met(condition),
        }
    }

    /// Whether the condition can still come about, if signals come only to the execution itself
    /// and to waitpoints of which `open` says so.
    pub fn can_be_met(&self, condition: &Condition, open: &dyn Fn(&str) -> bool) -> bool {
        match (condition, self) {
            _ if self.is_met(condition) => true,
            (Condition::Operator | Condition::Timeout, _) => true,
            (Condition::Signal { waitpoint, .. }, _) => waitpoint.as_deref().is_none_or(open),
            (Condition::Approval { waitpoint, .. }, _) => open(waitpoint),
            (Condition::Count { n, waitpoints, .. }, Self::Different(seen))
                if matches!(condition, Condition::Count { distinct: Distinct::Waitpoints, .. }) =>
            {
                let mut keys: BTreeSet<&str> =
                    waitpoints.iter().map(String::as_str).filter(|key| open(key)).collect();
                keys.extend(seen.iter().map(String::as_str));
                keys.len() >= *n as usize
            }
            (Condition::Count { waitpoints, .. }, _) => waitpoints.iter().any(|key| open(key)),
            (Condition::All { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).all(|(part, seen)| seen.can_be_met(part, open))
            }
            (Condition::Any { of }, Self::Parts(parts)) => {
                of.iter().zip(parts).any(|(part, seen)| seen.can_be_met(part, open))
            }
            _ => false,
        }
    }

    /// What is still waited for, in words: `1 of 3 approvals: waiting for finance, legal`.
    pub fn tell(&self, condition: &Condition) -> String {
        match (condition, self) {
            _ if self.is_met(condition) => "nothing more".to_owned(),
            (Condition::Signal { waitpoint, name }, _) => {
                let what = match name {
                    Some(name) => format!("the signal `{name}`"),
                    None => "a signal".to_owned(),
                };
                match waitpoint {
                    Some(key) => format!("{what} at {key}"),
                    None => what,
                }
            }
            (Condition::Approval { waitpoint, approvers, role, .. }, Self::Verdicts(all)) => {
                let by = role.as_ref().map(|role| format!(" by {role}")).unwrap_or_default();
                let noun = if *approvers == 1 { "approval" } else { "approvals" };
                let has = all.values().filter(|approves| **approves).count();
                format!("{has} of {approvers} {noun}{by}: waiting for {waitpoint}")
            }
            (Condition::Count { n, distinct, waitpoints, name }, seen) => {
                let what = match (name, distinct) {
                    (Some(name), _) => format!("`{name}`"),
                    (None, Distinct::Waitpoints) => "waitpoints".to_owned(),
                    (None, Distinct::Signals) => "signals".to_owned(),
                    (None, Distinct::Sources) => "senders".to_owned(),
                };
                let done = |key: &str| matches!(seen, Self::Different(seen) if seen.contains(key));
                let mut open = once_each(waitpoints);
                open.retain(|key| *distinct != Distinct::Waitpoints || !done(key));
                format!("{} of {n} {what}: waiting for {}", seen.count(), listed(&open, ", "))
            }
            (Condition::All { of }, Self::Parts(parts)) => {
                tell_approvals(of, parts).unwrap_or_else(|| tell_parts("all of", of, parts))
            }
            (Condition::Any { of }, Self::Parts(parts)) => tell_parts("one of", of, parts),
            (Condition::Timeout, _) => "its time".to_owned(),
            _ => "an operator".to_owned(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Seen(seen) => usize::from(*seen),
            Self::Times(times) => *times as usize,
            Self::Different(seen) => seen.len(),
            Self::Verdicts(all) => all.len(),
            Self::Parts(_) | Self::Apart => 0,
        }
    }
}

fn speaks_for(roles: Option<&[String]>, wanted: Option<&String>) -> bool {
    wanted.is_none_or(|wanted| roles.is_none_or(|roles| roles.contains(wanted)))
}

fn counted(new: bool) -> Offered {
    if new { Offered::Counted } else { Offered::NothingNew }
}

/// Whether enough approved, or enough refused.
fn settled(verdicts: &BTreeMap<String, bool>, approvers: u32, rejections: u32) -> bool {
    let approved = verdicts.values().filter(|approves| **approves).count();
    let rejected = verdicts.len() - approved;
    approved >= approvers as usize || (rejections > 0 && rejected >= rejections as usize)
}

/// Several approvals by one person each read as one sentence.
fn tell_approvals(of: &[Condition], parts: &[Tally]) -> Option<String> {
    let mut open = Vec::new();
    for (part, seen) in of.iter().zip(parts) {
        match part {
            Condition::Approval { waitpoint, approvers: 1, role: None, .. } => {
                if !seen.is_met(part) {
                    open.push(waitpoint.as_str());
                }
            }
            _ => return None,
        }
    }
    let (has, all) = (of.len() - open.len(), of.len());
    (all > 1).then(|| format!("{has} of {all} approvals: waiting for {}", listed(&open, ", ")))
}

fn tell_parts(all_or_one: &str, of: &[Condition], parts: &[Tally]) -> String {
    let open = of.iter().zip(parts).filter(|(part, seen)| !seen.is_met(part));
    let open: Vec<String> = open.map(|(part, seen)| seen.tell(part)).collect();
    match &open[..] {
        [one] => one.clone(),
        _ => format!("{all_or_one} ({})", listed(&open, "; ")),
    }
}

/// How many of a kind a sentence names; the rest is counted.
const NAMED: usize = 10;

fn listed<S: AsRef<str>>(all: &[S], separator: &str) -> String {
    let named: Vec<_> = all.iter().take(NAMED).map(AsRef::as_ref).collect();
    let named = named.join(separator);
    match all.len().checked_sub(NAMED) {
        None | Some(0) => named,
        Some(more) => format!("{named}{separator}and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer<'a>(waitpoint: &'a str, name: &'a str, source: &'a str) -> Offer<'a> {
        Offer { waitpoint: Some(waitpoint), name, source, approves: None, roles: Some(&[]) }
    }

    fn verdict<'a>(waitpoint: &'a str, source: &'a str, approves: bool) -> Offer<'a> {
        let name = if approves { "approved" } else { "rejected" };
        let waitpoint = Some(waitpoint);
        Offer { waitpoint, name, source, approves: Some(approves), roles: Some(&[]) }
    }

    #[test]
    fn two_signals_of_one_sender_count_once_when_senders_are_counted() {
        let condition = Condition::count(2, Distinct::Sources, ["a", "b"]).named("yes");
        let mut seen = Tally::new(&condition);
        assert_eq!(seen.offer(&condition, offer("a", "yes", "ann")), Offered::Counted);
        assert_eq!(seen.offer(&condition, offer("b", "yes", "ann")), Offered::NothingNew);
        assert_eq!(seen.offer(&condition, offer("b", "no", "bob")), Offered::OtherName);
        assert_eq!(seen.offer(&condition, offer("c", "yes", "bob")), Offered::NotMeant);
        assert!(!seen.is_met(&condition));
        assert_eq!(seen.offer(&condition, offer("b", "yes", "bob")), Offered::Counted);
        assert!(seen.is_met(&condition));
    }

    #[test]
    fn each_count_keeps_its_own_tally() {
        let count = |key: &str| Condition::count(1, Distinct::Signals, [key]);
        let condition = Condition::all([Condition::all([count("a")]), count("b")]);
        let mut seen = Tally::new(&condition);
        seen.offer(&condition, offer("a", "x", "s"));
        seen.offer(&condition, offer("a", "x", "s"));
        assert!(!seen.is_met(&condition));
        seen.offer(&condition, offer("b", "x", "s"));
        assert!(seen.is_met(&condition));
    }

    #[test]
    fn an_approval_takes_the_last_word_of_each_person_until_it_is_settled() {
        let condition =
            Condition::Approval { waitpoint: "a".into(), approvers: 2, rejections: 2, role: None };
        let mut seen = Tally::new(&condition);
        assert_eq!(seen.offer(&condition, verdict("a", "ann", false)), Offered::Counted);
        assert_eq!(seen.offer(&condition, verdict("a", "ann", true)), Offered::Counted);
        assert_eq!(seen.offer(&condition, verdict("a", "ann", true)), Offered::NothingNew);
        assert_eq!(seen.offer(&condition, offer("a", "approved", "bob")), Offered::OtherName);
        assert!(!seen.is_met(&condition));
        assert_eq!(seen.offer(&condition, verdict("a", "bob", true)), Offered::Counted);
        assert!(seen.is_met(&condition));
        assert_eq!(seen.offer(&condition, verdict("a", "ann", false)), Offered::NothingNew);
        assert!(seen.is_met(&condition));
    }

    #[test]
    fn one_rejection_settles_an_approval_unless_it_says_otherwise() {
        let condition = Condition::approval("a", 3);
        let mut seen = Tally::new(&condition);
        seen.offer(&condition, verdict("a", "ann", false));
        assert!(seen.is_met(&condition));
        let never =
            Condition::Approval { waitpoint: "a".into(), approvers: 1, rejections: 0, role: None };
        let mut seen = Tally::new(&never);
        seen.offer(&never, verdict("a", "ann", false));
        assert!(!seen.is_met(&never));
    }

    #[test]
    fn only_people_of_the_role_count_when_one_is_asked_for() {
        let condition = Condition::approval("a", 1).by_role("cfo");
        let mut seen = Tally::new(&condition);
        let roles = ["cto".to_owned()];
        let cto = Offer { roles: Some(&roles), ..verdict("a", "ann", true) };
        assert_eq!(seen.offer(&condition, cto), Offered::OtherRole);
        assert!(!seen.is_met(&condition));
        let bearer = Offer { roles: None, ..verdict("a", "token", true) };
        assert_eq!(seen.offer(&condition, bearer), Offered::Counted);
        assert!(seen.is_met(&condition));
    }

    #[test]
    fn what_is_missing_is_told_in_words() {
        let three =
            Condition::all(["finance", "legal", "ops"].map(|at| Condition::approval(at, 1)));
        let mut seen = Tally::new(&three);
        seen.offer(&three, verdict("ops", "olga", true));
        assert_eq!(seen.tell(&three), "1 of 3 approvals: waiting for finance, legal");

        let condition = Condition::any([
            Condition::count(2, Distinct::Waitpoints, ["finance", "legal", "ops"]),
            Condition::at("boss").named("go"),
            Condition::approval("cto", 1).by_role("cto"),
        ]);
        let mut seen = Tally::new(&condition);
        seen.offer(&condition, offer("ops", "go", "o"));
        assert_eq!(
            seen.tell(&condition),
            "one of (1 of 2 waitpoints: waiting for finance, legal; the signal `go` at boss; \
             0 of 1 approval by cto: waiting for cto)"
        );
    }

    #[test]
    fn what_is_missing_is_told_in_few_words() {
        let keys = (1..=200).map(|number| format!("w{number:03}"));
        let all = Condition::all(keys.clone().map(Condition::at));
        let told = Tally::new(&all).tell(&all);
        assert!(told.ends_with("a signal at w010; and 190 more)"), "{told}");
        let count = Condition::count(200, Distinct::Waitpoints, keys);
        let mut seen = Tally::new(&count);
        seen.offer(&count, offer("w003", "x", "s"));
        assert_eq!(
            seen.tell(&count),
            "1 of 200 waitpoints: waiting for w001, w002, w004, w005, w006, w007, w008, w009, \
             w010, w011, and 189 more"
        );
        let twice = Condition::count(2, Distinct::Waitpoints, ["a", "b", "a"]);
        assert_eq!(Tally::new(&twice).tell(&twice), "0 of 2 waitpoints: waiting for a, b");
    }

    #[test]
    fn no_signal_stands_for_an_operator_or_for_time() {
        for condition in [Condition::Operator, Condition::Timeout] {
            let mut seen = Tally::new(&condition);
            assert_eq!(seen.offer(&condition, offer("a", "operator", "s")), Offered::NotMeant);
            assert!(!seen.is_met(&condition) && seen.can_be_met(&condition, &|_| false));
        }
    }

    #[test]
    fn a_condition_whose_waitpoints_have_closed_can_not_be_met() {
        let condition = Condition::all([
            Condition::at("a"),
            Condition::count(2, Distinct::Waitpoints, ["b", "c", "d"]),
        ]);
        let mut seen = Tally::new(&condition);
        let open = |closed: &'static str| move |key: &str| !closed.contains(key);
        assert!(seen.can_be_met(&condition, &open("c")));
        assert!(!seen.can_be_met(&condition, &open("cd")));
        assert!(!seen.can_be_met(&condition, &open("a")));
        seen.offer(&condition, offer("a", "x", "s"));
        seen.offer(&condition, offer("d", "x", "s"));
        assert!(seen.can_be_met(&condition, &open("acd")));
        assert!(!seen.can_be_met(&condition, &open("abcd")));
    }
}
