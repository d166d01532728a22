/// What `rows::waitpoints::from_row` reads, in its order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT execution, seq, uuid, namespace, key, kid, fingerprint, created_at, expires_at, state",
            $rest
        )
    };
}

pub(crate) const BY_UUID: &str = select!(
    "
    FROM waitpoints INDEXED BY waitpoints_by_uuid
    WHERE execution = ?1 AND uuid = ?2"
);

pub(crate) const OPEN: &str = select!(
    "
    FROM waitpoints INDEXED BY waitpoints_open
    WHERE execution = ?1 AND open = 1
    ORDER BY seq"
);

pub(crate) const LAST_SEQ: &str = "
    SELECT seq
    FROM waitpoints
    WHERE execution = ?1
    ORDER BY seq DESC
    LIMIT 1";

pub(crate) const AFTER: &str = select!(
    "
    FROM waitpoints
    WHERE execution = ?1 AND seq > ?2
    ORDER BY seq
    LIMIT ?3"
);

pub(crate) const INBOX: &str = select!(
    "
    FROM waitpoints INDEXED BY waitpoints_inbox
    WHERE namespace = ?1 AND open = 1 AND uuid > ?2 AND (?3 IS NULL OR key = ?3)
    ORDER BY uuid
    LIMIT ?4"
);

pub(crate) const COUNT_SIGNED: &str = "
    SELECT count(*)
    FROM waitpoints INDEXED BY waitpoints_inbox
    WHERE namespace = ?1 AND open = 1 AND kid = ?2";

pub(crate) const ADD: &str = "
    INSERT INTO waitpoints (
        execution, seq, uuid, namespace, key, kid, fingerprint, created_at, expires_at, state, open
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// One that stays open: no index changes.
pub(crate) const SAVE_OPEN: &str = "
    UPDATE waitpoints SET
        kid = ?3,
        fingerprint = ?4,
        state = ?5
    WHERE execution = ?1 AND seq = ?2 AND open = 1";

pub(crate) const SAVE: &str = "
    UPDATE waitpoints SET
        kid = ?3,
        fingerprint = ?4,
        state = ?5,
        open = ?6
    WHERE execution = ?1 AND seq = ?2";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM waitpoints
    WHERE execution = ?1";
