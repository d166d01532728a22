/// The last one that begins not after a number.
pub(crate) const FIND: &str = "
    SELECT first, last, at
    FROM passages
    WHERE gate = ?1 AND first <= ?2
    ORDER BY first DESC
    LIMIT 1";

pub(crate) const PUT: &str = "
    INSERT INTO passages (gate, first, last, at)
    VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (gate, first) DO UPDATE SET
        last = excluded.last,
        at = excluded.at";

pub(crate) const DROP_THROUGH: &str = "
    DELETE FROM passages
    WHERE gate = ?1 AND first <= ?2 AND last <= ?2";
