/// Where the chunks of one sort stand that have frames from `?2` to `?3`. Chunks do not overlap, so
/// that only the last one that begins before the first frame can reach it.
macro_rules! with_frames {
    ($live:literal) => {
        concat!(
            "SELECT id, first, last
            FROM chunks
            WHERE execution = ?1 AND live = ",
            $live,
            " AND first >= coalesce((
                SELECT first
                FROM chunks
                WHERE execution = ?1 AND live = ",
            $live,
            " AND first <= ?2
                ORDER BY first DESC
                LIMIT 1
            ), 0) AND first <= ?3 AND last >= ?2"
        )
    };
}

pub(crate) const DURABLE: &str = concat!(with_frames!("0"), " ORDER BY first");

pub(crate) const LAST_DURABLE: &str = concat!(with_frames!("0"), " ORDER BY first DESC");

/// Each sort is in order, and both are merged while they are read.
pub(crate) const ANY: &str =
    concat!(with_frames!("0"), " UNION ALL ", with_frames!("1"), " ORDER BY first");

pub(crate) const LAST_ANY: &str =
    concat!(with_frames!("0"), " UNION ALL ", with_frames!("1"), " ORDER BY first DESC");

pub(crate) const BY_ID: &str = "
    SELECT execution, live, first, facts, bytes
    FROM chunks
    WHERE id = ?1";

pub(crate) const OLDEST: &str = "
    SELECT first, last
    FROM chunks
    WHERE execution = ?1 AND live = ?2
    ORDER BY first";

pub(crate) const ADD: &str = "
    INSERT INTO chunks (execution, live, first, last, facts, bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// A chunk that ends by then begins by then: only these are visited.
pub(crate) const DROP_OLDEST: &str = "
    DELETE FROM chunks
    WHERE execution = ?1 AND live = ?2 AND first <= ?3 AND last <= ?3";

pub(crate) const TRIM: &str = "
    DELETE FROM chunks
    WHERE id IN (
        SELECT id
        FROM chunks
        WHERE execution = ?1
        LIMIT ?2
    )";
