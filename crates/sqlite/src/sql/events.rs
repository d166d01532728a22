macro_rules! columns {
    () => {
        "
        cursor,
        kind,
        at,
        namespace,
        uuid,
        lane,
        attempt,
        epoch,
        worker,
        tags,
        data,
        flow"
    };
}

pub(crate) const AFTER: &str = concat!(
    "SELECT",
    columns!(),
    "
    FROM events
    WHERE cursor > ?1
    ORDER BY cursor
    LIMIT ?2"
);

pub(crate) const OF_EXECUTION: &str = concat!(
    "SELECT",
    columns!(),
    "
    FROM events INDEXED BY events_of_execution
    WHERE execution = ?3 AND cursor > ?1
    ORDER BY cursor
    LIMIT ?2"
);

pub(crate) const FIRST: &str = "
    SELECT min(cursor)
    FROM events";

pub(crate) const LAST: &str = "
    SELECT max(cursor)
    FROM events";

pub(crate) const ADD: &str = concat!(
    "INSERT INTO events (",
    columns!(),
    ",
        execution
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
);

pub(crate) const OLDEST: &str = "
    SELECT cursor, at
    FROM events
    WHERE cursor < ?1
    ORDER BY cursor
    LIMIT ?2";

pub(crate) const DROP_UP_TO: &str = "
    DELETE FROM events
    WHERE cursor <= ?1";
