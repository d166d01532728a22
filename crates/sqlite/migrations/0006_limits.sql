-- One more state, and what limits the use of anything: budgets, quotas and turns by key.
ALTER TABLE executions RENAME TO old_executions;

-- The hot row. States: 0 waiting, 1 resumable, 2 delayed, 3 granted, 4 active, 5 waiting for
-- others, 6 suspended, 7 before a gate; from 10 on it is over: 10 completed, 11 failed,
-- 12 cancelled, 13 expired, 14 skipped.
-- Held: 0 by nobody, 1 by an operator, 2 by its flow, 3 by both. Beside it lie, as bits: 1 others
-- it has made, 2 suspensions, waitpoints or signals, 4 steps, 8 a stream, 16 uses of limits.
-- Conditions that are joined by AND and OR alone cost each write a third of what a CASE does.
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
    gate        INTEGER,
    CHECK (
        until IS NULL AND worker IS NULL AND secret IS NULL AND ttl_ms IS NULL
            AND (
                state BETWEEN 0 AND 1
                OR detail IS NOT NULL
                    AND (state BETWEEN 10 AND 14 OR state = 5 OR state = 7 AND gate IS NOT NULL)
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
    CHECK (gate IS NULL OR state = 7),
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
    ttl_ms, detail, policy, tags, created_by, progress, key, beside, parent, flow, flow_uuid, node
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

-- What waits before a gate: each lane and route of it is a queue in the order of claims.
CREATE INDEX limited ON executions (gate, lane, route, priority DESC, rank) WHERE gate IS NOT NULL;

ALTER TABLE namespaces ADD COLUMN limits TEXT;

-- The course is the rank at which keys began to take turns.
ALTER TABLE lanes ADD COLUMN limits TEXT;
ALTER TABLE lanes ADD COLUMN fairness TEXT;
ALTER TABLE lanes ADD COLUMN course INTEGER;

-- A key that is of neither an execution nor a flow is of what was spent of a budget.
ALTER TABLE keys RENAME TO old_keys;

CREATE TABLE keys (
    namespace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    execution   BLOB CHECK (length(execution) = 16),
    flow        BLOB CHECK (length(flow) = 16),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 16),
    expires_at  INTEGER,
    PRIMARY KEY (namespace, key),
    CHECK (execution IS NULL OR flow IS NULL)
) STRICT, WITHOUT ROWID;

INSERT INTO keys (namespace, key, execution, flow, fingerprint, expires_at)
SELECT namespace, key, execution, flow, fingerprint, expires_at
FROM old_keys
ORDER BY namespace, key;

DROP TABLE old_keys;

CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

-- What limits allow. Sorts: 0 budget, 1 quota. An id is never used again, because chores name it.
CREATE TABLE limits (
    id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    namespace  INTEGER NOT NULL,
    sort       INTEGER NOT NULL CHECK (sort BETWEEN 0 AND 1),
    name       TEXT    NOT NULL,
    terms      TEXT    NOT NULL,
    places     TEXT,
    created_at INTEGER NOT NULL,
    UNIQUE (namespace, sort, name)
) STRICT;

-- Ids are given out before there is a row.
INSERT INTO sqlite_sequence (name, seq) VALUES ('limits', 0);

-- What has passed a limit, and how many wait: one row for a budget, one for each key of a quota,
-- and for each concurrency key one of the limit 0, which has no row.
CREATE TABLE gates (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL,
    limit_id  INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    course    TEXT    NOT NULL,
    idle_at   INTEGER,
    UNIQUE (limit_id, key, namespace)
) STRICT;

CREATE INDEX gates_idle ON gates (idle_at) WHERE idle_at IS NOT NULL;

-- When work passed a gate that has a rate, by number.
CREATE TABLE passages (
    gate  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (gate, first),
    CHECK (first <= last)
) STRICT, WITHOUT ROWID;

CREATE TABLE uses (
    execution INTEGER NOT NULL,
    limit_id  INTEGER NOT NULL,
    open      INTEGER NOT NULL CHECK (open BETWEEN 0 AND 1),
    gate      INTEGER,
    share     TEXT,
    PRIMARY KEY (execution, limit_id)
) STRICT, WITHOUT ROWID;

-- Those that are over as well: a limit that is removed takes them along.
CREATE INDEX uses_of_limit ON uses (limit_id, open, execution);

CREATE TABLE turns (
    lane     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    next     INTEGER NOT NULL,
    PRIMARY KEY (lane, priority, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_in_order ON turns (lane, priority, next);
