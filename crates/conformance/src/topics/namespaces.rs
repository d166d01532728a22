//! Nothing reads or acts across namespaces.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

const THERE: &str = "there";

fn submit_there(new: NewExecution) -> Submit {
    Submit { namespace: THERE.into(), executions: vec![new] }
}

fn get_there(execution: ExecutionId) -> GetExecution {
    GetExecution { namespace: THERE.into(), execution }
}

fn claim_there() -> Claim {
    Claim { namespace: THERE.into(), ..up_to(1000) }
}

pub fn the_same_id_in_two_namespaces_is_two_executions(lab: &mut Lab) {
    lab.submit(work().id(id(1)));
    let made = lab.ok(submit_there(NewExecution::new("other").id(id(1)))).executions[0];
    assert!(!made.is_duplicate());
    lab.ok(Cancel::new(id(1)));
    let other = lab.see(get_there(id(1)));
    assert_eq!((other.kind.as_str(), other.status), ("other", Status::Waiting));
    let lease = lab.claims(claim_there()).remove(0);
    assert_eq!(lease.namespace, THERE);
    assert_eq!(lab.status(id(1)), Status::Cancelled);
}

pub fn a_namespace_is_made_by_its_use(lab: &mut Lab) {
    let listed = |lab: &mut Lab| {
        let all = ListNamespaces { after: None, limit: 100 };
        let views = lab.see(all).namespaces;
        views.into_iter().map(|one| one.namespace).collect::<Vec<_>>()
    };
    assert_eq!(listed(lab), names([]));
    lab.ok(submit_there(work()));
    lab.ok(PutNamespace { namespace: "b".into(), defaults: Defaults::default() });
    lab.ok(PutLane { namespace: "c".into(), ..cap("x", 1) });
    lab.ok(RegisterWorker { namespace: "a".into(), ..RegisterWorker::new("pool", "i") });
    assert_eq!(listed(lab), names(["a", "b", "c", THERE]));
    let page = lab.see(ListNamespaces { after: Some("b".into()), limit: 1 });
    assert_eq!((page.namespaces[0].namespace.as_str(), page.next.as_deref()), ("c", Some("c")));
}

pub fn claims_reads_and_counts_stay_within(lab: &mut Lab) {
    let here = lab.submit(work());
    let there = lab.ok(submit_there(work())).executions[0].id();
    assert_eq!(lab.claimed_ids(claim_there()), [there]);
    assert_eq!(lab.claimed_ids(up_to(1000)), [here]);
    assert_eq!(lab.ask(get(there)).unwrap_err().code(), Code::NotFound);
    assert_eq!(lab.list(ListExecutions::default()).len(), 1);
    let list = ListExecutions { namespace: THERE.into(), ..ListExecutions::default() };
    assert_eq!(lab.list(list)[0].id, there);
    assert_eq!(lab.counts().total(), 1);
    let lost = lab.refused(Cancel { namespace: THERE.into(), ..Cancel::new(here) });
    assert_eq!(lost.code(), Code::NotFound);
}

pub fn lanes_of_the_same_name_are_two_lanes(lab: &mut Lab) {
    lab.submit(work());
    let there = lab.ok(submit_there(work())).executions[0].id();
    lab.ok(pause("default"));
    lab.ok(cap("default", 1));
    assert_eq!(lab.claimed_ids(claim_there()), [there]);
    let theirs = lab.see(ListLanes { namespace: THERE.into(), ..lanes() }).lanes.remove(0);
    assert_eq!((theirs.mode, theirs.max_active), (LaneMode::Open, None));
}

pub fn kinds_of_the_same_name_do_not_mix(lab: &mut Lab) {
    lab.submit(work().capability("gpu"));
    let there = lab.ok(submit_there(work())).executions[0].id();
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.claimed_ids(claim_there()), [there]);
    let kinds = ListExecutions { kind: Some("work".into()), ..ListExecutions::default() };
    assert_eq!(lab.list(kinds).len(), 1);
}

pub fn defaults_of_a_namespace_hold_for_later_submissions_there(lab: &mut Lab) {
    let before = lab.ok(submit_there(work())).executions[0].id();
    let defaults = Defaults { priority: Some(7), policy: policy(json!({ "max_replays": 3 })) };
    lab.ok(PutNamespace { namespace: THERE.into(), defaults: defaults.clone() });
    let after = lab.ok(submit_there(work())).executions[0].id();
    let here = lab.submit(work());
    let read = |view: ExecutionView| (view.priority, view.policy.max_replays);
    assert_eq!(read(lab.see(get_there(before))), (1000, None));
    assert_eq!(read(lab.see(get_there(after))), (7, Some(3)));
    assert_eq!(read(lab.get(here)), (1000, None));
    lab.reopen();
    let all = lab.see(ListNamespaces { after: None, limit: 100 }).namespaces;
    assert_eq!(all.iter().find(|one| one.namespace == THERE).unwrap().defaults, defaults);
}

pub fn the_clock_serves_every_namespace(lab: &mut Lab) {
    let there = lab.ok(submit_there(work().delay(secs(5)))).executions[0].id();
    lab.submit(work().delay(secs(5)));
    lab.advance(secs(5));
    assert_eq!(lab.see(get_there(there)).status, Status::Waiting);
    assert_eq!(lab.counts().of(Status::Waiting), 1);
    let lease = lab.claims(claim_there()).remove(0);
    let expired = ListExpiredLeases { namespace: THERE.into(), ..expired_leases() };
    lab.pass(secs(30));
    assert_eq!(lab.see(expired).leases[0].execution, lease.id());
    assert_eq!(lab.see(expired_leases()).leases, []);
}
