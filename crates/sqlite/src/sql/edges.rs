/// What `rows::edges::from_row` reads, in its order.
macro_rules! columns {
    () => {
        "
        source,
        target,
        ordinal,
        flow,
        condition,
        applied,
        bind,
        uuid"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT", columns!(), $rest)
    };
}

pub(crate) const FROM: &str = select!(
    "
    FROM edges
    WHERE source = ?1 AND target > ?2
    ORDER BY target, ordinal
    LIMIT ?3"
);

pub(crate) const INTO: &str = select!(
    "
    FROM edges INDEXED BY edges_into
    WHERE target = ?1
    ORDER BY source, ordinal"
);

pub(crate) const BOUND: &str = select!(
    "
    FROM edges INDEXED BY edges_bound
    WHERE target = ?1 AND bind IS NOT NULL
    ORDER BY source, ordinal"
);

pub(crate) const BY_UUID: &str = select!(
    "
    FROM edges INDEXED BY edges_by_uuid
    WHERE flow = ?1 AND uuid = ?2"
);

/// Every edge between what can be reached from some rows, given as a JSON array.
pub(crate) const REACH: &str = "
    WITH RECURSIVE reached (row) AS (
        SELECT value
        FROM json_each(?1)
        UNION
        SELECT edges.target
        FROM reached CROSS JOIN edges ON edges.source = reached.row
    )
    SELECT DISTINCT edges.source, edges.target
    FROM reached CROSS JOIN edges ON edges.source = reached.row
    ORDER BY edges.source, edges.target";

pub(crate) const ADD: &str = concat!(
    "INSERT INTO edges (",
    columns!(),
    ")
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
);

pub(crate) const SAVE: &str = "
    UPDATE edges SET
        applied = ?4
    WHERE source = ?1 AND target = ?2 AND ordinal = ?3";

pub(crate) const DROP: &str = "
    DELETE FROM edges
    WHERE source = ?1 AND target = ?2 AND ordinal = ?3";

pub(crate) const DROP_FROM: &str = "
    DELETE FROM edges
    WHERE source = ?1";

pub(crate) const DROP_INTO: &str = "
    DELETE FROM edges INDEXED BY edges_into
    WHERE target = ?1";
