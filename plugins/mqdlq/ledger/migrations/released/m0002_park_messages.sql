CREATE TABLE parkings (
    parking_id SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    snapshot_id VARCHAR(100) NOT NULL,
    needs_carry BOOLEAN NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    PRIMARY KEY (parking_id)
);
CREATE INDEX ix_parkings_run_id ON parkings (run_id);

CREATE TABLE parked (
    parking_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (parking_id, message_id)
);

CREATE TABLE parked_outcomes (
    run_id VARCHAR(250) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id, outcome, rule, action, target_q, target_q_mgr)
);

CREATE TABLE compact_snapshots (
    run_id VARCHAR(250) NOT NULL,
    parked INTEGER NOT NULL,
    PRIMARY KEY (run_id)
);
