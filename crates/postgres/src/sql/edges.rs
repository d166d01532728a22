/// What `rows::edges::from_row` reads, in its order: the columns of the table.
macro_rules! columns {
    () => {
        "
        edges.source,
        edges.target,
        edges.ordinal,
        edges.flow,
        edges.condition,
        edges.applied,
        edges.bind,
        edges.uuid"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT",
            columns!(),
            $rest
        )
    };
}

/// Edges out of executions, by id or by their names in flows the first ones ($6), of others from a
/// target on as many as are wanted.
pub(crate) const FROM: &str = concat!(
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
    sources AS (
        SELECT source, after, max(most) AS most
        FROM (
            SELECT id AS source, $5::bigint AS after, $6::bigint AS most
            FROM named
            UNION ALL
            SELECT *
            FROM unnest($7::bigint[], $8::bigint[], $9::bigint[])
        ) AS wanted (source, after, most)
        GROUP BY source, after
    )
    SELECT",
    columns!(),
    ", sources.after
    FROM sources
    CROSS JOIN LATERAL (
        SELECT *
        FROM edges
        WHERE edges.source = sources.source AND edges.target > sources.after
        ORDER BY edges.target, edges.ordinal
        LIMIT sources.most
    ) AS edges
    ORDER BY edges.source, edges.target, edges.ordinal"
);

/// Edges into executions, of some only those that bind a result.
pub(crate) const INTO: &str = select!(
    ", wanted.bound
    FROM unnest($1::bigint[], $2::boolean[]) AS wanted (target, bound)
    JOIN edges ON edges.target = wanted.target AND (edges.bind IS NOT NULL OR NOT wanted.bound)
    ORDER BY edges.target, edges.source, edges.ordinal"
);

pub(crate) const AFTER: &str = select!(
    "
    FROM edges
    WHERE source = $1 AND target > $2
    ORDER BY target, ordinal
    LIMIT $3"
);

pub(crate) const BY_UUID: &str = select!(
    "
    FROM unnest($1::bigint[], $2::uuid[]) AS wanted (flow, uuid)
    JOIN edges ON edges.flow = wanted.flow AND edges.uuid = wanted.uuid"
);

/// Every edge between what can be reached from some rows.
pub(crate) const REACH: &str = "
    WITH RECURSIVE reached (id) AS (
        SELECT unnest($1::bigint[])
        UNION
        SELECT edges.target
        FROM reached
        JOIN edges ON edges.source = reached.id
    )
    SELECT edges.source, edges.target, edges.ordinal
    FROM reached
    JOIN edges ON edges.source = reached.id
    ORDER BY edges.source, edges.target, edges.ordinal";

pub(crate) const PUT: &str = "
    INSERT INTO edges
    SELECT *
    FROM unnest($1::edges[])
    ON CONFLICT (source, target, ordinal) DO UPDATE SET
        flow = excluded.flow,
        condition = excluded.condition,
        applied = excluded.applied,
        bind = excluded.bind,
        uuid = excluded.uuid";

pub(crate) const DROP: &str = "
    DELETE FROM edges
    USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS old (source, target, ordinal)
    WHERE edges.source = old.source AND edges.target = old.target
        AND edges.ordinal = old.ordinal";

pub(crate) const DROP_FROM: &str = "
    DELETE FROM edges
    WHERE source = ANY ($1)";

pub(crate) const DROP_INTO: &str = "
    DELETE FROM edges
    WHERE target = ANY ($1)";
