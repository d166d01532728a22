-- One more state, and what an execution that waits for signals keeps beside it.
ALTER TABLE executions RENAME TO old_executions;

-- The hot row. States: 0 waiting, 1 resumable, 2 delayed, 3 granted, 4 active, 5 waiting for
-- others, 6 suspended; from 10 on it is over: 10 completed, 11 failed, 12 cancelled, 13 expired,
-- 14 skipped.
-- Held: 0 by nobody, 1 by an operator, 2 by its flow, 3 by both. Beside it lie, as bits: 1 others
-- it has made, 2 suspensions, waitpoints or signals, 4 steps. Conditions that are joined by AND and
-- OR alone cost each write a third of what a CASE does.
CREATE TABLE executions (
    id          INTEGER PRIMARY KEY,
    uuid        BLOB    NOT NULL CHECK (length(uuid) = 16),
    namespace   INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    route       INTEGER NOT NULL,
    priority    INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9000),
    rank        INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    held        INTEGER NOT NULL CHECK (held BETWEEN 0 AND 3),
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
    beside      INTEGER NOT NULL CHECK (beside >= 0),
    parent      INTEGER,
    flow        INTEGER,
    flow_uuid   BLOB,
    node        TEXT,
    CHECK (
        until IS NULL AND worker IS NULL AND secret IS NULL AND ttl_ms IS NULL
            AND (
                state BETWEEN 0 AND 1
                OR detail IS NOT NULL AND (state BETWEEN 10 AND 14 OR state = 5)
            )
        OR state = 4 AND until IS NOT NULL AND worker IS NOT NULL AND secret IS NOT NULL
            AND ttl_ms IS NOT NULL
        OR state = 3 AND until IS NOT NULL AND worker IS NOT NULL AND secret IS NOT NULL
            AND ttl_ms IS NULL
        OR state = 2 AND until IS NOT NULL AND worker IS NULL AND secret IS NULL
            AND ttl_ms IS NULL
        OR state = 6 AND detail IS NOT NULL AND worker IS NULL AND secret IS NULL
            AND ttl_ms IS NULL
    ),
    CHECK (flow IS NULL OR node IS NOT NULL AND coalesce(length(flow_uuid), 0) = 16)
) STRICT;

INSERT INTO executions (
    id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
    deadline_at, created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret,
    ttl_ms, detail, policy, tags, created_by, progress, key, beside, parent, flow, flow_uuid, node
)
SELECT
    id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
    deadline_at, created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret,
    ttl_ms, detail, policy, tags, created_by, progress, key, spawned, parent, flow, flow_uuid, node
FROM old_executions
ORDER BY id;

-- Its indexes go with it.
DROP TABLE old_executions;

CREATE UNIQUE INDEX executions_by_uuid ON executions (uuid, namespace);

-- What may be claimed, in the order in which it is.
CREATE INDEX ready ON executions (lane, route, priority DESC, rank) WHERE state <= 1 AND held = 0;

-- What time alone changes, and what time alone removes.
CREATE INDEX due ON executions (due_at) WHERE due_at IS NOT NULL AND state < 10;
CREATE INDEX retired ON executions (due_at) WHERE due_at IS NOT NULL AND state >= 10;

CREATE INDEX owned ON executions (worker, namespace) WHERE worker IS NOT NULL;

-- What people look for after it ended; completed executions cost it nothing.
CREATE INDEX troubled ON executions (namespace, state) WHERE state > 10;

CREATE UNIQUE INDEX members ON executions (flow, node) WHERE flow IS NOT NULL;

-- What an execution has made and must not leave behind.
CREATE INDEX children ON executions (parent) WHERE parent IS NOT NULL AND state < 10;

-- Bytes that signals and steps bring along, each named by the row it belongs to; empty ones have no
-- row. A content type is null for application/octet-stream, 1 for application/json, else its text.
-- Large rows stay out of tables without rowids, whose inner pages hold rows as well.
CREATE TABLE payloads (
    id           INTEGER PRIMARY KEY,
    content_type ANY,
    bytes        BLOB NOT NULL
) STRICT;

CREATE TABLE suspensions (
    execution INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    run       INTEGER NOT NULL,
    key       TEXT,
    terms     TEXT    NOT NULL,
    course    TEXT    NOT NULL,
    PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX suspensions_by_key ON suspensions (execution, run, key) WHERE key IS NOT NULL;

CREATE TABLE waitpoints (
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    uuid        BLOB    NOT NULL CHECK (length(uuid) = 16),
    namespace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    kid         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 8),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    open        INTEGER NOT NULL CHECK (open BETWEEN 0 AND 1),
    state       TEXT    NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX waitpoints_by_uuid ON waitpoints (execution, uuid);

-- What signals can still come to: of an execution, and of a namespace.
CREATE INDEX waitpoints_open ON waitpoints (execution) WHERE open = 1;
CREATE INDEX waitpoints_inbox ON waitpoints (namespace, uuid) WHERE open = 1;

-- A signal without a waitpoint came to the execution itself; one without a suspension is kept for
-- one to come.
CREATE TABLE signals (
    execution  INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    uuid       BLOB    NOT NULL CHECK (length(uuid) = 16),
    waitpoint  BLOB CHECK (length(waitpoint) = 16),
    key        TEXT,
    run        INTEGER NOT NULL,
    suspension INTEGER,
    counted    INTEGER CHECK (counted BETWEEN 0 AND 1),
    payload    INTEGER,
    facts      TEXT    NOT NULL,
    PRIMARY KEY (execution, seq),
    CHECK ((suspension IS NULL) = (counted IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX signals_kept ON signals (execution, run) WHERE suspension IS NULL;
CREATE INDEX signals_taken ON signals (execution, suspension) WHERE suspension IS NOT NULL;
CREATE UNIQUE INDEX signals_by_key ON signals (execution, key) WHERE key IS NOT NULL;

CREATE TABLE steps (
    execution  INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    occurrence INTEGER NOT NULL,
    result     INTEGER,
    facts      TEXT    NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX steps_by_name ON steps (execution, name, occurrence);

-- A key that is of no more use has no secret.
CREATE TABLE signing_keys (
    namespace  INTEGER NOT NULL,
    kid        TEXT    NOT NULL,
    secret     BLOB CHECK (length(secret) = 32),
    created_at INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    PRIMARY KEY (namespace, kid)
) STRICT, WITHOUT ROWID;
