pub(crate) const OF: &str = "
    SELECT namespace, kid, secret, created_at, state
    FROM signing_keys
    WHERE namespace = ?1
    ORDER BY kid";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO signing_keys (namespace, kid, secret, created_at, state)
    VALUES (?1, ?2, ?3, ?4, ?5)";
