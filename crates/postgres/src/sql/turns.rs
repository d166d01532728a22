macro_rules! find {
    ($lock:literal) => {
        concat!(
            "
    SELECT turns.lane, turns.priority, turns.key, turns.next
    FROM unnest($1::bigint[], $2::integer[], $3::text[]) AS wanted (lane, priority, key)
    JOIN turns ON turns.lane = wanted.lane AND turns.priority = wanted.priority
        AND turns.key = wanted.key
    ORDER BY turns.lane, turns.priority, turns.key",
            $lock
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF turns");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF turns NOWAIT");

/// Fails when another transaction was first.
pub(crate) const ADD: &str = "
    INSERT INTO turns (lane, priority, key, next)
    SELECT *
    FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[])";

/// A turn never moves back, whoever else moves it.
pub(crate) const PUT: &str = "
    INSERT INTO turns (lane, priority, key, next)
    SELECT *
    FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[])
    ON CONFLICT (lane, priority, key) DO UPDATE SET
        next = greatest(turns.next, excluded.next)";

/// Turns that are past are as good as none, so that those that others have locked may stay.
pub(crate) const DROP: &str = "
    WITH past AS MATERIALIZED (
        SELECT page.lane, page.priority, page.key
        FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[])
            AS pages (lane, priority, before, most)
        CROSS JOIN LATERAL (
            SELECT lane, priority, key
            FROM turns
            WHERE turns.lane = pages.lane AND turns.priority + 0 = pages.priority
                AND turns.next < pages.before
            ORDER BY turns.next
            LIMIT pages.most
            FOR UPDATE SKIP LOCKED
        ) AS page
    )
    DELETE FROM turns
    USING past
    WHERE turns.lane = past.lane AND turns.priority = past.priority AND turns.key = past.key";
