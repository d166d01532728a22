pub(crate) const STATE: &str = "
    SELECT state
    FROM streams
    WHERE execution = ?1";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO streams (execution, state)
    VALUES (?1, ?2)";

pub(crate) const REMOVE: &str = "
    DELETE FROM streams
    WHERE execution = ?1";
