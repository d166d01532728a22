-- Two more states of executions, 5 waiting for others and 14 skipped, and what ties executions
-- together into flows.
ALTER TABLE executions
    ADD COLUMN gated     boolean NOT NULL DEFAULT false,
    ADD COLUMN spawned   boolean NOT NULL DEFAULT false,
    ADD COLUMN parent    bigint,
    ADD COLUMN flow      bigint,
    ADD COLUMN flow_uuid uuid,
    ADD COLUMN node      text COLLATE "C",
    ADD CHECK (num_nulls(flow, flow_uuid, node) IN (0, 3));

ALTER TABLE executions
    ALTER COLUMN gated DROP DEFAULT,
    ALTER COLUMN spawned DROP DEFAULT;

-- What may be claimed, in the order in which it is.
DROP INDEX ready;
CREATE INDEX ready ON executions (lane, route, priority DESC, rank, id)
    WHERE state <= 1 AND NOT held AND NOT gated;

CREATE UNIQUE INDEX members ON executions (flow, node) WHERE flow IS NOT NULL;

-- What an execution has made and must not leave behind.
CREATE INDEX children ON executions (parent, id) WHERE parent IS NOT NULL AND state < 10;

-- States: 0 open, 1 held, 2 cancelling; from 10 on it is over: 10 completed, 11 failed,
-- 12 cancelled, 13 expired. Whoever changes what becomes of a member has the flow's row locked.
CREATE TABLE flows (
    id          bigint  PRIMARY KEY,
    uuid        uuid    NOT NULL,
    namespace   bigint  NOT NULL,
    state       integer NOT NULL,
    held        boolean NOT NULL,
    since       bigint  NOT NULL,
    run         bigint  NOT NULL,
    deadline_at bigint,
    nodes       bigint  NOT NULL,
    edges       bigint  NOT NULL,
    completed   bigint  NOT NULL,
    failed      bigint  NOT NULL,
    cancelled   bigint  NOT NULL,
    expired     bigint  NOT NULL,
    skipped     bigint  NOT NULL,
    unhandled   bigint  NOT NULL,
    unsettled   bigint  NOT NULL,
    closing     text,
    kind        text,
    created_at  bigint  NOT NULL,
    parent      bigint,
    fingerprint bytea   NOT NULL CHECK (length(fingerprint) = 16),
    terms       text,
    tags        text,
    CHECK (
        least(nodes, edges, completed, failed, cancelled, expired, skipped, unhandled, unsettled)
            >= 0
    ),
    CHECK (
        CASE state
            WHEN 0 THEN NOT held AND closing IS NULL
            WHEN 1 THEN held AND closing IS NULL
            WHEN 2 THEN closing IS NOT NULL
            ELSE state BETWEEN 10 AND 13
        END
    )
)
-- Every end of a member is an update: room on the page for the next version.
WITH (fillfactor = 50);

CREATE SEQUENCE flow_rows OWNED BY flows.id;

CREATE UNIQUE INDEX flows_by_uuid ON flows (uuid, namespace);
CREATE INDEX flows_of_namespace ON flows (namespace, id);

-- Condition: 0 the source completed, 1 it failed, 2 it is over. An edge changes only while its
-- source and its target are locked.
CREATE TABLE edges (
    source    bigint  NOT NULL,
    target    bigint  NOT NULL,
    ordinal   bigint  NOT NULL,
    flow      bigint  NOT NULL,
    condition integer NOT NULL CHECK (condition IN (0, 1, 2)),
    applied   boolean NOT NULL,
    bind      text,
    uuid      uuid,
    PRIMARY KEY (source, target, ordinal)
);

CREATE INDEX edges_into ON edges (target, source, ordinal);
CREATE INDEX edges_bound ON edges (target, source, ordinal) WHERE bind IS NOT NULL;
CREATE UNIQUE INDEX edges_by_uuid ON edges (flow, uuid) WHERE uuid IS NOT NULL;

-- Need: how many sources, or 0 for all and -1 for any. Rest: 0 runs on, 1 is cancelled. Otherwise:
-- 0 skip, 1 resume; what it began with are the need and rest from before it made others. Verdict:
-- 1 satisfied, 2 impossible, 3 moot. A join changes only while its target is locked.
CREATE TABLE joins (
    target     bigint  PRIMARY KEY,
    need       bigint  NOT NULL CHECK (need >= -1),
    rest       integer NOT NULL CHECK (rest IN (0, 1)),
    otherwise  integer NOT NULL CHECK (otherwise IN (0, 1)),
    sources    bigint  NOT NULL,
    met        bigint  NOT NULL,
    unmet      bigint  NOT NULL,
    verdict    integer CHECK (verdict IN (1, 2, 3)),
    began_need bigint  CHECK (began_need >= -1),
    began_rest integer CHECK (began_rest IN (0, 1)),
    CHECK (met >= 0 AND unmet >= 0 AND met + unmet <= sources),
    CHECK ((began_need IS NULL) = (began_rest IS NULL) AND (began_need IS NULL OR otherwise = 1))
)
WITH (fillfactor = 70);

ALTER TABLE events ADD COLUMN flow uuid;

ALTER TABLE keys
    ALTER COLUMN execution DROP NOT NULL,
    ADD COLUMN flow uuid,
    ADD CHECK ((execution IS NULL) <> (flow IS NULL));

-- The same thing may be left to do more than once, except what two processes may both begin.
ALTER TABLE chores DROP CONSTRAINT chores_kind_key;
CREATE INDEX chores_by_kind ON chores (kind);
CREATE UNIQUE INDEX chores_retention ON chores (kind) WHERE kind = '{"chore":"retention"}';
