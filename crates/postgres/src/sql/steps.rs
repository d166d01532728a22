macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT steps.execution, steps.seq, steps.name, steps.occurrence, steps.facts",
            $rest
        )
    };
}

pub(crate) const BY_NAME: &str = select!(
    "
    FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS wanted (execution, name, occurrence)
    JOIN steps ON steps.execution = wanted.execution AND steps.name = wanted.name
        AND steps.occurrence = wanted.occurrence"
);

pub(crate) const LAST: &str = "
    SELECT wanted.execution, steps.seq
    FROM unnest($1::bigint[]) AS wanted (execution)
    CROSS JOIN LATERAL (
        SELECT seq
        FROM steps
        WHERE steps.execution = wanted.execution
        ORDER BY seq DESC
        LIMIT 1
    ) AS steps";

pub(crate) const PAGES: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (execution, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM steps
        WHERE steps.execution = pages.execution AND steps.seq > pages.after
        ORDER BY steps.seq
        LIMIT pages.most
    ) AS steps
    ORDER BY steps.execution, steps.seq"
);

/// As [`PAGES`], with the results, as long as all of them together are not too large ($4).
pub(crate) const PAGES_WITH_RESULTS: &str = select!(
    ",
        steps.content_type,
        CASE
            WHEN sum(octet_length(steps.bytes)) OVER (ORDER BY steps.execution, steps.seq)
                <= $4::bigint
            THEN steps.bytes
        END
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (execution, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM steps
        WHERE steps.execution = pages.execution AND steps.seq > pages.after
        ORDER BY steps.seq
        LIMIT pages.most
    ) AS steps"
);

pub(crate) const RESULTS: &str = "
    SELECT steps.execution, steps.seq, steps.content_type, steps.bytes
    FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution, seq)
    JOIN steps ON steps.execution = wanted.execution AND steps.seq = wanted.seq";

pub(crate) const ADD: &str = "
    INSERT INTO steps
    SELECT *
    FROM unnest($1::steps[])";

/// From some numbers on.
pub(crate) const DROP: &str = "
    DELETE FROM steps
    USING unnest($1::bigint[], $2::bigint[]) AS old (execution, seq)
    WHERE steps.execution = old.execution AND steps.seq >= old.seq";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM steps
    WHERE execution = ANY ($1)";
