CREATE TABLE migrations (
    name VARCHAR(100) NOT NULL,
    applied_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE runs (
    run_id VARCHAR(250) NOT NULL,
    handler VARCHAR(100) NOT NULL,
    dag_run_id VARCHAR(250) NOT NULL,
    run_type VARCHAR(50) NOT NULL,
    queue_manager VARCHAR(48) NOT NULL,
    queue VARCHAR(48) NOT NULL,
    state_queue VARCHAR(48) NOT NULL,
    rules_source TEXT NOT NULL,
    rules_digest VARCHAR(64) NOT NULL,
    rules_text TEXT NOT NULL,
    retry_interval_s INTEGER NOT NULL,
    wait_s INTEGER,
    carry_attempts BOOLEAN NOT NULL,
    dry_run BOOLEAN NOT NULL,
    max_run_time_s INTEGER NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    nul_as_blank BOOLEAN NOT NULL,
    hold_while_blocked BOOLEAN NOT NULL,
    deliver_truncated BOOLEAN NOT NULL,
    messages_in_a_unit INTEGER NOT NULL,
    max_plan_age_s INTEGER NOT NULL,
    message_keys TEXT NOT NULL,
    PRIMARY KEY (run_id)
);

CREATE TABLE refusals (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    handler VARCHAR(100) NOT NULL,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_refusals_run_id ON refusals (run_id);

CREATE TABLE messages (
    message_id SERIAL NOT NULL,
    queue_manager VARCHAR(48) NOT NULL,
    queue VARCHAR(48) NOT NULL,
    message_key BYTEA NOT NULL,
    occurrence INTEGER NOT NULL,
    residence INTEGER NOT NULL,
    PRIMARY KEY (message_id),
    UNIQUE (queue_manager, queue, message_key, occurrence, residence)
);

CREATE TABLE snapshots (
    run_id VARCHAR(250) NOT NULL,
    snapshot_id VARCHAR(100) NOT NULL,
    location TEXT NOT NULL,
    messages INTEGER NOT NULL,
    taken_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE plans (
    run_id VARCHAR(250) NOT NULL,
    plan_id VARCHAR(150) NOT NULL,
    plan_hash VARCHAR(64) NOT NULL,
    location TEXT NOT NULL,
    accepted_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE run_messages (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    browse_seq INTEGER NOT NULL,
    disposition VARCHAR(20) NOT NULL,
    PRIMARY KEY (run_id, message_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id),
    FOREIGN KEY(message_id) REFERENCES messages (message_id)
);

CREATE TABLE attempts (
    seq SERIAL NOT NULL,
    unit VARCHAR(48) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    plan_id VARCHAR(150) NOT NULL,
    message_id INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    attempt_no INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    state VARCHAR(25) NOT NULL,
    mqrc INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    FOREIGN KEY(run_id) REFERENCES runs (run_id),
    FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_attempts_unit ON attempts (unit);
CREATE INDEX ix_attempts_run_id ON attempts (run_id);
CREATE INDEX ix_attempts_message_id ON attempts (message_id);

CREATE TABLE outcomes (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    why TEXT NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id, message_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id),
    FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_outcomes_message_id ON outcomes (message_id);

CREATE TABLE passes (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_passes_run_id ON passes (run_id);

CREATE TABLE leases (
    seq SERIAL NOT NULL,
    message_id INTEGER NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    until TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    FOREIGN KEY(message_id) REFERENCES messages (message_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_leases_message_id ON leases (message_id);

CREATE TABLE archive (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    location TEXT NOT NULL,
    digest VARCHAR(64) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id, message_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id),
    FOREIGN KEY(message_id) REFERENCES messages (message_id)
);

CREATE TABLE sightings (
    run_id VARCHAR(250) NOT NULL,
    depth INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE VIEW attempt_states AS
SELECT a.* FROM attempts a
WHERE a.seq = (
    SELECT max(b.seq) FROM attempts b WHERE b.unit = a.unit AND b.message_id = a.message_id
);
