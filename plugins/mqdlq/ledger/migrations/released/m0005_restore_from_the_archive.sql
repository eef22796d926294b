CREATE TABLE restorations (
    restoration_id VARCHAR(250) NOT NULL,
    handler VARCHAR(100) NOT NULL,
    who TEXT NOT NULL,
    queue_manager VARCHAR(48) NOT NULL,
    queue VARCHAR(48) NOT NULL,
    state_queue VARCHAR(48) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    message_keys TEXT NOT NULL,
    reason INTEGER NOT NULL,
    to_queue VARCHAR(48) NOT NULL,
    to_queue_manager VARCHAR(48) NOT NULL,
    header BOOLEAN NOT NULL,
    again BOOLEAN NOT NULL,
    dry_run BOOLEAN NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (restoration_id)
);

CREATE TABLE restoration_states (
    seq SERIAL NOT NULL,
    restoration_id VARCHAR(250) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    unit VARCHAR(48) NOT NULL,
    state VARCHAR(20) NOT NULL,
    mqrc INTEGER NOT NULL,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX restoration_states_of_a_copy ON restoration_states (run_id, message_id);
CREATE INDEX ix_restoration_states_restoration_id ON restoration_states (restoration_id);
