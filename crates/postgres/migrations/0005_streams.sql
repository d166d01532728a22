-- What executions put out. What lies beside an execution has one more bit: 8, a stream. All of it
-- changes only while the execution's row is locked. Durable and live frames up to some have been
-- removed: no look for others goes through what these have left in the index.
CREATE TABLE streams (
    execution bigint PRIMARY KEY,
    gone      bigint NOT NULL,
    live_gone bigint NOT NULL,
    state     text   NOT NULL
)
-- Every append changes the state: room on the page for the next version.
WITH (fillfactor = 70);

-- Frames that were appended together and are of one sort: those that stay, or live ones that only
-- who watches needs. Each sort is in order in the only index, because every append writes to it: the
-- oldest of one is found however many of the other lie before it; both are merged when they are read.
CREATE TABLE chunks (
    execution bigint  NOT NULL,
    live      boolean NOT NULL,
    first     bigint  NOT NULL,
    last      bigint  NOT NULL,
    facts     text    NOT NULL,
    bytes     bytea   NOT NULL,
    PRIMARY KEY (execution, live, first) INCLUDE (last),
    CHECK (first BETWEEN 1 AND last)
);

CREATE TABLE summaries (
    execution  bigint PRIMARY KEY,
    first_at   bigint NOT NULL,
    updated_at bigint NOT NULL,
    document   bytea  NOT NULL
)
WITH (fillfactor = 70);
