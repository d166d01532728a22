macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "
    SELECT gates.id, gates.namespace, gates.limit_id, gates.key, gates.course, gates.idle_at",
            $($rest),*
        )
    };
}

/// Gates by key and by row; those that executions by id have passed, wait before or have a key for,
/// and that executions by row ($7) have passed; and pages of the gates of limits, from a key on
/// ($8 to $10).
macro_rules! find {
    ($lock:literal) => {
        select!(
            "
    FROM (
        WITH named AS (
            SELECT executions.*
            FROM unnest($5::bigint[], $6::uuid[]) AS wanted (namespace, uuid)
            JOIN executions
                ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        )
        SELECT gates.id
        FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS wanted (namespace, limit_id, key)
        JOIN gates ON gates.limit_id = wanted.limit_id AND gates.namespace = wanted.namespace
            AND gates.key = wanted.key
        UNION
        SELECT unnest($4::bigint[])
        UNION
        SELECT uses.gate
        FROM named
        JOIN uses ON uses.execution = named.id
        WHERE named.beside & 16 <> 0 AND uses.gate IS NOT NULL
        UNION
        SELECT named.gate
        FROM named
        WHERE named.gate IS NOT NULL
        UNION
        SELECT gates.id
        FROM named
        JOIN gates ON gates.limit_id = 0 AND gates.namespace = named.namespace
            AND gates.key = named.policy::json #>> '{concurrency_key,key}'
        WHERE named.policy LIKE '%\"concurrency_key\"%'
        UNION
        SELECT uses.gate
        FROM uses
        WHERE uses.execution = ANY ($7) AND uses.gate IS NOT NULL
        UNION
        SELECT page.id
        FROM unnest($8::bigint[], $9::text[], $10::bigint[]) AS pages (limit_id, key, most)
        JOIN limits ON limits.id = pages.limit_id
        CROSS JOIN LATERAL (
            SELECT gates.id
            FROM gates
            WHERE gates.limit_id = limits.id AND gates.namespace = limits.namespace
                AND gates.key >= pages.key
            ORDER BY gates.key
            LIMIT pages.most
        ) AS page
    ) AS wanted
    JOIN gates ON gates.id = wanted.id
    ORDER BY gates.id",
            $lock
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF gates");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF gates NOWAIT");

/// Several may be the first to use one. Until it is saved it may be trimmed: nothing is lost with it.
pub(crate) const ADD: &str = "
    INSERT INTO gates (namespace, limit_id, key, course, idle_at)
    SELECT new.namespace, new.limit_id, new.key, '{}', 0
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS new (namespace, limit_id, key)
    WHERE NOT EXISTS (
        SELECT
        FROM gates
        WHERE gates.limit_id = new.limit_id AND gates.namespace = new.namespace
            AND gates.key = new.key
    )
    ORDER BY new.limit_id, new.namespace, new.key
    ON CONFLICT (limit_id, namespace, key) DO NOTHING";

pub(crate) const BY_KEY: &str = select!(
    "
    FROM gates
    WHERE limit_id = $1 AND namespace = $2 AND key = $3"
);

pub(crate) const BY_ROW: &str = select!(
    "
    FROM gates
    WHERE id = $1"
);

/// From a key on.
pub(crate) const PAGE: &str = select!(
    "
    FROM gates
    WHERE limit_id = $1 AND namespace = (SELECT namespace FROM limits WHERE id = $1) AND key >= $2
    ORDER BY key
    LIMIT $3"
);

/// Everything that may change.
pub(crate) const SAVE: &str = "
    UPDATE gates SET
        course = new.course,
        idle_at = new.idle_at
    FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS new (id, course, idle_at)
    WHERE gates.id = new.id";

pub(crate) const DROP: &str = "
    WITH gone AS (
        DELETE FROM gates
        WHERE id = ANY ($1)
        RETURNING id
    )
    DELETE FROM passages
    USING gone
    WHERE passages.gate = gone.id";

pub(crate) const DROP_OF: &str = "
    WITH gone AS (
        DELETE FROM gates
        WHERE limit_id = ANY ($1)
        RETURNING id
    )
    DELETE FROM passages
    USING gone
    WHERE passages.gate = gone.id";

/// Leaves out those that the transaction has read already ($3), and what others have locked: it is not
/// idle for long.
pub(crate) const TRIM: &str = "
    WITH idle AS MATERIALIZED (
        SELECT id
        FROM gates
        WHERE idle_at <= $1 AND id <> ALL ($3::bigint[])
        ORDER BY idle_at, id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ),
    passed AS (
        DELETE FROM passages
        USING idle
        WHERE passages.gate = idle.id
    )
    DELETE FROM gates
    USING idle
    WHERE gates.id = idle.id
    RETURNING 1";
