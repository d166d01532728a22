//! Every hot statement goes through its index, also with a plan that was made while the tables
//! were empty.

use std::sync::Arc;

use super::{
    batches, chores, chunks, edges, events, executions, flows, gates, inbox, joins, keys, lanes,
    limits, mailboxes, members, meta, passages, past_leases, payloads, signals, signing_keys,
    steps, streams, summaries, suspensions, turns, uses, waitpoints, workers,
};
use crate::link::Link;
use crate::migrate;
use crate::options::Options;
use crate::target::Target;

/// A connection to a schema of its own.
pub(super) fn link(name: &str) -> Link {
    let url = std::env::var("EVERLOOM_TEST_POSTGRES").expect("EVERLOOM_TEST_POSTGRES is set");
    let url = format!("{url}?schema={name}_{}", std::process::id());
    let target = Arc::new(Target::parse(&url, &Options::default()).unwrap());
    let mut link = Link::open(&target).unwrap();
    migrate::migrate(&mut link).unwrap();
    link
}

pub(super) fn drop_schema(mut link: Link) {
    let schema = link.target().schema.clone();
    link.script(&format!("DROP SCHEMA \"{schema}\" CASCADE")).unwrap();
}

fn explain(link: &mut Link, sql: &str) -> String {
    let params = (1..).take_while(|number| sql.contains(&format!("${number}"))).count();
    let nulls = match params {
        0 => String::new(),
        _ => format!("({})", vec!["NULL"; params].join(", ")),
    };
    link.script(&format!("PREPARE asked AS {sql}")).unwrap();
    let plan = link.script(&format!("EXPLAIN (FORMAT JSON) EXECUTE asked{nulls}")).unwrap();
    link.script("DEALLOCATE asked").unwrap();
    plan.unwrap()
}

/// Whether an index is read from one end to the other, with nothing that ends it early.
fn reads_a_whole_index(node: &serde_json::Value) -> bool {
    let is = |node: &serde_json::Value, name: &str| {
        node["Node Type"].as_str().is_some_and(|sort| sort.contains(name))
    };
    let is_whole = |scan: &serde_json::Value| is(scan, "Index") && scan["Index Cond"].is_null();
    let ends_early = is(node, "Limit") || is(node, "LockRows");
    let mut below = node["Plans"].as_array().into_iter().flatten();
    below.any(|below| (is_whole(below) && !ends_early) || reads_a_whole_index(below))
}

#[test]
fn hot_statements_use_their_indexes() {
    let mut link = link("plans");
    let expected = [
        (executions::LOCK, "executions_by_uuid"),
        (executions::FIND, "executions_by_uuid"),
        (executions::CLAIM_ROUTE, "\"ready\""),
        (executions::CLAIM_ROUTES, "\"ready\""),
        (executions::CLAIMABLE, "\"ready\""),
        (executions::COUNT_READY, "\"ready\""),
        (executions::LOCK_DUE, "\"due\""),
        (executions::LOCK_RETIRED, "\"retired\""),
        (executions::LOCK_OWNED, "\"owned\""),
        (executions::NEXT_DUE, "\"due\""),
        (executions::COUNT_OWNED, "\"owned\""),
        (executions::SAVE, "executions_pkey"),
        (executions::SAVE_TAGS, "executions_pkey"),
        (executions::REMOVE, "executions_pkey"),
        (executions::EXPIRED_LEASES, "\"due\""),
        (executions::CLAIM_ROUTE, "edges_bound"),
        (executions::CLAIM_ROUTE, "flows_pkey"),
        (executions::CLAIM_ROUTES, "edges_bound"),
        (executions::SAVE_MEMBER, "executions_pkey"),
        (members::LOCK, "executions_by_uuid"),
        (members::LOCK, "\"members\""),
        (members::LOCK, "\"children\""),
        (members::LOCK, "edges_pkey"),
        (members::LOCK, "executions_pkey"),
        (members::SHARE_BY_ROW_NOWAIT, "executions_pkey"),
        (members::MEMBERS, "\"members\""),
        (members::COUNT, "\"members\""),
        (members::CHILDREN, "\"children\""),
        (flows::LOCK, "flows_pkey"),
        (flows::LOCK, "flows_by_uuid"),
        (flows::LOCK, "executions_by_uuid"),
        (flows::BY_UUID, "flows_by_uuid"),
        (flows::LIST, "flows_of_namespace"),
        (flows::GATES, "flows_pkey"),
        (flows::SAVE, "flows_pkey"),
        (edges::FROM, "edges_pkey"),
        (edges::INTO, "edges_into"),
        (edges::BY_UUID, "edges_by_uuid"),
        (edges::REACH, "edges_pkey"),
        (edges::DROP, "\"edges_"),
        (edges::DROP_FROM, "edges_pkey"),
        (edges::DROP_INTO, "edges_into"),
        (joins::FIND, "joins_pkey"),
        (joins::FIND, "edges_pkey"),
        (joins::DROP, "joins_pkey"),
        (executions::LIST, "executions_pkey"),
        (executions::LIST_TAGGED, "tags_pkey"),
        (executions::LIST_OWNED, "\"owned\""),
        (executions::LIST_TROUBLED, "\"troubled\""),
        (lanes::SHARE_BY_NAME, "lanes_namespace_name_key"),
        (lanes::SHARE_BY_ID, "lanes_pkey"),
        (lanes::SAVE, "lanes_pkey"),
        (keys::FIND, "keys_pkey"),
        (keys::SAVE, "keys_pkey"),
        (keys::TRIM, "keys_by_expiry"),
        (payloads::INPUT, "inputs_pkey"),
        (payloads::RESULT, "results_pkey"),
        (past_leases::FIND, "past_leases_pkey"),
        (workers::LOCK, "workers_pkey"),
        (workers::LOCK_LAPSED, "workers_by_due"),
        (chores::LOCK_DUE, "chores_by_due"),
        (inbox::LOCK_WAITING, "inbox_waiting"),
        (inbox::REFUSED, "inbox_refused"),
        (inbox::SAVE, "inbox_pkey"),
        (events::AFTER, "batches_by_base"),
        (events::AFTER, "events_pkey"),
        (events::OF_EXECUTION, "events_of_execution"),
        (events::TRIM, "batches_by_base"),
        (events::FIRST, "batches_by_base"),
        (batches::NUMBER, "batches_to_number"),
        (meta::NEXT_DUE, "\"due\""),
        (mailboxes::LASTS, "executions_by_uuid"),
        (mailboxes::LASTS, "executions_pkey"),
        (mailboxes::LASTS, "suspensions_pkey"),
        (mailboxes::LASTS, "waitpoints_pkey"),
        (mailboxes::LASTS, "signals_pkey"),
        (mailboxes::OPEN_WAITPOINTS, "waitpoints_open"),
        (mailboxes::KEPT_SIGNALS, "signals_kept"),
        (suspensions::FIND, "suspensions_pkey"),
        (suspensions::BY_KEY, "suspensions_by_key"),
        (suspensions::SAVE, "suspensions_pkey"),
        (suspensions::DROP_ALL, "suspensions_pkey"),
        (waitpoints::BY_UUID, "waitpoints_by_uuid"),
        (waitpoints::OPEN, "waitpoints_open"),
        (waitpoints::INBOX, "waitpoints_inbox"),
        (waitpoints::SIGNED, "waitpoints_inbox"),
        (waitpoints::SAVE, "waitpoints_pkey"),
        (waitpoints::DROP_ALL, "\"waitpoints_"),
        (signals::BY_KEY, "signals_by_key"),
        (signals::KEPT, "signals_kept"),
        (signals::TAKEN, "signals_taken"),
        (signals::TAKEN_WITH_PAYLOADS, "signals_taken"),
        (signals::TAKEN_WITH_PAYLOADS, "suspensions_pkey"),
        (signals::PAYLOADS, "signals_pkey"),
        (signals::SAVE, "signals_pkey"),
        (signals::DROP_ALL, "\"signals_"),
        (steps::BY_NAME, "steps_by_name"),
        (steps::LAST, "steps_pkey"),
        (steps::PAGES, "steps_pkey"),
        (steps::PAGES_WITH_RESULTS, "steps_pkey"),
        (steps::RESULTS, "steps_pkey"),
        (steps::DROP, "steps_pkey"),
        (steps::DROP_ALL, "\"steps_"),
        (signing_keys::OF, "signing_keys_pkey"),
        (streams::OF, "executions_by_uuid"),
        (streams::OF, "streams_pkey"),
        (streams::FIND, "streams_pkey"),
        (streams::DROP_ALL, "streams_pkey"),
        (chunks::DURABLE, "chunks_pkey"),
        (chunks::LAST_DURABLE, "chunks_pkey"),
        (chunks::ANY, "chunks_pkey"),
        (chunks::LAST_ANY, "chunks_pkey"),
        (chunks::OLDEST, "chunks_pkey"),
        (chunks::OLDEST_ALONG, "chunks_pkey"),
        (chunks::DROP, "chunks_pkey"),
        (chunks::TRIM, "chunks_pkey"),
        (summaries::OF, "summaries_pkey"),
        (summaries::ALONG, "summaries_pkey"),
        (summaries::DROP_ALL, "summaries_pkey"),
        (executions::LOCK_LIMITED, "\"limited\""),
        (executions::LIMITED, "\"limited\""),
        (executions::SAVE_POLICY, "executions_pkey"),
        (flows::SAVE_TERMS, "flows_pkey"),
        (limits::SHARE, "limits_namespace_sort_name_key"),
        (limits::SHARE, "limits_pkey"),
        (limits::SHARE, "gates_pkey"),
        (limits::SHARE, "uses_pkey"),
        (limits::SHARE, "executions_by_uuid"),
        (limits::LOCK, "limits_pkey"),
        (limits::BY_NAME, "limits_namespace_sort_name_key"),
        (limits::AFTER, "limits_namespace_sort_name_key"),
        (gates::LOCK, "gates_limit_id_namespace_key_key"),
        (gates::LOCK, "gates_pkey"),
        (gates::LOCK, "uses_pkey"),
        (gates::LOCK, "executions_by_uuid"),
        (gates::ADD, "gates_limit_id_namespace_key_key"),
        (gates::BY_KEY, "gates_limit_id_namespace_key_key"),
        (gates::PAGE, "gates_limit_id_namespace_key_key"),
        (gates::SAVE, "gates_pkey"),
        (gates::TRIM, "gates_idle"),
        (gates::TRIM, "passages_pkey"),
        (gates::DROP, "gates_pkey"),
        (gates::DROP_OF, "gates_limit_id_namespace_key_key"),
        (gates::DROP_OF, "passages_pkey"),
        (passages::PAGES, "passages_pkey"),
        (passages::ALONG, "passages_pkey"),
        (passages::ALONG, "gates_limit_id_namespace_key_key"),
        (passages::DROP, "passages_pkey"),
        (uses::OF, "uses_pkey"),
        (uses::OF, "executions_by_uuid"),
        (uses::BY_ROW, "uses_pkey"),
        (uses::OPEN, "uses_open"),
        (uses::DROP, "uses_pkey"),
        (uses::DROP_ALL, "uses_pkey"),
        (turns::LOCK, "turns_pkey"),
        (turns::DROP, "turns_past"),
        (turns::DROP, "turns_pkey"),
    ];
    for (sql, index) in expected {
        let plan = explain(&mut link, sql);
        assert!(plan.contains(index), "{sql}\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{sql}\n{plan}");
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        // What is counted is all that is owned.
        let is_count = sql == executions::COUNT_OWNED;
        assert!(is_count || !reads_a_whole_index(&plan[0]["Plan"]), "{sql}\n{plan:#}");
    }
    // Pages are read from their indexes, in their order, and no further.
    for sql in [
        members::MEMBERS,
        members::CHILDREN,
        edges::AFTER,
        flows::LIST,
        suspensions::LAST,
        waitpoints::LAST,
        waitpoints::OPEN,
        waitpoints::INBOX,
        signals::LAST,
        steps::LAST,
        streams::FIND,
        chunks::DURABLE,
        chunks::LAST_DURABLE,
        limits::AFTER,
        gates::PAGE,
        uses::BY_ROW,
    ] {
        assert!(!explain(&mut link, sql).contains("Sort"), "{sql}");
    }
    // The outer one puts pages side by side.
    for sql in [
        suspensions::PAGES,
        waitpoints::PAGES,
        signals::PAGES,
        signals::TAKEN,
        signals::TAKEN_WITH_PAYLOADS,
        steps::PAGES,
        steps::PAGES_WITH_RESULTS,
        chunks::OLDEST,
        uses::OPEN,
        executions::LOCK_LIMITED,
    ] {
        let plan = explain(&mut link, sql);
        let sorts = plan.matches("\"Node Type\": \"Sort\"").count();
        assert_eq!(sorts, 1, "{sql}\n{plan}");
    }
    // Both sorts of chunks are in their order, and are merged.
    for sql in [chunks::ANY, chunks::LAST_ANY] {
        let plan = explain(&mut link, sql);
        assert!(plan.contains("\"Node Type\": \"Merge Append\""), "{sql}\n{plan}");
        assert!(!plan.contains("\"Node Type\": \"Sort\""), "{sql}\n{plan}");
    }
    // A claim reads no more of its route than it takes.
    assert!(!explain(&mut link, executions::CLAIM_ROUTE).contains("Sort"));
    drop_schema(link);
}

/// Some executions that wait and one that is delayed, so that there is something in any case.
const CROWD_BEFORE: &str = "
    INSERT INTO executions (
        id, uuid, namespace, lane, route, priority, rank, state, held, gated, since, until, due_at,
        created_at, epoch, attempt, retries, reclaims, run, beside
    )
    SELECT n, gen_random_uuid(), 1, 1, 1, 1000, n, CASE n WHEN 1 THEN 2 ELSE 0 END, false, false,
        0, CASE n WHEN 1 THEN 2000 END, CASE n WHEN 1 THEN 2000 END, 0, 0, 0, 0, 0, 1, 0
    FROM generate_series(1, 20) AS n;
    INSERT INTO chores (kind, due_at) VALUES ('{}', 2000);";

/// Suspended ones, of which every second times out later, with what lies beside them.
const CROWD: &str = "
    INSERT INTO executions (
        id, uuid, namespace, lane, route, priority, rank, state, held, gated, since, until, due_at,
        created_at, epoch, attempt, retries, reclaims, run, beside
    )
    SELECT n, gen_random_uuid(), 1, 1, 1, 1000, n, 6, false, false,
        0, CASE n % 2 WHEN 1 THEN 3000 + n END, CASE n % 2 WHEN 1 THEN 3000 + n END, 0, 0, 0, 0, 0,
        1, 2
    FROM generate_series(1001, 11000) AS n;
    INSERT INTO suspensions
    SELECT n, 1, 1, NULL, '{}', '{}'
    FROM generate_series(1001, 11000) AS n;
    INSERT INTO waitpoints
    SELECT n, 1, gen_random_uuid(), 1, 'go', 'k1', '\\x0102030405060708', 0, 5000, true, '{}'
    FROM generate_series(1001, 11000) AS n;
    INSERT INTO chores (kind, due_at)
    SELECT '{\"n\":' || n || '}', 5000
    FROM generate_series(1001, 11000) AS n;";

/// How many blocks and rows a statement looks at.
pub(super) fn looked_at(link: &mut Link, sql: &str, values: &str) -> (u64, u64) {
    link.script(&format!("PREPARE asked AS {sql}")).unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked{values}");
    let mut seen = (0, 0);
    // The first time some of it is made ready.
    for _ in 0..2 {
        link.script("BEGIN").unwrap();
        let plan = link.script(&explain).unwrap().unwrap();
        link.script("ROLLBACK").unwrap();
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let node = &plan[0]["Plan"];
        let number = |name: &str| node[name].as_u64().unwrap();
        seen = (number("Shared Hit Blocks") + number("Shared Read Blocks"), rows(node));
    }
    link.script("DEALLOCATE asked").unwrap();
    seen
}

/// The rows that a node and those below it have produced or passed over.
fn rows(node: &serde_json::Value) -> u64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let own = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    let below = node["Plans"].as_array().into_iter().flatten().map(rows);
    own as u64 + below.sum::<u64>()
}

#[test]
fn ten_thousand_suspended_executions_cost_a_claim_and_a_tick_nothing() {
    let mut link = link("crowd");
    link.script(CROWD_BEFORE).unwrap();
    let asked = [
        (executions::CLAIM_ROUTE, "(1, 1, 10)"),
        (executions::CLAIM_ROUTES, "(1, '{1,2}', 10, 266)"),
        (executions::COUNT_READY, "(1, '{1}', 2)"),
        (executions::COUNT_OWNED, "('{1}')"),
        (executions::LOCK_DUE, "(1000, 100)"),
        (executions::LOCK_RETIRED, "(1000, 100)"),
        (executions::NEXT_DUE, "(1)"),
        (chores::LOCK_DUE, "(1000, 100)"),
        (chores::NEXT_DUE, "(1)"),
        (meta::NEXT_DUE, ""),
    ];
    let look = |link: &mut Link| asked.map(|(sql, values)| looked_at(link, sql, values));
    let before = look(&mut link);
    link.script(CROWD).unwrap();
    for (((sql, _), (blocks, rows)), before) in asked.iter().zip(look(&mut link)).zip(before) {
        assert_eq!(rows, before.1, "{sql}");
        // An index with thousands of entries is a block or two deeper than one with none.
        assert!(blocks <= before.0 + 2, "{blocks} blocks instead of {}: {sql}", before.0);
    }
    drop_schema(link);
}

/// So many before each of two gates, in three lanes on two routes.
const BEFORE_GATES: &str = "
    INSERT INTO executions (
        id, uuid, namespace, lane, route, priority, rank, state, held, gated, since, gate,
        created_at, epoch, attempt, retries, reclaims, run, beside
    )
    SELECT n, gen_random_uuid(), 1, n % 3, n / 3 % 2, 1000, n, 7, false, false, 0, 1 + n / 6 % 2,
        0, 0, 0, 0, 0, 1, 0
    FROM generate_series($from, $to) AS n;";

#[test]
fn the_next_ones_before_a_gate_cost_as_much_as_they_are_however_many_wait() {
    let mut link = link("gates");
    let add = |link: &mut Link, from: u32, to: u32| {
        let sql = BEFORE_GATES.replace("$from", &from.to_string()).replace("$to", &to.to_string());
        link.script(&sql).unwrap();
    };
    add(&mut link, 1, 240);
    let asked = [
        (executions::LOCK_LIMITED, "('{1}', '{8}')"),
        (executions::CLAIM_ROUTE, "(1, 1, 10)"),
        (executions::LOCK_DUE, "(1000, 100)"),
    ];
    let look = |link: &mut Link| asked.map(|(sql, values)| looked_at(link, sql, values));
    let before = look(&mut link);
    assert!(before[0].1 >= 6 * 8, "{before:?}");
    add(&mut link, 241, 12_000);
    for (((sql, _), (blocks, rows)), before) in asked.iter().zip(look(&mut link)).zip(before) {
        assert_eq!(rows, before.1, "{sql}");
        // An index with thousands of entries is a block or two deeper, for each row that is found.
        assert!(blocks <= before.0 + before.1 + 2, "{blocks} blocks instead of {before:?}: {sql}");
    }
    drop_schema(link);
}
