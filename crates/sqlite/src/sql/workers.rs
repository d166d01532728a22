macro_rules! columns {
    () => {
        "
        namespace,
        instance,
        name,
        lanes,
        kinds,
        capabilities,
        ttl_ms,
        registered_at,
        seen_at"
    };
}

pub(crate) const FIND: &str = concat!(
    "SELECT",
    columns!(),
    "
    FROM workers
    WHERE namespace = ?1 AND instance = ?2"
);

pub(crate) const AFTER: &str = concat!(
    "SELECT",
    columns!(),
    "
    FROM workers
    WHERE namespace = ?1 AND instance > ?2
    ORDER BY instance
    LIMIT ?3"
);

pub(crate) const LAPSED: &str = concat!(
    "SELECT",
    columns!(),
    "
    FROM workers INDEXED BY workers_by_due
    WHERE due_at <= ?1
    ORDER BY due_at
    LIMIT ?2"
);

pub(crate) const PUT: &str = concat!(
    "INSERT OR REPLACE INTO workers (",
    columns!(),
    ",
        due_at
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
);

pub(crate) const DROP: &str = "
    DELETE FROM workers
    WHERE namespace = ?1 AND instance = ?2";
