/// What `rows::signals::from_row` reads, in its order: everything but the payload.
macro_rules! columns {
    () => {
        "
        signals.execution,
        signals.seq,
        signals.uuid,
        signals.waitpoint,
        signals.key,
        signals.run,
        signals.suspension,
        signals.counted,
        signals.facts"
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

pub(super) use columns;

pub(crate) const BY_KEY: &str = select!(
    "
    FROM unnest($1::bigint[], $2::text[]) AS wanted (execution, key)
    JOIN signals ON signals.execution = wanted.execution AND signals.key = wanted.key"
);

/// Those of some runs that nothing has taken. The offset keeps the planner from looking through all
/// that is kept.
pub(crate) const KEPT: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution, run)
    CROSS JOIN LATERAL (
        SELECT *
        FROM signals
        WHERE signals.execution = wanted.execution AND signals.run = wanted.run
            AND signals.suspension IS NULL
        OFFSET 0
    ) AS signals
    ORDER BY signals.execution, signals.seq"
);

pub(crate) const TAKEN: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS pages (execution, suspension, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM signals
        WHERE signals.execution = pages.execution AND signals.suspension = pages.suspension
            AND signals.seq > pages.after
        ORDER BY signals.seq
        LIMIT pages.most
    ) AS signals
    ORDER BY signals.execution, signals.seq"
);

/// As [`TAKEN`], and what the last suspensions of some executions ($5) have taken, as many of each
/// ($6); with the payloads, as long as all of them together are not too large ($7).
pub(crate) const TAKEN_WITH_PAYLOADS: &str = concat!(
    "
    WITH pages AS (
        SELECT *
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
            AS pages (execution, suspension, after, most)
        UNION ALL
        SELECT last.execution, last.number, 0, $6::bigint
        FROM unnest($5::bigint[]) AS wanted (execution)
        CROSS JOIN LATERAL (
            SELECT suspensions.execution, suspensions.number
            FROM suspensions
            WHERE suspensions.execution = wanted.execution
            ORDER BY suspensions.number DESC
            LIMIT 1
        ) AS last
    )",
    select!(
        ",
        signals.content_type,
        CASE
            WHEN sum(octet_length(signals.bytes)) OVER (ORDER BY signals.execution, signals.seq)
                <= $7::bigint
            THEN signals.bytes
        END
    FROM pages
    CROSS JOIN LATERAL (
        SELECT *
        FROM signals
        WHERE signals.execution = pages.execution AND signals.suspension = pages.suspension
            AND signals.seq > pages.after
        ORDER BY signals.seq
        LIMIT pages.most
    ) AS signals"
    )
);

pub(crate) const LAST: &str = "
    SELECT seq
    FROM signals
    WHERE execution = $1
    ORDER BY seq DESC
    LIMIT 1";

pub(crate) const PAGES: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (execution, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM signals
        WHERE signals.execution = pages.execution AND signals.seq > pages.after
        ORDER BY signals.seq
        LIMIT pages.most
    ) AS signals
    ORDER BY signals.execution, signals.seq"
);

pub(crate) const PAYLOADS: &str = "
    SELECT signals.execution, signals.seq, signals.content_type, signals.bytes
    FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution, seq)
    JOIN signals ON signals.execution = wanted.execution AND signals.seq = wanted.seq";

pub(crate) const ADD: &str = "
    INSERT INTO signals
    SELECT *
    FROM unnest($1::signals[])";

/// Everything that may change.
pub(crate) const SAVE: &str = "
    UPDATE signals SET
        suspension = new.suspension,
        counted = new.counted
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[])
        AS new (execution, seq, suspension, counted)
    WHERE signals.execution = new.execution AND signals.seq = new.seq";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM signals
    WHERE execution = ANY ($1)";
