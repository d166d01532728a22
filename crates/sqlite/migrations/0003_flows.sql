-- Two more states, and what ties executions together into flows.
ALTER TABLE executions RENAME TO old_executions;

-- The hot row. States: 0 waiting, 1 resumable, 2 delayed, 3 granted, 4 active, 5 waiting for
-- others; from 10 on it is over: 10 completed, 11 failed, 12 cancelled, 13 expired, 14 skipped.
-- Held: 0 by nobody, 1 by an operator, 2 by its flow, 3 by both. Conditions that are joined by AND
-- and OR alone cost each write a third of what a CASE does.
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
    spawned     INTEGER NOT NULL CHECK (spawned BETWEEN 0 AND 1),
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
    ),
    CHECK (flow IS NULL OR node IS NOT NULL AND coalesce(length(flow_uuid), 0) = 16)
) STRICT;

INSERT INTO executions (
    id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
    deadline_at, created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret,
    ttl_ms, detail, policy, tags, created_by, progress, key, spawned
)
SELECT
    id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
    deadline_at, created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret,
    ttl_ms, detail, policy, tags, created_by, progress, key, 0
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

-- What changes of a flow whenever one of its members ends, and no more: the rest lies beside it.
-- States: 0 open, 1 held, 2 cancelling; from 10 on it is over: 10 completed, 11 failed,
-- 12 cancelled, 13 expired.
CREATE TABLE flows (
    id          INTEGER PRIMARY KEY,
    uuid        BLOB    NOT NULL CHECK (length(uuid) = 16),
    namespace   INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    held        INTEGER NOT NULL CHECK (held IN (0, 1)),
    since       INTEGER NOT NULL,
    run         INTEGER NOT NULL,
    deadline_at INTEGER,
    nodes       INTEGER NOT NULL CHECK (nodes >= 0),
    edges       INTEGER NOT NULL CHECK (edges >= 0),
    completed   INTEGER NOT NULL CHECK (completed >= 0),
    failed      INTEGER NOT NULL CHECK (failed >= 0),
    cancelled   INTEGER NOT NULL CHECK (cancelled >= 0),
    expired     INTEGER NOT NULL CHECK (expired >= 0),
    skipped     INTEGER NOT NULL CHECK (skipped >= 0),
    unhandled   INTEGER NOT NULL CHECK (unhandled >= 0),
    unsettled   INTEGER NOT NULL CHECK (unsettled >= 0),
    closing     TEXT,
    CHECK (
        state <= 1 AND held = state AND closing IS NULL
        OR state = 2 AND closing IS NOT NULL
        OR state BETWEEN 10 AND 13
    )
) STRICT;

CREATE UNIQUE INDEX flows_by_uuid ON flows (uuid, namespace);
CREATE INDEX flows_of_namespace ON flows (namespace);

CREATE TABLE flow_terms (
    flow        INTEGER PRIMARY KEY,
    kind        TEXT,
    created_at  INTEGER NOT NULL,
    parent      INTEGER,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 16),
    terms       TEXT,
    tags        TEXT
) STRICT;

-- Condition: 0 the source completed, 1 it failed, 2 it is over.
CREATE TABLE edges (
    source    INTEGER NOT NULL,
    target    INTEGER NOT NULL,
    ordinal   INTEGER NOT NULL,
    flow      INTEGER NOT NULL,
    condition INTEGER NOT NULL CHECK (condition IN (0, 1, 2)),
    applied   INTEGER NOT NULL CHECK (applied IN (0, 1)),
    bind      TEXT,
    uuid      BLOB CHECK (length(uuid) = 16),
    PRIMARY KEY (source, target, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_into ON edges (target, source, ordinal);
CREATE INDEX edges_bound ON edges (target, source, ordinal) WHERE bind IS NOT NULL;
CREATE UNIQUE INDEX edges_by_uuid ON edges (flow, uuid) WHERE uuid IS NOT NULL;

-- Need: how many sources, or 0 for all and -1 for any. Rest: 0 runs on, 1 is cancelled. Otherwise:
-- 0 skip, 1 resume; what it began with are the need and rest from before it made others. Verdict:
-- 1 satisfied, 2 impossible, 3 moot.
CREATE TABLE joins (
    target     INTEGER PRIMARY KEY,
    need       INTEGER NOT NULL CHECK (need >= -1),
    rest       INTEGER NOT NULL CHECK (rest IN (0, 1)),
    otherwise  INTEGER NOT NULL CHECK (otherwise IN (0, 1)),
    sources    INTEGER NOT NULL,
    met        INTEGER NOT NULL,
    unmet      INTEGER NOT NULL,
    verdict    INTEGER CHECK (verdict IN (1, 2, 3)),
    began_need INTEGER CHECK (began_need >= -1),
    began_rest INTEGER CHECK (began_rest IN (0, 1)),
    CHECK (met >= 0 AND unmet >= 0 AND met + unmet <= sources),
    CHECK ((began_need IS NULL) = (began_rest IS NULL) AND (began_need IS NULL OR otherwise = 1))
) STRICT;

ALTER TABLE meta ADD COLUMN last_flow INTEGER NOT NULL DEFAULT 0;

ALTER TABLE events ADD COLUMN flow BLOB CHECK (flow IS NULL OR length(flow) = 16);

ALTER TABLE keys RENAME TO old_keys;

CREATE TABLE keys (
    namespace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    execution   BLOB CHECK (length(execution) = 16),
    flow        BLOB CHECK (length(flow) = 16),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 16),
    expires_at  INTEGER,
    PRIMARY KEY (namespace, key),
    CHECK ((execution IS NULL) <> (flow IS NULL))
) STRICT, WITHOUT ROWID;

INSERT INTO keys (namespace, key, execution, fingerprint, expires_at)
SELECT namespace, key, execution, fingerprint, expires_at
FROM old_keys
ORDER BY namespace, key;

DROP TABLE old_keys;

CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

-- The same thing may be left to do more than once.
ALTER TABLE chores RENAME TO old_chores;

-- AUTOINCREMENT, because the newest chore is often the next to go and ids are never used again.
CREATE TABLE chores (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    kind   TEXT    NOT NULL,
    due_at INTEGER NOT NULL
) STRICT;

INSERT INTO chores (id, kind, due_at)
SELECT id, kind, due_at
FROM old_chores
ORDER BY id;

-- The last id handed out goes over to the new table.
DELETE FROM sqlite_sequence WHERE name = 'chores';
UPDATE sqlite_sequence SET name = 'chores' WHERE name = 'old_chores';
DROP TABLE old_chores;

CREATE INDEX chores_by_kind ON chores (kind);
CREATE INDEX chores_by_due ON chores (due_at);
