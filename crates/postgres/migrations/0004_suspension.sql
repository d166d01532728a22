-- One more state of executions, 6 suspended, which may end by itself or not; and what lies beside an
-- execution, as a set of bits: 1 it has made others, 2 mail (suspensions, waitpoints, signals),
-- 4 recorded steps. Nobody looks for what is not there.
ALTER TABLE executions
    DROP CONSTRAINT executions_check,
    ALTER COLUMN spawned TYPE integer USING spawned::integer,
    ADD CONSTRAINT executions_check CHECK (
        num_nonnulls(until, worker, secret, ttl_ms)
            = CASE state
                WHEN 2 THEN 1 WHEN 3 THEN 3 WHEN 4 THEN 4 WHEN 6 THEN num_nonnulls(until) ELSE 0
            END
    );

ALTER TABLE executions RENAME COLUMN spawned TO beside;

-- All of the mail and the steps of an execution change only while its row is locked.
CREATE TABLE suspensions (
    execution bigint NOT NULL,
    number    bigint NOT NULL,
    run       bigint NOT NULL,
    key       text   COLLATE "C",
    terms     text   NOT NULL,
    course    text   NOT NULL,
    PRIMARY KEY (execution, number)
)
-- Every signal that counts changes the course: room on the page for the next version.
WITH (fillfactor = 80);

CREATE UNIQUE INDEX suspensions_by_key ON suspensions (execution, run, key) WHERE key IS NOT NULL;

CREATE TABLE waitpoints (
    execution   bigint  NOT NULL,
    seq         bigint  NOT NULL,
    uuid        uuid    NOT NULL,
    namespace   bigint  NOT NULL,
    key         text    COLLATE "C" NOT NULL,
    kid         text    COLLATE "C" NOT NULL,
    fingerprint bytea   NOT NULL CHECK (length(fingerprint) = 8),
    created_at  bigint  NOT NULL,
    expires_at  bigint,
    open        boolean NOT NULL,
    state       text    NOT NULL,
    PRIMARY KEY (execution, seq)
);

CREATE UNIQUE INDEX waitpoints_by_uuid ON waitpoints (execution, uuid);

-- What signals can still come to: of an execution, and of a namespace.
CREATE INDEX waitpoints_open ON waitpoints (execution, seq) WHERE open;
CREATE INDEX waitpoints_inbox ON waitpoints (namespace, uuid) WHERE open;

-- A signal that no suspension has taken is kept for one to come. A content type is null for
-- application/octet-stream and empty for application/json.
CREATE TABLE signals (
    execution    bigint NOT NULL,
    seq          bigint NOT NULL,
    uuid         uuid   NOT NULL,
    waitpoint    uuid,
    key          text   COLLATE "C",
    run          bigint NOT NULL,
    suspension   bigint,
    counted      boolean,
    facts        text   NOT NULL,
    content_type text,
    bytes        bytea  NOT NULL,
    PRIMARY KEY (execution, seq),
    CHECK ((suspension IS NULL) = (counted IS NULL))
);

CREATE UNIQUE INDEX signals_by_key ON signals (execution, key) WHERE key IS NOT NULL;

CREATE INDEX signals_kept ON signals (execution, run, seq) WHERE suspension IS NULL;
CREATE INDEX signals_taken ON signals (execution, suspension, seq) WHERE suspension IS NOT NULL;

CREATE TABLE steps (
    execution    bigint NOT NULL,
    seq          bigint NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    occurrence   bigint NOT NULL,
    facts        text   NOT NULL,
    content_type text,
    bytes        bytea  NOT NULL,
    PRIMARY KEY (execution, seq)
);

CREATE UNIQUE INDEX steps_by_name ON steps (execution, name, occurrence);

-- Whoever signs with these keys has an advisory lock of the namespace, shared with all others who do;
-- whoever changes one has it alone.
CREATE TABLE signing_keys (
    namespace  bigint NOT NULL,
    kid        text   COLLATE "C" NOT NULL,
    secret     bytea  CHECK (length(secret) = 32),
    created_at bigint NOT NULL,
    state      text   NOT NULL,
    PRIMARY KEY (namespace, kid)
);
