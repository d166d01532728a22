macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT cursor, kind, at, events.namespace, events.uuid, events.lane, attempt, epoch, worker,
        tags, data, namespaces.name, lanes.name",
            $rest
        )
    };
}

pub(crate) const AFTER: &str = select!(
    "
    FROM events
    JOIN namespaces ON namespaces.id = events.namespace
    LEFT JOIN lanes ON lanes.id = events.lane
    WHERE cursor > $1 AND cursor <= $2
    ORDER BY cursor
    LIMIT $3"
);

pub(crate) const OF_EXECUTION: &str = select!(
    "
    FROM events
    JOIN namespaces ON namespaces.id = events.namespace
    LEFT JOIN lanes ON lanes.id = events.lane
    WHERE execution = $4 AND cursor > $1 AND cursor <= $2
    ORDER BY cursor
    LIMIT $3"
);

pub(crate) const FIRST: &str = "
    SELECT min(cursor)
    FROM events
    WHERE cursor IS NOT NULL";

/// Ids are drawn in the order given.
pub(crate) const ADD: &str = "
    INSERT INTO events (
        kind, at, namespace, uuid, lane, attempt, epoch, worker, tags, data, execution
    )
    SELECT
        kind, at, namespace, uuid, lane, attempt, epoch, worker, tags, data, execution
    FROM unnest(
        $1::integer[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[],
        $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bigint[]
    ) WITH ORDINALITY AS new (
        kind, at, namespace, uuid, lane, attempt, epoch, worker, tags, data, execution, place
    )
    ORDER BY place";

/// Of the oldest, those before the first that is not old.
pub(crate) const TRIM: &str = "
    WITH oldest AS MATERIALIZED (
        SELECT cursor, at
        FROM events
        WHERE cursor < (SELECT last_cursor FROM meta WHERE id = 1)
        ORDER BY cursor
        LIMIT $2
    )
    DELETE FROM events
    WHERE cursor <= (
        SELECT max(cursor)
        FROM oldest
        WHERE cursor < coalesce(
            (SELECT min(cursor) FROM oldest WHERE at >= $1),
            9223372036854775807
        )
    )
    RETURNING 1";
