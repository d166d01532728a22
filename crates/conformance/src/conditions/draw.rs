//! Draws conditions and signals: few places, names and people, so that they often meet.

use everloom_core::*;

use super::model::Came;
use crate::walk::random::Random;

/// What waitpoints are called; no word of a sentence is.
pub(super) const KEYS: [&str; 4] = ["wp1", "wp2", "wp3", "wp4"];
const NAMES: [&str; 3] = ["go", "stop", "approved"];
const PEOPLE: [&str; 4] = ["ann", "bob", "cid", "operator"];
const ROLES: [&str; 2] = ["cfo", "cto"];

/// More than any part of a drawn condition waits for.
const ENOUGH: usize = 5;

pub(super) fn draw_condition(random: &mut Random, depth: usize) -> Condition {
    if depth == 1 || random.percent(if depth == 4 { 15 } else { 40 }) {
        return draw_leaf(random);
    }
    let parts = 1 + random.below(3);
    let of: Vec<_> = (0..parts).map(|_| draw_condition(random, depth - 1)).collect();
    match random.percent(60) {
        true => Condition::All { of },
        false => Condition::Any { of },
    }
}

fn draw_leaf(random: &mut Random) -> Condition {
    let key = random.one_of(&KEYS).to_owned();
    let name = random.percent(40).then(|| random.one_of(&NAMES).to_owned());
    match random.below(100) {
        0..=24 => Condition::Signal { waitpoint: Some(key), name },
        25..=34 => Condition::Signal { waitpoint: None, name },
        35..=59 => Condition::Approval {
            waitpoint: key,
            approvers: 1 + number(random, 3),
            rejections: number(random, 3),
            role: random.percent(40).then(|| random.one_of(&ROLES).to_owned()),
        },
        60..=95 => draw_count(random, name),
        96..=97 => Condition::Operator,
        _ => Condition::Timeout,
    }
}

fn draw_count(random: &mut Random, name: Option<String>) -> Condition {
    use Distinct::{Signals, Sources, Waitpoints};
    let distinct = random.one_of(&[Waitpoints, Signals, Sources]);
    let waitpoints: Vec<_> =
        (0..1 + random.below(4)).map(|_| random.one_of(&KEYS).to_owned()).collect();
    let mut different = waitpoints.clone();
    different.sort_unstable();
    different.dedup();
    let most = if distinct == Waitpoints { different.len() } else { 3 };
    let n = 1 + number(random, most as u64);
    Condition::Count { n, distinct, waitpoints, name }
}

fn number(random: &mut Random, below: u64) -> u32 {
    u32::try_from(random.below(below)).unwrap_or(0)
}

/// Draws a signal; where it goes is not known yet to a signal that is sent.
pub(super) fn draw_came(random: &mut Random) -> Came {
    let verdict = random.percent(45).then(|| random.percent(65));
    let at = random.percent(85).then(|| random.one_of(&KEYS).to_owned());
    let verdict = verdict.filter(|_| at.is_some());
    Came {
        name: name_of(verdict, random.one_of(&NAMES)),
        source: random.one_of(&PEOPLE).to_owned(),
        roles: match verdict {
            Some(_) if random.percent(20) => None,
            Some(_) => Some(random.some_of(&ROLES)),
            None => Some(vec![]),
        },
        verdict,
        at,
    }
}

fn name_of(verdict: Option<bool>, otherwise: &str) -> String {
    match verdict {
        Some(true) => "approved",
        Some(false) => "rejected",
        None => otherwise,
    }
    .to_owned()
}

/// All that could come where it is open, from people nobody has heard of.
pub(super) fn everything(open: &[String]) -> Vec<Came> {
    let places = open.iter().map(|key| Some(key.clone())).chain([None]);
    let sort = |at: Option<String>| {
        let plain = NAMES.map(|name| (name, None));
        let yes = [("approved", Some(true))].into_iter().filter(|_| at.is_some());
        let sorts: Vec<_> = plain.into_iter().chain(yes).collect();
        let one = move |(person, (name, verdict)): (usize, (&str, Option<bool>))| Came {
            at: at.clone(),
            name: name.to_owned(),
            source: format!("new{person}"),
            verdict,
            roles: None,
        };
        let people = (0..ENOUGH)
            .flat_map(move |person| sorts.clone().into_iter().map(move |sort| (person, sort)));
        people.map(one).collect::<Vec<_>>()
    };
    places.flat_map(sort).collect()
}

/// Where a signal goes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    Execution,
    /// To the open waitpoint of that key.
    Key(&'static str),
    /// To that waitpoint, in the order they were created.
    Id(usize),
    /// The same, with its token.
    Token(usize),
}

/// What somebody is about to do.
pub(super) struct Deed {
    pub(super) aim: Aim,
    pub(super) came: Came,
    pub(super) key: Option<&'static str>,
}

/// Draws what somebody does who knows of so many waitpoints.
pub(super) fn draw_aim(random: &mut Random, doors: usize) -> Deed {
    let mut came = draw_came(random);
    let aim = match random.below(100) {
        _ if came.at.is_none() => Aim::Execution,
        0..=39 if doors > 0 => Aim::Token(random.index(doors)),
        40..=49 if doors > 0 => Aim::Id(random.index(doors)),
        _ => Aim::Key(random.one_of(&KEYS)),
    };
    if came.roles.is_none() {
        came.roles = Some(ROLES.map(str::to_owned).into());
    }
    let key = random.percent(15).then(|| random.one_of(&["k1", "k2", "k3"]));
    Deed { aim, came, key }
}
