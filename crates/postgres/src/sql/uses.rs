macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "
    SELECT uses.execution, uses.limit_id, uses.open, uses.gate, uses.share",
            $($rest),*
        )
    };
}

/// Of executions by id that have any, and by row.
pub(crate) const OF: &str = select!(
    "
    FROM (
        SELECT executions.id
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        WHERE executions.beside & 16 <> 0
        UNION
        SELECT unnest($3::bigint[])
    ) AS wanted (execution)
    JOIN uses ON uses.execution = wanted.execution
    ORDER BY uses.execution, uses.limit_id"
);

pub(crate) const BY_ROW: &str = select!(
    "
    FROM uses
    WHERE execution = $1
    ORDER BY limit_id"
);

/// Of executions that are not over: pages by limit.
pub(crate) const OPEN: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (limit_id, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM uses
        WHERE uses.limit_id = pages.limit_id AND uses.execution > pages.after AND uses.open
        ORDER BY uses.execution
        LIMIT pages.most
    ) AS uses
    ORDER BY uses.limit_id, uses.execution"
);

pub(crate) const PUT: &str = "
    INSERT INTO uses
    SELECT *
    FROM unnest($1::uses[])
    ON CONFLICT (execution, limit_id) DO UPDATE SET
        open = excluded.open,
        gate = excluded.gate,
        share = excluded.share";

pub(crate) const DROP: &str = "
    DELETE FROM uses
    USING unnest($1::bigint[], $2::bigint[]) AS old (execution, limit_id)
    WHERE uses.execution = old.execution AND uses.limit_id = old.limit_id";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM uses
    WHERE execution = ANY ($1)";

pub(crate) const DROP_OF: &str = "
    DELETE FROM uses
    WHERE limit_id = ANY ($1)";
