macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT base + place, kind, events.at, events.namespace, events.uuid, events.lane, attempt,
        epoch, worker, tags, events.flow, data, namespaces.name, lanes.name",
            $rest
        )
    };
}

/// A batch has at least one event, so that no more batches are looked at than events are wanted.
pub(crate) const AFTER: &str = select!(
    "
    FROM (
        SELECT id, base
        FROM batches
        WHERE base >= coalesce((SELECT max(base) FROM batches WHERE base <= $1), 0) AND base < $2
        ORDER BY base
        LIMIT $3
    ) AS batches
    JOIN events ON events.batch = batches.id AND place > $1 - base AND place <= $2 - base
    JOIN namespaces ON namespaces.id = events.namespace
    LEFT JOIN lanes ON lanes.id = events.lane
    ORDER BY base, place
    LIMIT $3"
);

/// Batches are numbered in any order, but those of one execution in the order of their ids, because
/// each has seen the one before. Where the cursor is that of an event of this execution, as it is
/// for whoever reads on, the search begins there.
pub(crate) const OF_EXECUTION: &str = concat!(
    "
    WITH last_read AS MATERIALIZED (
        SELECT events.batch, events.place
        FROM (
            SELECT id, base
            FROM batches
            WHERE base < $1
            ORDER BY base DESC
            LIMIT 1
        ) AS last
        JOIN events ON events.batch = last.id AND events.place = $1 - last.base
        WHERE events.execution = $4
    )",
    select!(
        "
    FROM events
    JOIN batches ON batches.id = events.batch
    JOIN namespaces ON namespaces.id = events.namespace
    LEFT JOIN lanes ON lanes.id = events.lane
    WHERE execution = $4 AND base + place > $1 AND base + place <= $2
        AND (events.batch, events.place) > (
            coalesce((SELECT batch FROM last_read), 0),
            coalesce((SELECT place FROM last_read), 0)
        )
    ORDER BY events.batch, events.place
    LIMIT $3"
    )
);

pub(crate) const FIRST: &str = "
    SELECT (
        SELECT base + place
        FROM (
            SELECT id, base
            FROM batches
            WHERE base IS NOT NULL
            ORDER BY base
            LIMIT 1
        ) AS first
        JOIN events ON events.batch = first.id
        ORDER BY place
        LIMIT 1
    )";

pub(crate) const ADD: &str = "
    WITH added AS (
        INSERT INTO batches (size, at, source)
        VALUES ($1, $2, $3)
        RETURNING id
    )
    INSERT INTO events
    SELECT
        (SELECT id FROM added), place, kind, at, namespace, execution, uuid, lane, attempt, epoch,
        worker, tags, data, flow
    FROM unnest($4::events[])";

/// Of the oldest, those before the first that is not old.
pub(crate) const TRIM: &str = "
    WITH oldest AS MATERIALIZED (
        SELECT batch, place, base + place AS cursor, events.at
        FROM (
            SELECT id, base
            FROM batches
            WHERE base IS NOT NULL
            ORDER BY base
            LIMIT $2
        ) AS batches
        JOIN events ON events.batch = batches.id
        WHERE base + place < (SELECT last_cursor FROM meta WHERE id = 1)
        ORDER BY base, place
        LIMIT $2
    ),
    old AS MATERIALIZED (
        SELECT batch, place, cursor
        FROM oldest
        WHERE cursor < coalesce(
            (SELECT min(cursor) FROM oldest WHERE at >= $1),
            9223372036854775807
        )
    ),
    emptied AS (
        DELETE FROM batches
        WHERE base < (SELECT max(cursor) FROM old)
            AND base + size <= (SELECT max(cursor) FROM old)
    )
    DELETE FROM events
    USING old
    WHERE events.batch = old.batch AND events.place = old.place
    RETURNING 1";
