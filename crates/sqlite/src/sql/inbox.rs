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
    " INDEXED BY inbox_waiting
    WHERE refused_at IS NULL
    ORDER BY id
    LIMIT ?1"
);

pub(crate) const REFUSED: &str = select!(
    " INDEXED BY inbox_refused
    WHERE refused_at IS NOT NULL AND id > ?1
    ORDER BY id
    LIMIT ?2"
);

pub(crate) const FIND: &str = select!(
    "
    WHERE id = ?1"
);

pub(crate) const COUNT: &str = "
    SELECT
        (SELECT count(*) FROM inbox INDEXED BY inbox_waiting WHERE refused_at IS NULL),
        (SELECT count(*) FROM inbox INDEXED BY inbox_refused WHERE refused_at IS NOT NULL)";

pub(crate) const ADD: &str = "
    INSERT INTO inbox (kind, input, content_type, options, execution)
    VALUES (?1, ?2, ?3, ?4, ?5)";

pub(crate) const SAVE: &str = "
    UPDATE inbox SET
        refused_at = ?2,
        code = ?3,
        message = ?4
    WHERE id = ?1";

pub(crate) const DROP: &str = "
    DELETE FROM inbox
    WHERE id = ?1";
