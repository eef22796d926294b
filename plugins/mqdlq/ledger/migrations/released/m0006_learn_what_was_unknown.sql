CREATE TABLE learned (
    of_run VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (of_run, message_id)
);
CREATE INDEX ix_learned_run_id ON learned (run_id);
