//! What is kept of signals means what conditions say, without any store.

#[test]
fn tallies_are_what_an_evaluator_says() {
    everloom_conformance::conditions::tallies_are_what_an_evaluator_says(10_000);
}
