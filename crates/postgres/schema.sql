table batches
    id bigint NOT NULL IDENTITY
    size integer NOT NULL
    at bigint NOT NULL
    source bigint NOT NULL
    base bigint
    CHECK (size > 0)
    CREATE INDEX batches_to_number ON batches USING btree (id) WHERE (base IS NULL)
    CREATE UNIQUE INDEX batches_by_base ON batches USING btree (base) WHERE (base IS NOT NULL)
    CREATE UNIQUE INDEX batches_pkey ON batches USING btree (id)
sequence batches_id_seq
table chores
    id bigint NOT NULL IDENTITY
    kind text COLLATE "C" NOT NULL
    due_at bigint NOT NULL
    CREATE INDEX chores_by_due ON chores USING btree (due_at)
    CREATE INDEX chores_by_kind ON chores USING btree (kind)
    CREATE UNIQUE INDEX chores_pkey ON chores USING btree (id)
    CREATE UNIQUE INDEX chores_retention ON chores USING btree (kind) WHERE (kind = '{"chore":"retention"}'::text)
sequence chores_id_seq
table chunks
    execution bigint NOT NULL
    live boolean NOT NULL
    first bigint NOT NULL
    last bigint NOT NULL
    facts text NOT NULL
    bytes bytea NOT NULL
    CHECK (first >= 1 AND first <= last)
    CREATE UNIQUE INDEX chunks_pkey ON chunks USING btree (execution, live, first) INCLUDE (last)
table committers
    id uuid NOT NULL
    commits bigint NOT NULL
    at bigint NOT NULL
    CREATE UNIQUE INDEX committers_pkey ON committers USING btree (id)
table edges
    source bigint NOT NULL
    target bigint NOT NULL
    ordinal bigint NOT NULL
    flow bigint NOT NULL
    condition integer NOT NULL
    applied boolean NOT NULL
    bind text
    uuid uuid
    CHECK (condition = ANY (ARRAY[0, 1, 2]))
    CREATE INDEX edges_bound ON edges USING btree (target, source, ordinal) WHERE (bind IS NOT NULL)
    CREATE INDEX edges_into ON edges USING btree (target, source, ordinal)
    CREATE UNIQUE INDEX edges_by_uuid ON edges USING btree (flow, uuid) WHERE (uuid IS NOT NULL)
    CREATE UNIQUE INDEX edges_pkey ON edges USING btree (source, target, ordinal)
table events
    batch bigint NOT NULL
    place integer NOT NULL
    kind integer NOT NULL
    at bigint NOT NULL
    namespace bigint NOT NULL
    execution bigint
    uuid uuid
    lane bigint
    attempt bigint
    epoch bigint
    worker text
    tags text
    data text
    flow uuid
    CHECK ((execution IS NULL) = (uuid IS NULL))
    CREATE INDEX events_of_execution ON events USING btree (execution, batch, place) WHERE (execution IS NOT NULL)
    CREATE UNIQUE INDEX events_pkey ON events USING btree (batch, place)
sequence execution_rows
table executions
    id bigint NOT NULL
    uuid uuid NOT NULL
    namespace bigint NOT NULL
    lane bigint NOT NULL
    route bigint NOT NULL
    priority integer NOT NULL
    rank bigint NOT NULL
    state integer NOT NULL
    held boolean NOT NULL
    due_at bigint
    since bigint NOT NULL
    until bigint
    deadline_at bigint
    created_at bigint NOT NULL
    started_at bigint
    epoch bigint NOT NULL
    attempt bigint NOT NULL
    retries bigint NOT NULL
    reclaims bigint NOT NULL
    run bigint NOT NULL
    worker text COLLATE "C"
    secret bytea
    ttl_ms bigint
    detail text
    policy text
    tags text
    created_by text
    progress text
    key text
    gated boolean NOT NULL
    beside integer NOT NULL
    parent bigint
    flow bigint
    flow_uuid uuid
    node text COLLATE "C"
    gate bigint
    CHECK (length(secret) = 16)
    CHECK (num_nonnulls(until, worker, secret, ttl_ms, gate) =
CASE state
    WHEN 2 THEN 1
    WHEN 3 THEN 3
    WHEN 4 THEN 4
    WHEN 6 THEN num_nonnulls(until)
    WHEN 7 THEN 1
    ELSE 0
END)
    CHECK (num_nulls(flow, flow_uuid, node) = ANY (ARRAY[0, 3]))
    CHECK (priority >= 0 AND priority <= 9000)
    CREATE INDEX children ON executions USING btree (parent, id) WHERE ((parent IS NOT NULL) AND (state < 10))
    CREATE INDEX due ON executions USING btree (due_at, id) WHERE ((due_at IS NOT NULL) AND (state < 10))
    CREATE INDEX limited ON executions USING btree (gate, lane, route, priority DESC, rank, id) WHERE (gate IS NOT NULL)
    CREATE INDEX owned ON executions USING btree (worker, namespace, id) WHERE (worker IS NOT NULL)
    CREATE INDEX ready ON executions USING btree (lane, route, priority DESC, rank, id) WHERE ((state <= 1) AND (NOT held) AND (NOT gated))
    CREATE INDEX retired ON executions USING btree (due_at, id) WHERE ((due_at IS NOT NULL) AND (state >= 10))
    CREATE INDEX troubled ON executions USING btree (namespace, state, id) WHERE (state > 10)
    CREATE UNIQUE INDEX executions_by_uuid ON executions USING btree (uuid, namespace)
    CREATE UNIQUE INDEX executions_pkey ON executions USING btree (id)
    CREATE UNIQUE INDEX members ON executions USING btree (flow, node) WHERE (flow IS NOT NULL)
sequence flow_rows
table flows
    id bigint NOT NULL
    uuid uuid NOT NULL
    namespace bigint NOT NULL
    state integer NOT NULL
    held boolean NOT NULL
    since bigint NOT NULL
    run bigint NOT NULL
    deadline_at bigint
    nodes bigint NOT NULL
    edges bigint NOT NULL
    completed bigint NOT NULL
    failed bigint NOT NULL
    cancelled bigint NOT NULL
    expired bigint NOT NULL
    skipped bigint NOT NULL
    unhandled bigint NOT NULL
    unsettled bigint NOT NULL
    closing text
    kind text
    created_at bigint NOT NULL
    parent bigint
    fingerprint bytea NOT NULL
    terms text
    tags text
    CHECK (
CASE state
    WHEN 0 THEN NOT held AND closing IS NULL
    WHEN 1 THEN held AND closing IS NULL
    WHEN 2 THEN closing IS NOT NULL
    ELSE state >= 10 AND state <= 13
END)
    CHECK (LEAST(nodes, edges, completed, failed, cancelled, expired, skipped, unhandled, unsettled) >= 0)
    CHECK (length(fingerprint) = 16)
    CREATE INDEX flows_of_namespace ON flows USING btree (namespace, id)
    CREATE UNIQUE INDEX flows_by_uuid ON flows USING btree (uuid, namespace)
    CREATE UNIQUE INDEX flows_pkey ON flows USING btree (id)
table gates
    id bigint NOT NULL IDENTITY
    namespace bigint NOT NULL
    limit_id bigint NOT NULL
    key text COLLATE "C" NOT NULL
    course text NOT NULL
    idle_at bigint
    CREATE INDEX gates_idle ON gates USING btree (idle_at, id) WHERE (idle_at IS NOT NULL)
    CREATE UNIQUE INDEX gates_limit_id_namespace_key_key ON gates USING btree (limit_id, namespace, key)
    CREATE UNIQUE INDEX gates_pkey ON gates USING btree (id)
sequence gates_id_seq
table inbox
    id bigint NOT NULL IDENTITY
    kind text NOT NULL
    input bytea
    content_type text
    options text
    execution uuid
    refused_at bigint
    code text
    message text
    CHECK (num_nulls(refused_at, code, message) = ANY (ARRAY[0, 3]))
    CREATE INDEX inbox_refused ON inbox USING btree (id) WHERE (refused_at IS NOT NULL)
    CREATE INDEX inbox_waiting ON inbox USING btree (id) WHERE (refused_at IS NULL)
    CREATE UNIQUE INDEX inbox_pkey ON inbox USING btree (id)
    trigger notify_inbox
sequence inbox_id_seq
table inputs
    execution bigint NOT NULL
    content_type text
    bytes bytea NOT NULL
    fingerprint bytea
    CHECK (length(fingerprint) = 16)
    CREATE UNIQUE INDEX inputs_pkey ON inputs USING btree (execution)
table joins
    target bigint NOT NULL
    need bigint NOT NULL
    rest integer NOT NULL
    otherwise integer NOT NULL
    sources bigint NOT NULL
    met bigint NOT NULL
    unmet bigint NOT NULL
    verdict integer
    began_need bigint
    began_rest integer
    CHECK ((began_need IS NULL) = (began_rest IS NULL) AND (began_need IS NULL OR otherwise = 1))
    CHECK (began_need >= '-1'::integer)
    CHECK (began_rest = ANY (ARRAY[0, 1]))
    CHECK (met >= 0 AND unmet >= 0 AND (met + unmet) <= sources)
    CHECK (need >= '-1'::integer)
    CHECK (otherwise = ANY (ARRAY[0, 1]))
    CHECK (rest = ANY (ARRAY[0, 1]))
    CHECK (verdict = ANY (ARRAY[1, 2, 3]))
    CREATE UNIQUE INDEX joins_pkey ON joins USING btree (target)
table keys
    namespace bigint NOT NULL
    key text COLLATE "C" NOT NULL
    execution uuid
    fingerprint bytea NOT NULL
    expires_at bigint
    flow uuid
    CHECK (execution IS NULL OR flow IS NULL)
    CHECK (length(fingerprint) = 16)
    CREATE INDEX keys_by_expiry ON keys USING btree (expires_at) WHERE (expires_at IS NOT NULL)
    CREATE UNIQUE INDEX keys_pkey ON keys USING btree (namespace, key)
table lanes
    id bigint NOT NULL IDENTITY
    namespace bigint NOT NULL
    name text COLLATE "C" NOT NULL
    mode integer NOT NULL
    max_active bigint
    active bigint NOT NULL
    defaults text
    limits text
    fairness text
    course bigint
    CHECK (active >= 0)
    CHECK (max_active >= 0)
    CHECK (mode = ANY (ARRAY[0, 1, 2]))
    CREATE UNIQUE INDEX lanes_namespace_name_key ON lanes USING btree (namespace, name)
    CREATE UNIQUE INDEX lanes_pkey ON lanes USING btree (id)
sequence lanes_id_seq
sequence limit_rows
table limits
    id bigint NOT NULL
    namespace bigint NOT NULL
    sort integer NOT NULL
    name text COLLATE "C" NOT NULL
    terms text NOT NULL
    places text
    created_at bigint NOT NULL
    CHECK (sort = ANY (ARRAY[0, 1]))
    CREATE UNIQUE INDEX limits_namespace_sort_name_key ON limits USING btree (namespace, sort, name)
    CREATE UNIQUE INDEX limits_pkey ON limits USING btree (id)
table meta
    id integer NOT NULL
    last_now bigint NOT NULL
    last_cursor bigint NOT NULL
    CHECK (id = 1)
    CREATE UNIQUE INDEX meta_pkey ON meta USING btree (id)
table migrations
    version integer NOT NULL
    name text NOT NULL
    applied_at timestamp with time zone NOT NULL
    CREATE UNIQUE INDEX migrations_pkey ON migrations USING btree (version)
table namespaces
    id bigint NOT NULL IDENTITY
    name text COLLATE "C" NOT NULL
    defaults text
    limits text
    CREATE UNIQUE INDEX namespaces_name_key ON namespaces USING btree (name)
    CREATE UNIQUE INDEX namespaces_pkey ON namespaces USING btree (id)
sequence namespaces_id_seq
table passages
    gate bigint NOT NULL
    first bigint NOT NULL
    last bigint NOT NULL
    at bigint NOT NULL
    CHECK (first >= 1 AND first <= last)
    CREATE UNIQUE INDEX passages_pkey ON passages USING btree (gate, first)
table past_leases
    execution bigint NOT NULL
    epoch bigint NOT NULL
    attempt bigint NOT NULL
    run bigint NOT NULL
    worker text NOT NULL
    secret bytea NOT NULL
    claimed_at bigint NOT NULL
    ended_at bigint NOT NULL
    how text
    CHECK (length(secret) = 16)
    CREATE UNIQUE INDEX past_leases_pkey ON past_leases USING btree (execution, epoch)
table results
    execution bigint NOT NULL
    content_type text
    bytes bytea NOT NULL
    CREATE UNIQUE INDEX results_pkey ON results USING btree (execution)
table routes
    id bigint NOT NULL IDENTITY
    namespace bigint NOT NULL
    kind text COLLATE "C" NOT NULL
    capabilities text COLLATE "C" NOT NULL
    CREATE INDEX routes_of_namespace ON routes USING btree (namespace, id)
    CREATE UNIQUE INDEX routes_namespace_kind_capabilities_key ON routes USING btree (namespace, kind, capabilities)
    CREATE UNIQUE INDEX routes_pkey ON routes USING btree (id)
sequence routes_id_seq
table signals
    execution bigint NOT NULL
    seq bigint NOT NULL
    uuid uuid NOT NULL
    waitpoint uuid
    key text COLLATE "C"
    run bigint NOT NULL
    suspension bigint
    counted boolean
    facts text NOT NULL
    content_type text
    bytes bytea NOT NULL
    CHECK ((suspension IS NULL) = (counted IS NULL))
    CREATE INDEX signals_kept ON signals USING btree (execution, run, seq) WHERE (suspension IS NULL)
    CREATE INDEX signals_taken ON signals USING btree (execution, suspension, seq) WHERE (suspension IS NOT NULL)
    CREATE UNIQUE INDEX signals_by_key ON signals USING btree (execution, key) WHERE (key IS NOT NULL)
    CREATE UNIQUE INDEX signals_pkey ON signals USING btree (execution, seq)
table signing_keys
    namespace bigint NOT NULL
    kid text COLLATE "C" NOT NULL
    secret bytea
    created_at bigint NOT NULL
    state text NOT NULL
    CHECK (length(secret) = 32)
    CREATE UNIQUE INDEX signing_keys_pkey ON signing_keys USING btree (namespace, kid)
table steps
    execution bigint NOT NULL
    seq bigint NOT NULL
    name text COLLATE "C" NOT NULL
    occurrence bigint NOT NULL
    facts text NOT NULL
    content_type text
    bytes bytea NOT NULL
    CREATE UNIQUE INDEX steps_by_name ON steps USING btree (execution, name, occurrence)
    CREATE UNIQUE INDEX steps_pkey ON steps USING btree (execution, seq)
table streams
    execution bigint NOT NULL
    gone bigint NOT NULL
    live_gone bigint NOT NULL
    state text NOT NULL
    CREATE UNIQUE INDEX streams_pkey ON streams USING btree (execution)
table summaries
    execution bigint NOT NULL
    first_at bigint NOT NULL
    updated_at bigint NOT NULL
    document bytea NOT NULL
    CREATE UNIQUE INDEX summaries_pkey ON summaries USING btree (execution)
table suspensions
    execution bigint NOT NULL
    number bigint NOT NULL
    run bigint NOT NULL
    key text COLLATE "C"
    terms text NOT NULL
    course text NOT NULL
    CREATE UNIQUE INDEX suspensions_by_key ON suspensions USING btree (execution, run, key) WHERE (key IS NOT NULL)
    CREATE UNIQUE INDEX suspensions_pkey ON suspensions USING btree (execution, number)
table tags
    namespace bigint NOT NULL
    key text COLLATE "C" NOT NULL
    value text COLLATE "C" NOT NULL
    execution bigint NOT NULL
    CREATE UNIQUE INDEX tags_pkey ON tags USING btree (namespace, key, value, execution)
table turns
    lane bigint NOT NULL
    priority integer NOT NULL
    key text COLLATE "C" NOT NULL
    next bigint NOT NULL
    CREATE INDEX turns_past ON turns USING btree (lane, ((priority + 0)), next)
    CREATE UNIQUE INDEX turns_pkey ON turns USING btree (lane, priority, key)
table uses
    execution bigint NOT NULL
    limit_id bigint NOT NULL
    open boolean NOT NULL
    gate bigint
    share text
    CREATE INDEX uses_open ON uses USING btree (limit_id, execution) WHERE open
    CREATE UNIQUE INDEX uses_pkey ON uses USING btree (execution, limit_id)
table waitpoints
    execution bigint NOT NULL
    seq bigint NOT NULL
    uuid uuid NOT NULL
    namespace bigint NOT NULL
    key text COLLATE "C" NOT NULL
    kid text COLLATE "C" NOT NULL
    fingerprint bytea NOT NULL
    created_at bigint NOT NULL
    expires_at bigint
    open boolean NOT NULL
    state text NOT NULL
    CHECK (length(fingerprint) = 8)
    CREATE INDEX waitpoints_inbox ON waitpoints USING btree (namespace, uuid) WHERE open
    CREATE INDEX waitpoints_open ON waitpoints USING btree (execution, seq) WHERE open
    CREATE UNIQUE INDEX waitpoints_by_uuid ON waitpoints USING btree (execution, uuid)
    CREATE UNIQUE INDEX waitpoints_pkey ON waitpoints USING btree (execution, seq)
table workers
    namespace bigint NOT NULL
    instance text COLLATE "C" NOT NULL
    name text NOT NULL
    lanes text NOT NULL
    kinds text NOT NULL
    capabilities text NOT NULL
    ttl_ms bigint NOT NULL
    registered_at bigint NOT NULL
    seen_at bigint NOT NULL
    due_at bigint NOT NULL
    CREATE INDEX workers_by_due ON workers USING btree (due_at)
    CREATE UNIQUE INDEX workers_pkey ON workers USING btree (namespace, instance)
function notify_inbox() RETURNS trigger
function submit(kind text, input bytea, content_type text, options jsonb) RETURNS uuid
function submit(kind text, input jsonb DEFAULT NULL::jsonb, options jsonb DEFAULT NULL::jsonb) RETURNS uuid
