pub(crate) const OF: &str = "
    SELECT first_at, updated_at, document
    FROM summaries
    WHERE execution = ?1";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO summaries (execution, first_at, updated_at, document)
    VALUES (?1, ?2, ?3, ?4)";

pub(crate) const REMOVE: &str = "
    DELETE FROM summaries
    WHERE execution = ?1";
