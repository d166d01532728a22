/// From the passage that has a number on, as many as wanted.
macro_rules! pages {
    ($of:literal) => {
        concat!(
            "
    SELECT passages.gate, passages.first, passages.last, passages.at
    FROM (",
            $of,
            "
    ) AS pages (gate, number, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM passages
        WHERE passages.gate = pages.gate AND passages.first >= (
            SELECT coalesce(max(before.first), 0)
            FROM passages AS before
            WHERE before.gate = pages.gate AND before.first <= pages.number
        )
        ORDER BY passages.first
        LIMIT pages.most
    ) AS passages
    ORDER BY passages.gate, passages.first"
        )
    };
}

pub(crate) const PAGES: &str = pages!(
    "
        SELECT *
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])"
);

/// The oldest through gates by key and by row: those are asked for next.
pub(crate) const ALONG: &str = pages!(
    "
        SELECT gates.id, 0, $5::bigint
        FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS wanted (namespace, limit_id, key)
        JOIN gates ON gates.limit_id = wanted.limit_id AND gates.namespace = wanted.namespace
            AND gates.key = wanted.key
        UNION ALL
        SELECT gate, 0, $5::bigint
        FROM unnest($4::bigint[]) AS wanted (gate)"
);

pub(crate) const PUT: &str = "
    INSERT INTO passages (gate, first, last, at)
    SELECT *
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    ON CONFLICT (gate, first) DO UPDATE SET
        last = excluded.last,
        at = excluded.at";

/// Those whose last number is not after that one: of those that begin before it, all but the last
/// may be.
pub(crate) const DROP: &str = "
    DELETE FROM passages
    USING unnest($1::bigint[], $2::bigint[]) AS old (gate, through)
    WHERE passages.gate = old.gate AND passages.first <= old.through
        AND passages.last <= old.through";
