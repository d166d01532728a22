-- What others want submitted, in any language: INSERT INTO inbox (kind, input, options). The engine
-- applies it once it is committed. A text as input is JSON and a blob is bytes, unless the content
-- type says otherwise; options are a JSON object. What was refused stays with its error.
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

CREATE INDEX inbox_waiting ON inbox (id) WHERE refused_at IS NULL;
CREATE INDEX inbox_refused ON inbox (id) WHERE refused_at IS NOT NULL;
