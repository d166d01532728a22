INSERT INTO namespaces (name) VALUES ('default');
INSERT INTO lanes (namespace, name, mode, active) VALUES (1, 'default', 0, 0);
INSERT INTO routes (namespace, kind, capabilities) VALUES (1, 'mail', '[]');
INSERT INTO executions
VALUES
    (1, '00000000-0000-0000-0000-000000000001', 1, 1, 1, 1000, 1, 0, false, NULL, 10, NULL, NULL,
        10, NULL, 0, 0, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, '{"team":"a"}', NULL, NULL, 'once'),
    (2, '00000000-0000-0000-0000-000000000002', 1, 1, 1, 1000, 2, 0, true, NULL, 11, NULL, NULL,
        11, NULL, 0, 0, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, '00000000-0000-0000-0000-000000000003', 1, 1, 1, 1000, 3, 4, false, 900, 12, 900, NULL,
        12, 12, 1, 1, 0, 0, 1, 'w', decode(repeat('00', 16), 'hex'), 30000, NULL, NULL, NULL,
        NULL, NULL, NULL),
    (4, '00000000-0000-0000-0000-000000000004', 1, 1, 1, 1000, 4, 11, false, 950, 13, NULL, NULL,
        13, 13, 2, 1, 0, 0, 1, NULL, NULL, NULL, '{"reason":"permanent","message":"no paper"}',
        NULL, NULL, NULL, NULL, NULL);
SELECT setval('execution_rows', 4);
INSERT INTO batches (size, at, source, base) VALUES (1, 10, 0, 0);
INSERT INTO events (batch, place, kind, at, namespace, execution, uuid)
VALUES (1, 1, 1, 10, 1, 1, '00000000-0000-0000-0000-000000000001');
UPDATE meta SET last_now = 500, last_cursor = 1;
INSERT INTO keys (namespace, key, execution, fingerprint)
VALUES (1, 'once', '00000000-0000-0000-0000-000000000001', decode(repeat('00', 16), 'hex'));
INSERT INTO chores (kind, due_at) VALUES ('{"chore":"retention"}', 600);
