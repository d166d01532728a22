/// What `rows::signals::from_row` reads, in its order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT execution, seq, uuid, waitpoint, key, run, suspension, counted, facts",
            $rest
        )
    };
}

pub(crate) const LAST_SEQ: &str = "
    SELECT seq
    FROM signals
    WHERE execution = ?1
    ORDER BY seq DESC
    LIMIT 1";

pub(crate) const BY_KEY: &str = select!(
    "
    FROM signals INDEXED BY signals_by_key
    WHERE execution = ?1 AND key = ?2"
);

pub(crate) const KEPT: &str = select!(
    "
    FROM signals INDEXED BY signals_kept
    WHERE execution = ?1 AND run = ?2 AND suspension IS NULL
    ORDER BY seq"
);

pub(crate) const TAKEN: &str = select!(
    "
    FROM signals INDEXED BY signals_taken
    WHERE execution = ?1 AND suspension = ?2 AND seq > ?3
    ORDER BY seq
    LIMIT ?4"
);

pub(crate) const AFTER: &str = select!(
    "
    FROM signals
    WHERE execution = ?1 AND seq > ?2
    ORDER BY seq
    LIMIT ?3"
);

pub(crate) const PAYLOAD: &str = "
    SELECT payloads.content_type, payloads.bytes
    FROM signals LEFT JOIN payloads ON payloads.id = signals.payload
    WHERE signals.execution = ?1 AND signals.seq = ?2";

pub(crate) const ADD: &str = "
    INSERT INTO signals (
        execution, seq, uuid, waitpoint, key, run, suspension, counted, facts, payload
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

pub(crate) const SAVE: &str = "
    UPDATE signals SET
        suspension = ?3,
        counted = ?4
    WHERE execution = ?1 AND seq = ?2";

pub(crate) const DROP_PAYLOADS: &str = "
    DELETE FROM payloads
    WHERE id IN (
        SELECT payload
        FROM signals
        WHERE execution = ?1 AND payload IS NOT NULL
    )";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM signals
    WHERE execution = ?1";
