//! Who gets which work.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::sabotage::{How, Sabotage};

fn serving<const N: usize>(kinds: [&str; N]) -> Claim {
    Claim { kinds: names(kinds), ..up_to(1000) }
}

fn having<const N: usize>(capabilities: [&str; N]) -> Claim {
    Claim { capabilities: names(capabilities), ..up_to(1000) }
}

pub fn a_worker_gets_only_the_kinds_it_serves(lab: &mut Lab) {
    let mail = lab.submit(NewExecution::new("mail"));
    let fax = lab.submit(NewExecution::new("fax"));
    lab.submit(NewExecution::new("mailer"));
    assert_eq!(lab.claimed_ids(serving(["mail"])), [mail]);
    assert_eq!(lab.claimed_ids(serving(["phone", "fax"])), [fax]);
}

pub fn a_worker_that_names_no_kinds_serves_them_all(lab: &mut Lab) {
    let ids = ["a", "b", "c"].map(|kind| lab.submit(NewExecution::new(kind)));
    assert_eq!(lab.claimed_ids(up_to(1000)), ids);
}

pub fn a_worker_needs_every_capability_that_is_required(lab: &mut Lab) {
    let both = lab.submit(work().capability("gpu").capability("eu"));
    for lacking in [having([]), having(["gpu"]), having(["eu", "gpu2", "GPU"])] {
        assert!(lab.ok(lacking).is_empty());
    }
    assert_eq!(lab.claimed_ids(having(["disk", "eu", "gpu"])), [both]);
}

pub fn the_order_and_number_of_capability_tokens_does_not_matter(lab: &mut Lab) {
    let one = lab.submit(work().capability("a").capability("b"));
    let two = lab.submit(work().capability("b").capability("a").capability("b"));
    assert_eq!(lab.get(two).capabilities, names(["a", "b"]));
    assert_eq!(lab.claimed_ids(having(["b", "a"])), [one, two]);
}

pub fn order_holds_across_all_the_kinds_a_worker_serves(lab: &mut Lab) {
    let new = |n: usize| {
        let kind = ["a", "b", "c"][n % 3];
        let new = NewExecution::new(kind).priority(i32::try_from(n % 4).unwrap());
        if n.is_multiple_of(2) { new.capability("x") } else { new }
    };
    let ids = lab.submit_all((0..24).map(new));
    let mut order: Vec<_> = (0..24).collect();
    order.sort_by_key(|n| std::cmp::Reverse(n % 4));
    let expected: Vec<_> = order.into_iter().map(|n| ids[n]).collect();
    assert_eq!(lab.claimed_ids(having(["x"])), expected);
}

pub fn ten_thousand_better_placed_of_another_kind_hide_nothing(lab: &mut Lab) {
    for _ in 0..10 {
        lab.submit_all((0..1000).map(|_| NewExecution::new("other").priority(9000)));
    }
    let mine = lab.submit(NewExecution::new("mine").priority(0));
    assert_eq!(lab.claimed_ids(serving(["mine"])), [mine]);
}

pub fn ten_thousand_better_placed_beyond_its_capabilities_hide_nothing(lab: &mut Lab) {
    let token = |n: u32| format!("token-{}", n % 50);
    for _ in 0..10 {
        lab.submit_all((0..1000).map(|n| work().priority(9000).capability(token(n))));
    }
    let mine = lab.submit(work().priority(0));
    assert_eq!(lab.claimed_ids(having(["gpu"])), [mine]);
}

pub fn a_kind_that_appears_later_reaches_workers_that_asked_before(lab: &mut Lab) {
    lab.submit(NewExecution::new("early"));
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
    let late = lab.submit(NewExecution::new("late"));
    assert_eq!(lab.claimed_ids(up_to(1000)), [late]);
}

pub fn a_kind_whose_submission_was_rolled_back_can_be_submitted(lab: &mut Lab) {
    for how in [How::Error, How::Panic] {
        let kind = format!("kind-{how:?}");
        let mut bad = Sabotage::new(submit([NewExecution::new(&kind)]), lab.seed(), how);
        let mut good = lab.call(submit([NewExecution::new(&kind)]));
        lab.batch(&mut [&mut bad, &mut good]);
        let id = good.into_answer().unwrap().executions[0].id();
        assert_eq!(lab.claimed_ids(up_to(1000)), [id]);
        assert_eq!(lab.get(id).kind, kind);
    }
}

pub fn routes_survive_a_restart(lab: &mut Lab) {
    let gpu = lab.submit(work().capability("gpu"));
    lab.reopen();
    assert!(lab.ok(up_to(1000)).is_empty());
    let again = lab.submit(work().capability("gpu"));
    assert_eq!(lab.claimed_ids(having(["gpu"])), [gpu, again]);
}
