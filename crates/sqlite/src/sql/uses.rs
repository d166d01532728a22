pub(crate) const OF: &str = "
    SELECT execution, limit_id, open, gate, share
    FROM uses
    WHERE execution = ?1
    ORDER BY limit_id";

pub(crate) const OPEN: &str = "
    SELECT execution, limit_id, open, gate, share
    FROM uses INDEXED BY uses_of_limit
    WHERE limit_id = ?1 AND open = 1 AND execution > ?2
    ORDER BY execution
    LIMIT ?3";

/// One that stays as open or as closed as it is, which no index takes notice of.
pub(crate) const SAVE: &str = "
    UPDATE uses SET
        gate = ?4,
        share = ?5
    WHERE execution = ?1 AND limit_id = ?2 AND open = ?3";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO uses (execution, limit_id, open, gate, share)
    VALUES (?1, ?2, ?3, ?4, ?5)";

pub(crate) const DROP: &str = "
    DELETE FROM uses
    WHERE execution = ?1 AND limit_id = ?2";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM uses
    WHERE execution = ?1";

pub(crate) const DROP_OF_LIMIT: &str = "
    DELETE FROM uses
    WHERE limit_id = ?1";
