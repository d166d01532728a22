//! Commands about streams that share a batch, and how often they go to the database.

use everloom_core::{
    Append, Claim, CloseStream, FrameMode, LeaseToken, Liveness, NewExecution, NewFrame, Payload,
    Policy, RowId, Source, Submit,
};

use super::fake::FakePg;
use super::loads::{apply, apply_all};

/// Leases of executions that keep so many durable frames.
fn leases(store: &mut FakePg, count: usize, retention: u64) -> Vec<LeaseToken> {
    let policy = Policy { stream_retention: Some(retention), ..Policy::default() };
    let new = NewExecution { policy, ..NewExecution::new("kind") };
    apply(store, Submit { namespace: "default".into(), executions: vec![new; count] });
    let claim = Claim { max: count, ..Claim::new("w") };
    apply(store, claim).leases.into_iter().map(|leased| leased.lease).collect()
}

fn append(lease: &LeaseToken, frames: &[NewFrame]) -> Append {
    let (namespace, frames) = ("default".into(), frames.to_vec());
    Append { namespace, lease: lease.clone(), frames }
}

fn durable() -> NewFrame {
    NewFrame::new(Payload::bytes("durable"))
}

fn live() -> NewFrame {
    let keep = Liveness { floor: 1, ceiling: 1, ..Liveness::default() };
    NewFrame { keep: FrameMode::Live(keep), ..durable() }
}

fn patch() -> NewFrame {
    NewFrame::patch(&serde_json::json!({"a": 1}))
}

#[test]
fn fifty_appends_to_streams_need_one_load_and_one_commit() {
    let mut store = FakePg::default();
    let leases = leases(&mut store, 50, 2);
    let frames = [durable(), live(), patch()];
    for time in 1..10 {
        let appends = leases.iter().map(|lease| append(lease, &frames));
        let (appended, counts) = apply_all(&mut store, appends);
        assert!(appended.iter().all(|one| (one.last, one.kept) == (3 * time, 2)), "{appended:?}");
        assert_eq!(counts.commits, 1);
        // What they trim and what their summaries were is not expected at once.
        let most = if time == 2 { 2 } else { 1 };
        assert!(counts.loads <= most, "{counts:?} the {time}. time");
    }
}

#[test]
fn a_summary_is_asked_for_together_with_its_stream() {
    let mut store = FakePg::default();
    let leases = leases(&mut store, 5, 100);
    let appends = || leases.iter().map(|lease| append(lease, &[patch()]));
    store.elsewhere(|store| apply_all(store, appends()));
    let (appended, counts) = store.elsewhere(|store| apply_all(store, appends()));
    assert!(appended.iter().all(|one| one.summary_version == 2), "{appended:?}");
    // The namespace, the execution, the stream.
    assert!(counts.loads <= 3, "{counts:?}");
}

#[test]
fn appends_of_one_batch_to_one_stream_see_each_other() {
    let mut store = FakePg::default();
    let lease = leases(&mut store, 1, 3).remove(0);
    let appends = |count: usize| vec![append(&lease, &[durable(), live()]); count];
    let (before, _) = apply_all(&mut store, appends(2));
    let (after, counts) = apply_all(&mut store, appends(20));
    assert!(counts.loads <= 2, "{counts:?}");
    let lasts: Vec<_> = before.iter().chain(&after).map(|one| one.last).collect();
    assert_eq!(lasts, (1..=22).map(|number| 2 * number).collect::<Vec<_>>());
    assert!(after[1..].iter().all(|one| one.kept == 3), "{after:?}");
    let mut read = store.read().unwrap();
    let kept = read.chunks(RowId(1), 0, 100, true, 100, 10_000).unwrap();
    let kept: Vec<_> = kept.iter().map(|chunk| (chunk.first, chunk.live)).collect();
    assert_eq!(kept, [(39, false), (41, false), (43, false), (44, true)]);
}

#[test]
fn a_stream_that_is_closed_twice_in_a_batch_is_closed_once() {
    let mut store = FakePg::default();
    let lease = leases(&mut store, 1, 3).remove(0);
    let close = CloseStream { namespace: "default".into(), lease: lease.clone() };
    let (closed, counts) = apply_all(&mut store, [close.clone(), close]);
    assert_eq!((closed[0], counts.commits), (closed[1], 1));
    let stream = store.read().unwrap().stream(RowId(1)).unwrap().expect("it was closed");
    assert_eq!(stream.state.closed, Some(closed[0]));
}
