CREATE TABLE looks (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    depth INTEGER NOT NULL,
    is_work BOOLEAN NOT NULL,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_looks_run_id ON looks (run_id);

CREATE TABLE approvals (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    plan_hash VARCHAR(64) NOT NULL,
    guards TEXT NOT NULL,
    decision VARCHAR(10) NOT NULL,
    who TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_approvals_run_id ON approvals (run_id);

CREATE TABLE causes (
    run_id VARCHAR(250) NOT NULL,
    reason INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    oldest TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (run_id, reason)
);

CREATE TABLE alerts (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    event VARCHAR(20) NOT NULL,
    is_told BOOLEAN NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_alerts_run_id ON alerts (run_id);
