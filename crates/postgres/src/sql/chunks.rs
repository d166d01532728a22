use super::streams::streaming;

/// Up to which frame those of a sort have been removed.
macro_rules! gone {
    ($gone:literal) => {
        concat!(
            "coalesce((
                SELECT ",
            $gone,
            "
                FROM streams
                WHERE execution = $1
            ), 0)"
        )
    };
}

/// The first $4 chunks of one sort that have frames from $2 to $3. Chunks do not overlap, so that only the
/// last one that begins before the first frame can reach it. No look goes below what was removed.
macro_rules! with_frames {
    ($live:literal, $gone:literal, $order:literal) => {
        concat!(
            "(
            SELECT *
            FROM chunks
            WHERE execution = $1 AND live = ",
            $live,
            " AND first > ",
            gone!($gone),
            " AND first >= coalesce((
                SELECT first
                FROM chunks
                WHERE execution = $1 AND live = ",
            $live,
            " AND first > ",
            gone!($gone),
            " AND first <= $2
                ORDER BY first DESC
                LIMIT 1
            ), 0) AND first <= $3 AND last >= $2
            ORDER BY first",
            $order,
            "
            LIMIT $4
        )"
        )
    };
}

/// As many as have $4 frames in the range or $5 bytes. Every chunk has a frame, so that no more than
/// so many chunks of each sort are looked at.
macro_rules! enough {
    ($chunks:expr, $order:literal) => {
        concat!(
            "
    WITH within AS (
        ",
            $chunks,
            "
    ),
    counted AS (
        SELECT *,
            sum(least(last, $3) - greatest(first, $2) + 1) OVER earlier AS frames,
            sum(octet_length(bytes)) OVER earlier AS size
        FROM within
        WINDOW earlier AS (
            ORDER BY first",
            $order,
            "
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
    )
    SELECT execution, live, first, facts, bytes
    FROM counted
    WHERE coalesce(frames, 0) < $4 AND coalesce(size, 0) < $5::bigint
    ORDER BY first",
            $order
        )
    };
}

macro_rules! both {
    ($order:literal) => {
        concat!(
            with_frames!("false", "gone", $order),
            "
        UNION ALL
        ",
            with_frames!("true", "live_gone", $order)
        )
    };
}

pub(crate) const DURABLE: &str = enough!(with_frames!("false", "gone", ""), "");

pub(crate) const LAST_DURABLE: &str = enough!(with_frames!("false", "gone", " DESC"), " DESC");

pub(crate) const ANY: &str = enough!(both!(""), "");

pub(crate) const LAST_ANY: &str = enough!(both!(" DESC"), " DESC");

/// As many of each sort that is wanted as have so many frames together.
macro_rules! oldest {
    () => {
        "
    SELECT wanted.execution, wanted.live, oldest.first, oldest.last
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT first, last, sum(last - first + 1) OVER (ORDER BY first) AS through
        FROM (
            SELECT chunks.first, chunks.last
            FROM chunks
            WHERE chunks.execution = wanted.execution AND chunks.live = wanted.live
                AND chunks.first > wanted.gone
            ORDER BY chunks.first
            LIMIT wanted.frames
        ) AS chunks
    ) AS oldest
    WHERE oldest.through - (oldest.last - oldest.first + 1) < wanted.frames
    ORDER BY wanted.execution, wanted.live, oldest.first"
    };
}

pub(crate) const OLDEST: &str = concat!(
    "
    WITH wanted AS (
        SELECT wanted.*,
            coalesce(CASE WHEN wanted.live THEN live_gone ELSE gone END, 0) AS gone
        FROM unnest($1::bigint[], $2::boolean[], $3::bigint[]) AS wanted (execution, live, frames)
        LEFT JOIN streams ON streams.execution = wanted.execution
    )",
    oldest!()
);

pub(crate) const OLDEST_ALONG: &str = concat!(
    streaming!(
        ",
    wanted AS (
        SELECT streaming.execution, sorts.live, sorts.frames,
            CASE WHEN sorts.live THEN live_gone ELSE gone END AS gone
        FROM streaming
        JOIN streams ON streams.execution = streaming.execution
        CROSS JOIN unnest($4::boolean[], $5::bigint[]) AS sorts (live, frames)
    )"
    ),
    oldest!()
);

pub(crate) const ADD: &str = "
    INSERT INTO chunks
    SELECT *
    FROM unnest($1::chunks[])";

/// A chunk that ends by then begins by then: only these are visited, and nothing that was removed before.
pub(crate) const DROP: &str = "
    WITH old AS (
        SELECT old.*,
            coalesce(CASE WHEN old.live THEN live_gone ELSE gone END, 0) AS gone
        FROM unnest($1::bigint[], $2::boolean[], $3::bigint[]) AS old (execution, live, through)
        LEFT JOIN streams ON streams.execution = old.execution
    )
    DELETE FROM chunks
    USING old
    WHERE chunks.execution = old.execution AND chunks.live = old.live
        AND chunks.first > old.gone
        AND chunks.first <= old.through AND chunks.last <= old.through";

/// What is left of executions that are gone, which nobody else looks for.
pub(crate) const TRIM: &str = "
    WITH left_over AS MATERIALIZED (
        SELECT chunks.execution, chunks.live, chunks.first
        FROM unnest($1::bigint[]) AS gone (execution)
        JOIN chunks ON chunks.execution = gone.execution
        LIMIT $2
    )
    DELETE FROM chunks
    USING left_over
    WHERE chunks.execution = left_over.execution AND chunks.live = left_over.live
        AND chunks.first = left_over.first
    RETURNING 1";
