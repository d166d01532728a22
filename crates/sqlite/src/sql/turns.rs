pub(crate) const FIND: &str = "
    SELECT next
    FROM turns
    WHERE lane = ?1 AND priority = ?2 AND key = ?3";

pub(crate) const PUT: &str = "
    INSERT INTO turns (lane, priority, key, next)
    VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (lane, priority, key) DO UPDATE SET
        next = excluded.next";

pub(crate) const DROP_BEFORE: &str = "
    DELETE FROM turns
    WHERE lane = ?1 AND priority = ?2 AND key IN (
        SELECT key
        FROM turns INDEXED BY turns_in_order
        WHERE lane = ?1 AND priority = ?2 AND next < ?3
        ORDER BY next, key
        LIMIT ?4
    )";
