//! A long random life, of which every step keeps every promise.

use crate::Lab;
use crate::walk::Walk;

pub fn a_random_walk_keeps_every_promise_and_takes_every_transition(lab: &mut Lab) {
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|text| text.parse().ok());
    let mut walk = Walk::new(lab, seed.unwrap_or(1));
    walk.take_steps(3000);
    walk.take_steps_until_every_transition_was_taken(30_000);
    walk.end_everything();
}
