//! Every hot statement goes through its index, also with a plan that was made while the tables
//! were empty.

use std::sync::Arc;

use super::{
    batches, chores, edges, events, executions, flows, inbox, joins, keys, lanes, members, meta,
    past_leases, payloads, workers,
};
use crate::link::Link;
use crate::migrate;
use crate::options::Options;
use crate::target::Target;

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

#[test]
fn hot_statements_use_their_indexes() {
    let url = std::env::var("EVERLOOM_TEST_POSTGRES").expect("EVERLOOM_TEST_POSTGRES is set");
    let url = format!("{url}?schema=plans_{}", std::process::id());
    let target = Arc::new(Target::parse(&url, &Options::default()).unwrap());
    let mut link = Link::open(&target).unwrap();
    migrate::migrate(&mut link).unwrap();
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
    ];
    for (sql, index) in expected {
        let plan = explain(&mut link, sql);
        assert!(plan.contains(index), "{sql}\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{sql}\n{plan}");
    }
    // Pages are read from their indexes, in their order, and no further.
    for sql in [members::MEMBERS, members::CHILDREN, edges::AFTER, flows::LIST] {
        assert!(!explain(&mut link, sql).contains("Sort"), "{sql}");
    }
    // A claim reads no more of its route than it takes.
    assert!(!explain(&mut link, executions::CLAIM_ROUTE).contains("Sort"));
    link.script(&format!("DROP SCHEMA \"{}\" CASCADE", target.schema)).unwrap();
}
