pub(crate) const FIND: &str = "
    SELECT execution, flow, fingerprint, expires_at
    FROM keys
    WHERE namespace = ?1 AND key = ?2";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO keys (namespace, key, execution, flow, fingerprint, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub(crate) const DROP: &str = "
    DELETE FROM keys
    WHERE namespace = ?1 AND key = ?2";

pub(crate) const TRIM: &str = "
    DELETE FROM keys
    WHERE (namespace, key) IN (
        SELECT namespace, key
        FROM keys INDEXED BY keys_by_expiry
        WHERE expires_at <= ?1
        ORDER BY expires_at
        LIMIT ?2
    )";
