-- What executions put out. What lies beside an execution has one more bit: 8, a stream.
CREATE TABLE streams (
    execution INTEGER PRIMARY KEY,
    state     TEXT NOT NULL
) STRICT;

-- Frames that were appended together and are of one sort: 0 those that stay, 1 those that only who
-- watches needs. The bytes come last, so that nothing else is read through them.
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

-- The only index, because every append writes to it: each sort in its order, so that the oldest of
-- one is found however many of the other lie before it; both are merged when they are read.
CREATE UNIQUE INDEX chunks_in_order ON chunks (execution, live, first, last);

CREATE TABLE summaries (
    execution  INTEGER PRIMARY KEY,
    first_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    document   BLOB    NOT NULL
) STRICT;
