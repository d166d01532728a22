//! Statements, a module per table. What binds them is in `rows`.

pub(crate) mod chores;
pub(crate) mod chunks;
pub(crate) mod edges;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod limits;
pub(crate) mod meta;
pub(crate) mod namespaces;
pub(crate) mod passages;
pub(crate) mod past_leases;
pub(crate) mod payloads;
pub(crate) mod routes;
pub(crate) mod signals;
pub(crate) mod signing_keys;
pub(crate) mod steps;
pub(crate) mod streams;
pub(crate) mod summaries;
pub(crate) mod suspensions;
pub(crate) mod tags;
pub(crate) mod turns;
pub(crate) mod uses;
pub(crate) mod waitpoints;
pub(crate) mod workers;

pub(crate) const BEGIN_READ: &str = "BEGIN";
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Within a transaction of someone else.
pub(crate) const SAVEPOINT: &str = "SAVEPOINT everloom_submit";
pub(crate) const RELEASE: &str = "RELEASE everloom_submit";
pub(crate) const ROLLBACK_TO_SAVEPOINT: &str =
    "ROLLBACK TO everloom_submit; RELEASE everloom_submit";

/// Changes when another connection has committed.
pub(crate) const DATA_VERSION: &str = "PRAGMA data_version";

#[cfg(test)]
mod tests {
    use super::{
        chunks, executions, gates, limits, passages, signals, signing_keys, steps, streams,
        summaries, suspensions, turns, uses, waitpoints,
    };
    use crate::connect;
    use crate::location::Location;
    use crate::options::Options;

    /// Every statement about what lies beside an execution that waits.
    const MAIL: &[&str] = &[
        suspensions::BY_NUMBER,
        suspensions::LAST,
        suspensions::BY_KEY,
        suspensions::AFTER,
        suspensions::SAVE,
        suspensions::DROP_ALL,
        waitpoints::BY_UUID,
        waitpoints::OPEN,
        waitpoints::LAST_SEQ,
        waitpoints::AFTER,
        waitpoints::INBOX,
        waitpoints::COUNT_SIGNED,
        waitpoints::SAVE_OPEN,
        waitpoints::SAVE,
        waitpoints::DROP_ALL,
        signals::LAST_SEQ,
        signals::BY_KEY,
        signals::KEPT,
        signals::TAKEN,
        signals::AFTER,
        signals::PAYLOAD,
        signals::SAVE,
        signals::DROP_PAYLOADS,
        signals::DROP_ALL,
        steps::BY_NAME,
        steps::LAST_SEQ,
        steps::AFTER,
        steps::RESULT,
        steps::DROP_RESULTS,
        steps::DROP_FROM,
        signing_keys::OF,
    ];

    /// Every statement about what an execution has put out.
    const STREAMS: &[&str] = &[
        streams::STATE,
        streams::REMOVE,
        chunks::DURABLE,
        chunks::LAST_DURABLE,
        chunks::ANY,
        chunks::LAST_ANY,
        chunks::BY_ID,
        chunks::OLDEST,
        chunks::DROP_OLDEST,
        chunks::TRIM,
        summaries::OF,
        summaries::REMOVE,
    ];

    /// Every statement about what limits work.
    const LIMITS: &[&str] = &[
        limits::BY_NAME,
        limits::BY_ID,
        limits::AFTER,
        limits::REMOVE,
        gates::FIND,
        gates::BY_ID,
        gates::FIRST,
        gates::AFTER,
        gates::SAVE,
        gates::DROP_PASSAGES_OF_LIMIT,
        gates::DROP_OF_LIMIT,
        gates::TRIM_PASSAGES,
        gates::TRIM,
        passages::FIND,
        passages::DROP_THROUGH,
        uses::OF,
        uses::OPEN,
        uses::SAVE,
        uses::DROP,
        uses::DROP_ALL,
        uses::DROP_OF_LIMIT,
        turns::FIND,
        turns::DROP_BEFORE,
        executions::NEXT_LIMITED_ROUTE,
        executions::NEXT_LIMITED_LANE,
        executions::LIMITED,
        executions::SAVE_POLICY,
    ];

    #[test]
    fn what_lies_beside_an_execution_or_limits_it_is_neither_scanned_nor_sorted() {
        let location = Location::parse(":memory:").unwrap();
        let conn = connect::writer(&location, &Options::default()).unwrap();
        for sql in MAIL.iter().chain(STREAMS).chain(LIMITS) {
            let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = plan.raw_query();
            let mut lines: Vec<String> = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                lines.push(row.get(3).unwrap());
            }
            assert!(lines.iter().any(|line| line.starts_with("SEARCH")), "{sql}\n{lines:#?}");
            let bad = |line: &String| line.starts_with("SCAN") || line.contains("TEMP B-TREE");
            assert!(!lines.iter().any(bad), "{sql}\n{lines:#?}");
        }
    }
}
