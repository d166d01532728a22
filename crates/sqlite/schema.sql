CREATE TABLE chores (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    kind   TEXT    NOT NULL UNIQUE,
    due_at INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    cursor    INTEGER PRIMARY KEY,
    kind      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    execution INTEGER,
    uuid      BLOB CHECK (length(uuid) = 16),
    lane      INTEGER,
    attempt   INTEGER,
    epoch     INTEGER,
    worker    TEXT,
    tags      TEXT,
    data      TEXT,
    CHECK ((execution IS NULL) = (uuid IS NULL))
) STRICT;

CREATE TABLE executions (
    id          INTEGER PRIMARY KEY,
    uuid        BLOB    NOT NULL CHECK (length(uuid) = 16),
    namespace   INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    route       INTEGER NOT NULL,
    priority    INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9000),
    rank        INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    held        INTEGER NOT NULL CHECK (held IN (0, 1)),
    due_at      INTEGER,
    since       INTEGER NOT NULL,
    until       INTEGER,
    deadline_at INTEGER,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    epoch       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    retries     INTEGER NOT NULL,
    reclaims    INTEGER NOT NULL,
    run         INTEGER NOT NULL,
    worker      TEXT,
    secret      BLOB CHECK (length(secret) = 16),
    ttl_ms      INTEGER,
    detail      TEXT,
    policy      TEXT,
    tags        TEXT,
    created_by  TEXT,
    progress    TEXT,
    key         TEXT,
    CHECK (
        CASE state
            WHEN 0 THEN coalesce(until, worker, secret, ttl_ms) IS NULL
            WHEN 1 THEN coalesce(until, worker, secret, ttl_ms) IS NULL
            WHEN 2 THEN until IS NOT NULL AND coalesce(worker, secret, ttl_ms) IS NULL
            WHEN 3 THEN until IS NOT NULL AND worker IS NOT NULL AND secret IS NOT NULL
                AND ttl_ms IS NULL
            WHEN 4 THEN until IS NOT NULL AND worker IS NOT NULL AND secret IS NOT NULL
                AND ttl_ms IS NOT NULL
            ELSE coalesce(until, worker, secret, ttl_ms) IS NULL
                AND state BETWEEN 10 AND 13
                AND detail IS NOT NULL
        END
    )
) STRICT;

CREATE TABLE inbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT NOT NULL,
    input        ANY,
    content_type TEXT,
    options      TEXT,
    execution    BLOB CHECK (length(execution) = 16),
    refused_at   INTEGER,
    code         TEXT,
    message      TEXT,
    CHECK ((refused_at IS NULL) = (code IS NULL) AND (code IS NULL) = (message IS NULL))
) STRICT;

CREATE TABLE inputs (
    execution    INTEGER PRIMARY KEY,
    content_type ANY,
    bytes        BLOB NOT NULL,
    fingerprint  BLOB CHECK (length(fingerprint) = 16)
) STRICT;

CREATE TABLE keys (
    namespace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    execution   BLOB    NOT NULL CHECK (length(execution) = 16),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 16),
    expires_at  INTEGER,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    id         INTEGER PRIMARY KEY,
    namespace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    mode       INTEGER NOT NULL CHECK (mode IN (0, 1, 2)),
    max_active INTEGER          CHECK (max_active >= 0),
    active     INTEGER NOT NULL CHECK (active >= 0),
    defaults   TEXT,
    UNIQUE (namespace, name)
) STRICT;

CREATE TABLE meta (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    last_now INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    commits  INTEGER NOT NULL,
    recent   BLOB    NOT NULL CHECK (length(recent) = 128)
) STRICT;

CREATE TABLE namespaces (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    defaults TEXT
) STRICT;

CREATE TABLE past_leases (
    execution  INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    secret     BLOB    NOT NULL CHECK (length(secret) = 16),
    claimed_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    how        TEXT,
    PRIMARY KEY (execution, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE results (
    execution    INTEGER PRIMARY KEY,
    content_type ANY,
    bytes        BLOB NOT NULL
) STRICT;

CREATE TABLE routes (
    id           INTEGER PRIMARY KEY,
    namespace    INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    capabilities TEXT    NOT NULL,
    UNIQUE (namespace, kind, capabilities)
) STRICT;

CREATE TABLE tags (
    namespace INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    execution INTEGER NOT NULL,
    PRIMARY KEY (namespace, key, value, execution)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    namespace     INTEGER NOT NULL,
    instance      TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    lanes         TEXT    NOT NULL,
    kinds         TEXT    NOT NULL,
    capabilities  TEXT    NOT NULL,
    ttl_ms        INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    PRIMARY KEY (namespace, instance)
) STRICT, WITHOUT ROWID;

CREATE INDEX chores_by_due ON chores (due_at);

CREATE INDEX due ON executions (due_at) WHERE due_at IS NOT NULL AND state < 10;

CREATE INDEX events_of_execution ON events (execution) WHERE execution IS NOT NULL;

CREATE UNIQUE INDEX executions_by_uuid ON executions (uuid, namespace);

CREATE INDEX inbox_refused ON inbox (id) WHERE refused_at IS NOT NULL;

CREATE INDEX inbox_waiting ON inbox (id) WHERE refused_at IS NULL;

CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX owned ON executions (worker, namespace) WHERE worker IS NOT NULL;

CREATE INDEX ready ON executions (lane, route, priority DESC, rank) WHERE state <= 1 AND held = 0;

CREATE INDEX retired ON executions (due_at) WHERE due_at IS NOT NULL AND state >= 10;

CREATE INDEX routes_of_namespace ON routes (namespace);

CREATE INDEX troubled ON executions (namespace, state) WHERE state > 10;

CREATE INDEX workers_by_due ON workers (due_at);
