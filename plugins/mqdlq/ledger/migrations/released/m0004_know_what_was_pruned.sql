CREATE TABLE prunings (
    snapshot_id VARCHAR(100) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (snapshot_id)
);
