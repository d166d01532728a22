//! Executions by what ties them together.

use super::executions::columns;

macro_rules! select {
    ($($rest:literal),*) => {
        concat!("
    SELECT", columns!(), $($rest),*)
    };
}

/// Executions by id, by name in a flow, and the targets of the edges that `edges::FROM` finds with
/// these; those in some rows ($10), of which ended ones only if so asked ($11); and pages of
/// members ($12 to $14) and of children that are not over ($15 to $17); and those that wait ($18).
/// With each comes whether its flow is held or being closed.
macro_rules! find {
    ($lock:literal) => {
        concat!(
            "
    WITH named AS (
        SELECT executions.id
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        UNION ALL
        SELECT executions.id
        FROM unnest($3::bigint[], $4::text[]) AS wanted (flow, node)
        JOIN executions ON executions.flow = wanted.flow AND executions.node = wanted.node
    ),
    wanted AS (
        SELECT id
        FROM named
        UNION
        SELECT edges.target
        FROM (
            SELECT id, $5::bigint, $6::bigint
            FROM named
            UNION ALL
            SELECT *
            FROM unnest($7::bigint[], $8::bigint[], $9::bigint[])
        ) AS sources (source, after, most)
        CROSS JOIN LATERAL (
            SELECT edges.target
            FROM edges
            WHERE edges.source = sources.source AND edges.target > sources.after
            ORDER BY edges.target, edges.ordinal
            LIMIT sources.most
        ) AS edges
        UNION
        SELECT id
        FROM executions
        WHERE id = ANY ($10) AND (state < 10 OR $11)
        UNION
        SELECT page.id
        FROM unnest($12::bigint[], $13::text[], $14::bigint[]) AS pages (flow, after, most)
        CROSS JOIN LATERAL (
            SELECT id
            FROM executions
            WHERE flow = pages.flow AND node > pages.after
            ORDER BY node
            LIMIT pages.most
        ) AS page
        UNION
        SELECT page.id
        FROM unnest($15::bigint[], $16::bigint[], $17::bigint[]) AS pages (parent, after, most)
        CROSS JOIN LATERAL (
            SELECT id
            FROM executions
            WHERE parent = pages.parent AND state < 10 AND id > pages.after
            ORDER BY id
            LIMIT pages.most
        ) AS page
        UNION
        SELECT unnest($18::bigint[])
    )",
            select!(
                ",
        flows.held OR flows.state = 2
    FROM wanted
    JOIN executions ON executions.id = wanted.id
    LEFT JOIN flows ON flows.id = executions.flow
    ORDER BY executions.id",
                $lock
            )
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF executions");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF executions NOWAIT");

pub(crate) const BY_ROW: &str = select!(
    "
    FROM executions
    WHERE id = ANY ($1)
    ORDER BY id"
);

/// Those that are over are only read, by many at once.
pub(crate) const SHARE_BY_ROW_NOWAIT: &str = select!(
    "
    FROM executions
    WHERE id = ANY ($1)
    ORDER BY id
    FOR SHARE NOWAIT"
);

pub(crate) const MEMBER: &str = select!(
    "
    FROM executions
    WHERE flow = $1 AND node = $2"
);

pub(crate) const MEMBERS: &str = select!(
    "
    FROM executions
    WHERE flow = $1 AND node > $2
    ORDER BY node
    LIMIT $3"
);

pub(crate) const COUNT: &str = "
    SELECT flow, state, started_at IS NOT NULL, count(*)
    FROM executions
    WHERE flow = ANY ($1)
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3";

pub(crate) const CHILDREN: &str = select!(
    "
    FROM executions
    WHERE parent = $1 AND state < 10 AND id > $2
    ORDER BY id
    LIMIT $3"
);
