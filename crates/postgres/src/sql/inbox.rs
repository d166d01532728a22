/// What `rows::inbox::from_row` reads, in its order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT id, kind, input, content_type, options, execution, refused_at, code, message
    FROM inbox",
            $rest
        )
    };
}

pub(crate) const WAITING: &str = select!(
    "
    WHERE refused_at IS NULL
    ORDER BY id
    LIMIT $1"
);

/// Another process may be at work on what is skipped.
pub(crate) const LOCK_WAITING: &str = select!(
    "
    WHERE refused_at IS NULL
    ORDER BY id
    LIMIT $1
    FOR UPDATE SKIP LOCKED"
);

pub(crate) const REFUSED: &str = select!(
    "
    WHERE refused_at IS NOT NULL AND id > $1
    ORDER BY id
    LIMIT $2"
);

pub(crate) const FIND: &str = select!(
    "
    WHERE id = ANY ($1)"
);

pub(crate) const LOCK: &str = select!(
    "
    WHERE id = ANY ($1)
    ORDER BY id
    FOR UPDATE"
);

pub(crate) const LOCK_NOWAIT: &str = select!(
    "
    WHERE id = ANY ($1)
    ORDER BY id
    FOR UPDATE NOWAIT"
);

pub(crate) const COUNT: &str = "
    SELECT
        (SELECT count(*) FROM inbox WHERE refused_at IS NULL),
        (SELECT count(*) FROM inbox WHERE refused_at IS NOT NULL)";

pub(crate) const ADD: &str = "
    INSERT INTO inbox (kind, input, content_type, options, execution)
    SELECT kind, input, content_type, options, execution
    FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::uuid[])
        WITH ORDINALITY AS new (kind, input, content_type, options, execution, place)
    ORDER BY place";

pub(crate) const SAVE: &str = "
    UPDATE inbox SET
        refused_at = new.refused_at,
        code = new.code,
        message = new.message
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])
        AS new (id, refused_at, code, message)
    WHERE inbox.id = new.id";

pub(crate) const DROP: &str = "
    DELETE FROM inbox
    WHERE id = ANY ($1)";
