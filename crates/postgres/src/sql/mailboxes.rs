//! What a rule wants to know first of an execution that has mail.

use super::{signals, suspensions, waitpoints};

/// Executions by id that have mail, and executions in some rows ($3).
macro_rules! boxes {
    () => {
        "
    WITH boxes AS (
        SELECT executions.id, executions.run
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        WHERE executions.beside & 2 <> 0
        UNION
        SELECT id, run
        FROM executions
        WHERE id = ANY ($3)
    )
    SELECT"
    };
}

/// The last numbers, and the last suspension.
pub(crate) const LASTS: &str = concat!(
    boxes!(),
    suspensions::columns!(),
    ",
        boxes.id,
        (SELECT seq FROM waitpoints WHERE execution = boxes.id ORDER BY seq DESC LIMIT 1),
        (SELECT seq FROM signals WHERE execution = boxes.id ORDER BY seq DESC LIMIT 1)
    FROM boxes
    LEFT JOIN LATERAL (
        SELECT *
        FROM suspensions
        WHERE suspensions.execution = boxes.id
        ORDER BY suspensions.number DESC
        LIMIT 1
    ) AS suspensions ON true"
);

pub(crate) const OPEN_WAITPOINTS: &str = concat!(
    boxes!(),
    waitpoints::columns!(),
    "
    FROM boxes
    JOIN waitpoints ON waitpoints.execution = boxes.id AND waitpoints.open"
);

pub(crate) const KEPT_SIGNALS: &str = concat!(
    boxes!(),
    signals::columns!(),
    "
    FROM boxes
    CROSS JOIN LATERAL (
        SELECT *
        FROM signals
        WHERE signals.execution = boxes.id AND signals.run = boxes.run
            AND signals.suspension IS NULL
        OFFSET 0
    ) AS signals"
);
