//! Random conditions, random signals in random order: the engine and an evaluator of its own must
//! agree, after every single signal, on what counted, what is met, what is missing, and what the
//! execution does.

mod case;
mod draw;
mod model;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everloom_core::*;

use crate::walk::random::Random;
use crate::{Lab, Place};
use case::Case;
use draw::{draw_came, draw_condition};
use model::{Came, Outside};

/// How many cases share a store: a long log would be read again and again.
const CASES_PER_STORE: u64 = 100;

/// Compares the engine on a store with the evaluator in so many cases, or as many as
/// `EVERLOOM_CONDITION_CASES` says, from the seed `EVERLOOM_SEED` on. A case that goes wrong is
/// tried again with flatter conditions, and told with what repeats it.
pub fn conditions_are_what_an_evaluator_says(open: &dyn Fn() -> Box<dyn Place>, cases: u64) {
    let (first, cases) = range(cases);
    let mut lab = Lab::new(open());
    for seed in first..first + cases {
        if seed % CASES_PER_STORE == 0 {
            lab = Lab::new(open());
        }
        let deepest = Limits::CONDITION_DEPTH;
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| Case::run(&mut lab, seed, deepest)))
        else {
            continue;
        };
        for depth in 1..deepest {
            let mut fresh = Lab::new(open());
            let flatter = catch_unwind(AssertUnwindSafe(|| Case::run(&mut fresh, seed, depth)));
            if let Err(panic) = flatter {
                eprintln!("seed {seed} goes wrong with a depth of {depth} too");
                resume_unwind(panic);
            }
        }
        eprintln!("repeat it with EVERLOOM_SEED={seed} EVERLOOM_CONDITION_CASES=1");
        resume_unwind(panic);
    }
}

/// Compares what is kept of signals with the evaluator, without any engine.
pub fn tallies_are_what_an_evaluator_says(cases: u64) {
    let (first, cases) = range(cases);
    for seed in first..first + cases {
        let run = || compare_tally(&mut Random::new(seed));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("repeat it with EVERLOOM_SEED={seed} EVERLOOM_CONDITION_CASES=1");
            resume_unwind(panic);
        }
    }
}

fn range(cases: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("EVERLOOM_CONDITION_CASES").unwrap_or(cases);
    (number("EVERLOOM_SEED").unwrap_or(1), cases)
}

fn compare_tally(random: &mut Random) {
    let depth = 1 + random.index(Limits::CONDITION_DEPTH);
    let condition = draw_condition(random, depth);
    let mut tally = Tally::new(&condition);
    let mut all: Vec<Came> = Vec::new();
    for _ in 0..random.below(20) {
        let new = draw_came(random);
        let offered = tally.offer(&condition, new.offer());
        let expected = model::offered(&condition, &all, &new);
        all.push(new);
        assert_eq!(offered, expected, "{condition:?} {all:#?}");
        let met = model::is_met(&condition, &all, Outside::NOTHING);
        assert_eq!(tally.is_met(&condition), met, "{condition:?} {all:#?}");
        let words = tally.tell(&condition);
        assert_eq!(keys_in(&words), model::missing(&condition, &all), "{condition:?} {all:#?}");
    }
    let open = random.some_of(&draw::KEYS);
    let hope = tally.can_be_met(&condition, &|key| open.iter().any(|open| open == key));
    let best = [&all[..], &draw::everything(&open)].concat();
    assert_eq!(
        hope,
        model::is_met(&condition, &best, Outside::ALL),
        "{open:?} {condition:?} {all:#?}"
    );
}

/// The keys of waitpoints that a sentence names.
fn keys_in(sentence: &str) -> BTreeSet<String> {
    let words = sentence.split(|char: char| !char.is_ascii_alphanumeric());
    words.filter(|word| draw::KEYS.contains(word)).map(str::to_owned).collect()
}
