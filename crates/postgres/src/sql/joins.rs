macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT joins.target, need, rest, otherwise, sources, met, unmet, verdict, began_need, began_rest",
            $rest
        )
    };
}

/// Of executions in some rows, and of those and the targets of those that `edges::FROM` finds.
pub(crate) const FIND: &str = concat!(
    "
    WITH named AS (
        SELECT executions.id
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        UNION ALL
        SELECT executions.id
        FROM unnest($3::bigint[], $4::text[]) AS wanted (flow, node)
        JOIN executions ON executions.flow = wanted.flow AND executions.node = wanted.node
    ),
    wanted AS (
        SELECT unnest($10::bigint[]) AS target
        UNION
        SELECT id
        FROM named
        UNION
        SELECT edges.target
        FROM (
            SELECT id, $5::bigint, $6::bigint
            FROM named
            UNION ALL
            SELECT *
            FROM unnest($7::bigint[], $8::bigint[], $9::bigint[])
        ) AS sources (source, after, most)
        CROSS JOIN LATERAL (
            SELECT edges.target
            FROM edges
            WHERE edges.source = sources.source AND edges.target > sources.after
            ORDER BY edges.target, edges.ordinal
            LIMIT sources.most
        ) AS edges
    )",
    select!(
        "
    FROM wanted
    JOIN joins ON joins.target = wanted.target"
    )
);

pub(crate) const OF: &str = select!(
    "
    FROM joins
    WHERE target = ANY ($1)"
);

pub(crate) const PUT: &str = "
    INSERT INTO joins
    SELECT *
    FROM unnest($1::joins[])
    ON CONFLICT (target) DO UPDATE SET
        need = excluded.need,
        rest = excluded.rest,
        otherwise = excluded.otherwise,
        sources = excluded.sources,
        met = excluded.met,
        unmet = excluded.unmet,
        verdict = excluded.verdict,
        began_need = excluded.began_need,
        began_rest = excluded.began_rest";

pub(crate) const DROP: &str = "
    DELETE FROM joins
    WHERE target = ANY ($1)";
