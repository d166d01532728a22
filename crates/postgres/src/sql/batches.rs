/// One who numbers at a time, until its transaction ends.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 2))";

/// Numbers up to $1 batches in the order of their ids, moves the floor of the clock up to the
/// newest of them, and tells the channel $2; returns how many there were.
pub(crate) const NUMBER: &str = "
    WITH committed AS MATERIALIZED (
        SELECT id, size
        FROM batches
        WHERE base IS NULL
        ORDER BY id
        LIMIT $1
    ),
    new AS MATERIALIZED (
        SELECT id,
            (SELECT last_cursor FROM meta WHERE meta.id = 1)
                + (sum(size) OVER (ORDER BY id))::bigint - size AS base
        FROM committed
    ),
    numbered AS (
        UPDATE batches SET
            base = new.base
        FROM new
        WHERE batches.id = new.id
        RETURNING batches.base, size, at, source
    ),
    newest AS (
        SELECT count(*) AS batches, max(base + size) AS cursor, max(at) AS at,
            min(source) AS source, max(source) AS other_source
        FROM numbered
    ),
    moved AS (
        UPDATE meta SET
            last_cursor = newest.cursor,
            last_now = greatest(last_now, newest.at)
        FROM newest
        WHERE id = 1 AND newest.batches > 0
    )
    SELECT batches,
        pg_notify(
            $2,
            CASE WHEN source = other_source THEN 'numbered ' || source ELSE 'numbered' END
        )
    FROM newest
    WHERE batches > 0";
