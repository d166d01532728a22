CREATE TABLE chores (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    kind   TEXT    NOT NULL,
    due_at INTEGER NOT NULL
) STRICT;

CREATE TABLE chunks (
    id        INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    live      INTEGER NOT NULL CHECK (live BETWEEN 0 AND 1),
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    facts     TEXT    NOT NULL,
    bytes     BLOB    NOT NULL,
    CHECK (first BETWEEN 1 AND last)
) STRICT;

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
    data      TEXT, flow BLOB CHECK (flow IS NULL OR length(flow) = 16),
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

CREATE TABLE flow_terms (
    flow        INTEGER PRIMARY KEY,
    kind        TEXT,
    created_at  INTEGER NOT NULL,
    parent      INTEGER,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 16),
    terms       TEXT,
    tags        TEXT
) STRICT;

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

CREATE TABLE gates (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL,
    limit_id  INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    course    TEXT    NOT NULL,
    idle_at   INTEGER,
    UNIQUE (limit_id, key, namespace)
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

CREATE TABLE lanes (
    id         INTEGER PRIMARY KEY,
    namespace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    mode       INTEGER NOT NULL CHECK (mode IN (0, 1, 2)),
    max_active INTEGER          CHECK (max_active >= 0),
    active     INTEGER NOT NULL CHECK (active >= 0),
    defaults   TEXT, limits TEXT, fairness TEXT, course INTEGER,
    UNIQUE (namespace, name)
) STRICT;

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

CREATE TABLE meta (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    last_now INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    commits  INTEGER NOT NULL,
    recent   BLOB    NOT NULL CHECK (length(recent) = 128)
, last_flow INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE namespaces (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    defaults TEXT
, limits TEXT) STRICT;

CREATE TABLE passages (
    gate  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (gate, first),
    CHECK (first <= last)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE payloads (
    id           INTEGER PRIMARY KEY,
    content_type ANY,
    bytes        BLOB NOT NULL
) STRICT;

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

CREATE TABLE signing_keys (
    namespace  INTEGER NOT NULL,
    kid        TEXT    NOT NULL,
    secret     BLOB CHECK (length(secret) = 32),
    created_at INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    PRIMARY KEY (namespace, kid)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    execution  INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    occurrence INTEGER NOT NULL,
    result     INTEGER,
    facts      TEXT    NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams (
    execution INTEGER PRIMARY KEY,
    state     TEXT NOT NULL
) STRICT;

CREATE TABLE summaries (
    execution  INTEGER PRIMARY KEY,
    first_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    document   BLOB    NOT NULL
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

CREATE TABLE tags (
    namespace INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    execution INTEGER NOT NULL,
    PRIMARY KEY (namespace, key, value, execution)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    lane     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    next     INTEGER NOT NULL,
    PRIMARY KEY (lane, priority, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE uses (
    execution INTEGER NOT NULL,
    limit_id  INTEGER NOT NULL,
    open      INTEGER NOT NULL CHECK (open BETWEEN 0 AND 1),
    gate      INTEGER,
    share     TEXT,
    PRIMARY KEY (execution, limit_id)
) STRICT, WITHOUT ROWID;

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

CREATE INDEX children ON executions (parent) WHERE parent IS NOT NULL AND state < 10;

CREATE INDEX chores_by_due ON chores (due_at);

CREATE INDEX chores_by_kind ON chores (kind);

CREATE UNIQUE INDEX chunks_in_order ON chunks (execution, live, first, last);

CREATE INDEX due ON executions (due_at) WHERE due_at IS NOT NULL AND state < 10;

CREATE INDEX edges_bound ON edges (target, source, ordinal) WHERE bind IS NOT NULL;

CREATE UNIQUE INDEX edges_by_uuid ON edges (flow, uuid) WHERE uuid IS NOT NULL;

CREATE INDEX edges_into ON edges (target, source, ordinal);

CREATE INDEX events_of_execution ON events (execution) WHERE execution IS NOT NULL;

CREATE UNIQUE INDEX executions_by_uuid ON executions (uuid, namespace);

CREATE UNIQUE INDEX flows_by_uuid ON flows (uuid, namespace);

CREATE INDEX flows_of_namespace ON flows (namespace);

CREATE INDEX gates_idle ON gates (idle_at) WHERE idle_at IS NOT NULL;

CREATE INDEX inbox_refused ON inbox (id) WHERE refused_at IS NOT NULL;

CREATE INDEX inbox_waiting ON inbox (id) WHERE refused_at IS NULL;

CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX limited ON executions (gate, lane, route, priority DESC, rank) WHERE gate IS NOT NULL;

CREATE UNIQUE INDEX members ON executions (flow, node) WHERE flow IS NOT NULL;

CREATE INDEX owned ON executions (worker, namespace) WHERE worker IS NOT NULL;

CREATE INDEX ready ON executions (lane, route, priority DESC, rank) WHERE state <= 1 AND held = 0;

CREATE INDEX retired ON executions (due_at) WHERE due_at IS NOT NULL AND state >= 10;

CREATE INDEX routes_of_namespace ON routes (namespace);

CREATE UNIQUE INDEX signals_by_key ON signals (execution, key) WHERE key IS NOT NULL;

CREATE INDEX signals_kept ON signals (execution, run) WHERE suspension IS NULL;

CREATE INDEX signals_taken ON signals (execution, suspension) WHERE suspension IS NOT NULL;

CREATE UNIQUE INDEX steps_by_name ON steps (execution, name, occurrence);

CREATE UNIQUE INDEX suspensions_by_key ON suspensions (execution, run, key) WHERE key IS NOT NULL;

CREATE INDEX troubled ON executions (namespace, state) WHERE state > 10;

CREATE INDEX turns_in_order ON turns (lane, priority, next);

CREATE INDEX uses_of_limit ON uses (limit_id, open, execution);

CREATE UNIQUE INDEX waitpoints_by_uuid ON waitpoints (execution, uuid);

CREATE INDEX waitpoints_inbox ON waitpoints (namespace, uuid) WHERE open = 1;

CREATE INDEX waitpoints_open ON waitpoints (execution) WHERE open = 1;

CREATE INDEX workers_by_due ON workers (due_at);
