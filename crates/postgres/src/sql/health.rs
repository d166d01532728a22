//! What the server's catalogue and statistics say; nothing here is of ours but the last.

pub(crate) const SETTINGS: &str = "
    SELECT name, setting
    FROM pg_catalog.pg_settings
    WHERE name = ANY ($1)";

pub(crate) const SERVER: &str = "
    SELECT
        pg_is_in_recovery(),
        (SELECT count(*) FROM pg_catalog.pg_stat_replication)";

/// How many more connections this user may make, by each of the limits there are.
pub(crate) const CONNECTIONS_LEFT: &str = "
    SELECT least(
        current_setting('max_connections')::bigint
            - current_setting('superuser_reserved_connections')::bigint
            - (SELECT sum(numbackends) FROM pg_catalog.pg_stat_database)::bigint,
        (
            SELECT nullif(datconnlimit, -1) - numbackends
            FROM pg_catalog.pg_database
            JOIN pg_catalog.pg_stat_database USING (datname)
            WHERE datname = current_database()
        ),
        (
            SELECT nullif(rolconnlimit, -1)
                - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE usename = current_user)
            FROM pg_catalog.pg_roles
            WHERE rolname = current_user
        )
    )";

/// Who keeps old versions of rows from being removed, the oldest first. Only transactions of this
/// database do, except for prepared ones and replication, which hold back all.
pub(crate) const HOLDERS: &str = "
    SELECT who, seconds
    FROM (
        SELECT
            format('process %s of user %s (%s)', pid, coalesce(usename, '?'), coalesce(state, '?')) AS who,
            extract(epoch FROM clock_timestamp() - xact_start)::bigint AS seconds
        FROM pg_catalog.pg_stat_activity
        WHERE datname = current_database()
            AND pid <> pg_backend_pid()
            AND backend_type = 'client backend'
            AND xact_start IS NOT NULL
        UNION ALL
        SELECT
            format('prepared transaction %s', gid),
            extract(epoch FROM clock_timestamp() - prepared)::bigint
        FROM pg_catalog.pg_prepared_xacts
    ) AS holders
    WHERE seconds >= $1
    ORDER BY seconds DESC
    LIMIT 3";

/// Replication slots that nobody reads and that keep old rows or the log.
pub(crate) const ABANDONED_SLOTS: &str = "
    SELECT slot_name::text
    FROM pg_catalog.pg_replication_slots
    WHERE NOT active
    ORDER BY slot_name";

/// Tables of a schema by name: their size, their dead rows, and whether nobody vacuums them.
pub(crate) const TABLES: &str = "
    SELECT
        c.relname::text,
        pg_total_relation_size(c.oid),
        coalesce(s.n_live_tup, 0),
        coalesce(s.n_dead_tup, 0),
        coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false),
        has_table_privilege(c.oid, 'SELECT')
            AND has_table_privilege(c.oid, 'INSERT')
            AND has_table_privilege(c.oid, 'UPDATE')
            AND has_table_privilege(c.oid, 'DELETE')
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_stat_user_tables AS s ON s.relid = c.oid
    WHERE n.nspname = $1 AND c.relkind = 'r'
    ORDER BY c.relname";

/// Committed events that can not be read yet: how many in a number of batches, and for how long already.
pub(crate) const UNNUMBERED: &str = "
    SELECT
        coalesce(sum(size), 0)::bigint,
        coalesce((extract(epoch FROM clock_timestamp()) * 1000)::bigint - min(at), 0)
    FROM (
        SELECT size, at
        FROM batches
        WHERE base IS NULL
        ORDER BY id
        LIMIT 10000
    ) AS waiting";
