macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "
    SELECT limits.id, limits.namespace, limits.name, limits.terms, limits.places,
        limits.created_at",
            $($rest),*
        )
    };
}

/// Limits by name and by row, those of some gates ($5), and those that executions by id and by row
/// ($8) are under.
macro_rules! find {
    ($lock:literal) => {
        select!(
            "
    FROM (
        SELECT limits.id
        FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS wanted (namespace, sort, name)
        JOIN limits ON limits.namespace = wanted.namespace AND limits.sort = wanted.sort
            AND limits.name = wanted.name
        UNION
        SELECT unnest($4::bigint[])
        UNION
        SELECT gates.limit_id
        FROM gates
        WHERE gates.id = ANY ($5)
        UNION
        SELECT uses.limit_id
        FROM unnest($6::bigint[], $7::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        JOIN uses ON uses.execution = executions.id
        WHERE executions.beside & 16 <> 0
        UNION
        SELECT uses.limit_id
        FROM uses
        WHERE uses.execution = ANY ($8)
    ) AS wanted
    JOIN limits ON limits.id = wanted.id
    ORDER BY limits.id",
            $lock
        )
    };
}

pub(crate) const SHARE: &str = find!(" FOR SHARE OF limits");
pub(crate) const SHARE_NOWAIT: &str = find!(" FOR SHARE OF limits NOWAIT");

/// Lets others change the terms, and nobody remove what is being named.
pub(crate) const KEEP: &str = find!(" FOR KEY SHARE OF limits");

macro_rules! by_row {
    ($lock:literal) => {
        select!(
            "
    FROM limits
    WHERE id = ANY ($1)
    ORDER BY id",
            $lock
        )
    };
}

pub(crate) const BY_ROW: &str = by_row!("");
pub(crate) const LOCK: &str = by_row!(" FOR UPDATE");
pub(crate) const LOCK_NOWAIT: &str = by_row!(" FOR UPDATE NOWAIT");

pub(crate) const BY_NAME: &str = select!(
    "
    FROM limits
    WHERE namespace = $1 AND sort = $2 AND name = $3"
);

pub(crate) const AFTER: &str = select!(
    "
    FROM limits
    WHERE namespace = $1 AND sort = $2 AND name > $3
    ORDER BY name
    LIMIT $4"
);

pub(crate) const NEW_ROWS: &str = "
    SELECT nextval('limit_rows')
    FROM generate_series(1, $1::bigint)";

/// Fails when another transaction has made one of that name.
pub(crate) const PUT: &str = "
    INSERT INTO limits
    SELECT *
    FROM unnest($1::limits[])
    ON CONFLICT (id) DO UPDATE SET
        terms = excluded.terms,
        places = excluded.places";

pub(crate) const DROP: &str = "
    DELETE FROM limits
    WHERE id = ANY ($1)";
