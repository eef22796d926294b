CREATE TABLE ages (
    run_id VARCHAR(250) NOT NULL,
    oldest_left TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (run_id)
);
