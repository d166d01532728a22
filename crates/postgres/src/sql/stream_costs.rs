//! What an append asks of the server, in blocks it looks at, however many frames went before.

use everloom_core::*;

use super::plans::{drop_schema, link, looked_at};
use super::{chunks, streams};
use crate::link::Link;
use crate::options::Options;
use crate::store::PgStore;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
}

fn apply_all<C: Command>(store: &mut PgStore, commands: Vec<C>) -> Vec<C::Output> {
    let calls = commands.into_iter().map(|command| Call::new(command, Seed::random()));
    let mut calls: Vec<_> = calls.collect();
    let mut jobs: Vec<_> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    run_batch(store, &mut jobs, &Settings::default(), &Stopped);
    calls.into_iter().map(|call| call.into_answer().unwrap()).collect()
}

fn apply<C: Command>(store: &mut PgStore, command: C) -> C::Output {
    apply_all(store, vec![command]).remove(0)
}

/// An execution that puts out frames, and a connection beside it.
struct Streaming {
    store: PgStore,
    link: Link,
    lease: LeaseToken,
    last: u64,
}

impl Streaming {
    fn new(name: &str, retention: u64) -> Self {
        let mut link = link(name);
        // What is left behind counts until someone cleans up.
        link.script("ALTER TABLE chunks SET (autovacuum_enabled = off)").unwrap();
        let mut store = PgStore::open(&url(name), &Options::default()).unwrap();
        let policy = Policy { stream_retention: Some(retention), ..Policy::default() };
        let executions = vec![NewExecution::new("talk").policy(policy); 2];
        apply(&mut store, Submit { namespace: "default".into(), executions });
        let ttl = std::time::Duration::from_secs(3600);
        let claim = Claim { max: 2, lease_ttl: ttl, ..Claim::new("w") };
        let mut leases = apply(&mut store, claim).leases;
        // Another stream lies behind it.
        let other = leases.remove(1).lease;
        apply(&mut store, Append::new(other, vec![frame()]));
        Self { store, link, lease: leases.remove(0).lease, last: 0 }
    }

    /// Appends frames one by one up to that number.
    fn grow(&mut self, last: u64) {
        while self.last < last {
            let one = Append::new(self.lease.clone(), vec![frame()]);
            let some = (last - self.last).min(500) as usize;
            self.last = apply_all(&mut self.store, vec![one; some])[some - 1].last;
        }
    }

    /// The blocks that the statements of an append look at, and those of a read from the oldest frame
    /// on; the append drops that frame if it is to.
    fn blocks(&mut self, drops: bool) -> (u64, u64) {
        let row = self.link.script("SELECT min(id) FROM executions").unwrap().unwrap();
        let oldest = format!("SELECT min(first) FROM chunks WHERE execution = {row}");
        let oldest = self.link.script(&oldest).unwrap().unwrap();
        let next = self.last + 1;
        let mut asked = vec![
            (streams::OF, format!("('{{}}', '{{}}', '{{{row}}}')")),
            (chunks::ADD, format!("(ARRAY[({row}, false, {next}, {next}, 'x', 'x')::chunks])")),
            (streams::PUT, format!("('{{{row}}}', '{{{oldest}}}', '{{0}}', '{{x}}')")),
        ];
        if drops {
            asked.extend([
                (chunks::OLDEST_ALONG, format!("('{{}}', '{{}}', '{{{row}}}', '{{f}}', '{{1}}')")),
                (chunks::DROP, format!("('{{{row}}}', '{{f}}', '{{{oldest}}}')")),
            ]);
        }
        let mut look = |(sql, values): (&str, String)| looked_at(&mut self.link, sql, &values).0;
        let append = asked.into_iter().map(&mut look).sum();
        (append, look((chunks::ANY, format!("({row}, {oldest}, {next}, 10, 10000)"))))
    }
}

fn url(name: &str) -> String {
    let url = std::env::var("EVERLOOM_TEST_POSTGRES").expect("EVERLOOM_TEST_POSTGRES is set");
    format!("{url}?schema={name}_{}", std::process::id())
}

fn frame() -> NewFrame {
    NewFrame::new(Payload::json(&"everlasting").unwrap())
}

/// Compares the blocks with those at frame 200.
fn expect_flat(name: &str, retention: u64) {
    let mut streaming = Streaming::new(name, retention);
    streaming.grow(200);
    let drops = retention < 200;
    let early = streaming.blocks(drops);
    streaming.grow(50_000);
    let late = streaming.blocks(drops);
    println!("{late:?} blocks for an append and a read instead of {early:?}");
    assert!(10 * late.0 <= 13 * early.0, "{late:?} blocks instead of {early:?}");
    // An index of fifty thousand entries is a block or two deeper; a read looks into it twice for
    // each sort.
    assert!(late.1 <= early.1 + 8, "{late:?} blocks instead of {early:?}");
    drop(streaming.store);
    drop_schema(streaming.link);
}

#[test]
fn an_append_looks_at_as_many_blocks_after_fifty_thousand_frames_as_after_two_hundred() {
    expect_flat("grown", 1_000_000);
}

#[test]
fn what_was_dropped_before_costs_nothing_although_nobody_has_cleaned_up() {
    expect_flat("dropped", 100);
}
