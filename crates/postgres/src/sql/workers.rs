macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "
    SELECT workers.namespace, workers.instance, name, lanes, kinds, capabilities, ttl_ms,
        registered_at, seen_at",
            $($rest),*
        )
    };
}

macro_rules! find {
    ($lock:literal) => {
        select!(
            "
    FROM unnest($1::bigint[], $2::text[]) AS wanted (namespace, instance)
    JOIN workers ON workers.namespace = wanted.namespace AND workers.instance = wanted.instance
    ORDER BY workers.namespace, workers.instance",
            $lock
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF workers");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF workers NOWAIT");

pub(crate) const AFTER: &str = select!(
    "
    FROM workers
    WHERE namespace = $1 AND instance > $2
    ORDER BY instance
    LIMIT $3"
);

pub(crate) const LAPSED: &str = select!(
    "
    FROM workers
    WHERE due_at <= $1
    ORDER BY due_at
    LIMIT $2"
);

pub(crate) const LOCK_LAPSED: &str = select!(
    "
    FROM workers
    WHERE due_at <= $1
    ORDER BY due_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED"
);

pub(crate) const NEXT_DUE: &str = "
    SELECT due_at, namespace, instance
    FROM workers
    ORDER BY due_at
    LIMIT $1";

macro_rules! add {
    ($($rest:literal),*) => {
        concat!(
            "
    INSERT INTO workers (
        namespace, instance, name, lanes, kinds, capabilities, ttl_ms, registered_at, seen_at,
        due_at
    )
    SELECT *
    FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[]
    )",
            $($rest),*
        )
    };
}

/// Fails when another transaction was first.
pub(crate) const ADD: &str = add!();

pub(crate) const PUT: &str = add!(
    "
    ON CONFLICT (namespace, instance) DO UPDATE SET
        name = excluded.name,
        lanes = excluded.lanes,
        kinds = excluded.kinds,
        capabilities = excluded.capabilities,
        ttl_ms = excluded.ttl_ms,
        registered_at = excluded.registered_at,
        seen_at = excluded.seen_at,
        due_at = excluded.due_at"
);

pub(crate) const DROP: &str = "
    DELETE FROM workers
    USING unnest($1::bigint[], $2::text[]) AS old (namespace, instance)
    WHERE workers.namespace = old.namespace AND workers.instance = old.instance";
