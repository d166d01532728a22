/// What `rows::waitpoints::from_row` reads, in its order.
macro_rules! columns {
    () => {
        "
        waitpoints.execution,
        waitpoints.seq,
        waitpoints.uuid,
        waitpoints.namespace,
        waitpoints.key,
        waitpoints.kid,
        waitpoints.fingerprint,
        waitpoints.created_at,
        waitpoints.expires_at,
        waitpoints.state"
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

pub(crate) const BY_UUID: &str = select!(
    "
    FROM unnest($1::bigint[], $2::uuid[]) AS wanted (execution, uuid)
    JOIN waitpoints ON waitpoints.execution = wanted.execution AND waitpoints.uuid = wanted.uuid"
);

pub(crate) const OPEN: &str = select!(
    "
    FROM waitpoints
    WHERE execution = $1 AND open
    ORDER BY seq"
);

pub(crate) const LAST: &str = "
    SELECT seq
    FROM waitpoints
    WHERE execution = $1
    ORDER BY seq DESC
    LIMIT 1";

pub(crate) const PAGES: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (execution, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM waitpoints
        WHERE waitpoints.execution = pages.execution AND waitpoints.seq > pages.after
        ORDER BY waitpoints.seq
        LIMIT pages.most
    ) AS waitpoints
    ORDER BY waitpoints.execution, waitpoints.seq"
);

/// Open ones of a namespace after one ($2), of one key ($3) if so asked.
pub(crate) const INBOX: &str = select!(
    "
    FROM waitpoints
    WHERE namespace = $1 AND open AND uuid > $2 AND ($3::text IS NULL OR key = $3)
    ORDER BY uuid
    LIMIT $4"
);

/// How many open ones are signed by which of some keys.
pub(crate) const SIGNED: &str = "
    SELECT wanted.namespace, wanted.kid, count(*)
    FROM unnest($1::bigint[], $2::text[]) AS wanted (namespace, kid)
    JOIN waitpoints ON waitpoints.namespace = wanted.namespace AND waitpoints.open
        AND waitpoints.kid = wanted.kid
    GROUP BY 1, 2";

pub(crate) const ADD: &str = "
    INSERT INTO waitpoints
    SELECT *
    FROM unnest($1::waitpoints[])";

/// Everything that may change.
pub(crate) const SAVE: &str = "
    UPDATE waitpoints SET
        kid = new.kid,
        fingerprint = new.fingerprint,
        open = new.open,
        state = new.state
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::boolean[], $6::text[])
        AS new (execution, seq, kid, fingerprint, open, state)
    WHERE waitpoints.execution = new.execution AND waitpoints.seq = new.seq";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM waitpoints
    WHERE execution = ANY ($1)";
