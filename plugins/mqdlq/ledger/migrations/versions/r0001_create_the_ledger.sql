CREATE TABLE alerts (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    event VARCHAR(20) NOT NULL,
    is_sent BOOLEAN NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_alerts_run_id ON alerts (run_id);

CREATE TABLE audit (
    seq SERIAL NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    message_key BYTEA,
    what VARCHAR(30) NOT NULL,
    who TEXT NOT NULL,
    handler VARCHAR(100) NOT NULL,
    messages INTEGER NOT NULL,
    why TEXT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_message_key ON audit (message_key);
CREATE INDEX ix_audit_run_id ON audit (run_id);

CREATE TABLE epochs (
    epoch INTEGER NOT NULL,
    name VARCHAR(16) NOT NULL,
    number INTEGER NOT NULL,
    began_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    worked_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (epoch)
);

CREATE TABLE failures (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    handler VARCHAR(100) NOT NULL,
    task VARCHAR(250) NOT NULL,
    error_id VARCHAR(20) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    why TEXT NOT NULL,
    next_step TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_failures_handler ON failures (handler);
CREATE INDEX ix_failures_run_id ON failures (run_id);

CREATE TABLE holds (
    hold_id SERIAL NOT NULL,
    handler VARCHAR(100) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    message_key BYTEA,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (hold_id)
);

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

CREATE TABLE meters (
    subject VARCHAR(200) NOT NULL,
    unit VARCHAR(10) NOT NULL,
    handler VARCHAR(100) NOT NULL,
    used_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    full_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    refused_run_id VARCHAR(250) NOT NULL,
    refused_until TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    per_second FLOAT NOT NULL,
    burst FLOAT NOT NULL,
    PRIMARY KEY (subject, unit)
);

CREATE TABLE prunes (
    prune_id SERIAL NOT NULL,
    trusted_until TIMESTAMP WITHOUT TIME ZONE,
    handler VARCHAR(100) NOT NULL,
    policy TEXT NOT NULL,
    who TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (prune_id)
);

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
    why TEXT NOT NULL,
    PRIMARY KEY (restoration_id)
);

CREATE TABLE runs (
    run_no SERIAL NOT NULL,
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
    max_messages_per_unit INTEGER NOT NULL,
    connections INTEGER NOT NULL,
    max_plan_age_s INTEGER NOT NULL,
    message_keys TEXT NOT NULL,
    started_by TEXT NOT NULL,
    started_by_user TEXT NOT NULL,
    why TEXT NOT NULL,
    controls TEXT NOT NULL,
    queue_kind VARCHAR(20) NOT NULL,
    repair TEXT NOT NULL,
    condition TEXT NOT NULL,
    as_of VARCHAR(100) NOT NULL,
    PRIMARY KEY (run_no),
    UNIQUE (run_id)
);
CREATE INDEX runs_of_a_queue ON runs (handler, queue_manager, queue, started_at);

CREATE TABLE approvals (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    plan_hash VARCHAR(64) NOT NULL,
    guards TEXT NOT NULL,
    decision VARCHAR(10) NOT NULL,
    who TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT approvals_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_approvals_run_id ON approvals (run_id);

CREATE TABLE archive (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    location TEXT NOT NULL,
    digest VARCHAR(64) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id, message_id),
    CONSTRAINT archive_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id),
    CONSTRAINT archive_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_archive_message_id ON archive (message_id);

CREATE TABLE arrivals (
    run_no INTEGER NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    hour TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (run_no, cause_id, hour),
    CONSTRAINT arrivals_run_no_fkey FOREIGN KEY(run_no) REFERENCES runs (run_no)
) /* WITHOUT ROWID */;
CREATE INDEX arrivals_of_a_cause ON arrivals (cause_id, hour);
CREATE INDEX ix_arrivals_hour ON arrivals (hour);

CREATE TABLE cause_changes (
    seq SERIAL NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    who TEXT NOT NULL,
    kind VARCHAR(20) NOT NULL,
    value TEXT NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_cause_changes_cause_id ON cause_changes (cause_id);

CREATE TABLE cause_numbers (
    run_id VARCHAR(250) NOT NULL,
    reason INTEGER NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    is_whole BOOLEAN NOT NULL,
    looked_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    message_class VARCHAR(30) NOT NULL,
    dest_q_name VARCHAR(48),
    dest_q_mgr_name VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    attention INTEGER NOT NULL,
    expiring INTEGER NOT NULL,
    expires_at TIMESTAMP WITHOUT TIME ZONE,
    oldest_at TIMESTAMP WITHOUT TIME ZONE,
    first_at TIMESTAMP WITHOUT TIME ZONE,
    last_at TIMESTAMP WITHOUT TIME ZONE,
    applications TEXT NOT NULL,
    PRIMARY KEY (run_id, reason, cause_id),
    CONSTRAINT cause_numbers_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE causes (
    run_id VARCHAR(250) NOT NULL,
    reason INTEGER NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    message_class VARCHAR(30) NOT NULL,
    dest_q_name VARCHAR(48),
    dest_q_mgr_name VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    queues INTEGER,
    first_at TIMESTAMP WITHOUT TIME ZONE,
    last_at TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (run_id, reason, cause_id),
    CONSTRAINT causes_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_causes_cause_id ON causes (cause_id);

CREATE TABLE evidence_checks (
    run_id VARCHAR(250) NOT NULL,
    kind VARCHAR(12) NOT NULL,
    source VARCHAR(48) NOT NULL,
    since TIMESTAMP WITHOUT TIME ZONE,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    examined INTEGER NOT NULL,
    unseen INTEGER NOT NULL,
    is_exact BOOLEAN NOT NULL,
    trouble TEXT NOT NULL,
    PRIMARY KEY (run_id, kind),
    CONSTRAINT evidence_checks_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE identities (
    message_id INTEGER NOT NULL,
    identity BYTEA NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    dead_lettered_at TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (message_id),
    CONSTRAINT identities_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_identities_identity ON identities (identity);

CREATE TABLE learned (
    of_run VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (of_run, message_id),
    CONSTRAINT learned_of_run_fkey FOREIGN KEY(of_run) REFERENCES runs (run_id),
    CONSTRAINT learned_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id),
    CONSTRAINT learned_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_learned_message_id ON learned (message_id);
CREATE INDEX ix_learned_run_id ON learned (run_id);

CREATE TABLE leases (
    seq SERIAL NOT NULL,
    message_id INTEGER NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    until TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT leases_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id),
    CONSTRAINT leases_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_leases_message_id ON leases (message_id);
CREATE INDEX ix_leases_run_id ON leases (run_id);

CREATE TABLE listed_messages (
    run_no INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    browse_seq INTEGER NOT NULL,
    disposition VARCHAR(20) NOT NULL,
    PRIMARY KEY (run_no, message_id),
    CONSTRAINT listed_messages_run_no_fkey FOREIGN KEY(run_no) REFERENCES runs (run_no),
    CONSTRAINT listed_messages_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
) /* WITHOUT ROWID */;
CREATE INDEX ix_listed_messages_message_id ON listed_messages (message_id);

CREATE TABLE looks (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    depth INTEGER NOT NULL,
    is_work BOOLEAN NOT NULL,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    max_depth INTEGER,
    PRIMARY KEY (seq),
    CONSTRAINT looks_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_looks_run_id ON looks (run_id);

CREATE TABLE outcome_lots (
    lot_id SERIAL NOT NULL,
    run_no INTEGER NOT NULL,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    messages INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    PRIMARY KEY (lot_id),
    CONSTRAINT outcome_lots_run_no_fkey FOREIGN KEY(run_no) REFERENCES runs (run_no)
);
CREATE INDEX ix_outcome_lots_run_no ON outcome_lots (run_no);
CREATE INDEX outcomes_discarded ON outcome_lots (run_no) WHERE outcome = 'discarded';

CREATE TABLE passes (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT passes_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_passes_run_id ON passes (run_id);

CREATE TABLE plans (
    run_id VARCHAR(250) NOT NULL,
    plan_id VARCHAR(150) NOT NULL,
    plan_hash VARCHAR(64) NOT NULL,
    location TEXT NOT NULL,
    accepted_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id),
    CONSTRAINT plans_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE pruned_files (
    prune_id INTEGER NOT NULL,
    location TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (prune_id, location),
    CONSTRAINT pruned_files_prune_id_fkey FOREIGN KEY(prune_id) REFERENCES prunes (prune_id)
);

CREATE TABLE pruned_runs (
    run_id VARCHAR(250) NOT NULL,
    prune_id INTEGER NOT NULL,
    handler VARCHAR(100) NOT NULL,
    run_type VARCHAR(50) NOT NULL,
    queue_manager VARCHAR(48) NOT NULL,
    queue VARCHAR(48) NOT NULL,
    rules_digest VARCHAR(64) NOT NULL,
    dry_run BOOLEAN NOT NULL,
    started_by TEXT NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    why TEXT NOT NULL,
    closed_at TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (run_id),
    CONSTRAINT pruned_runs_prune_id_fkey FOREIGN KEY(prune_id) REFERENCES prunes (prune_id)
);

CREATE TABLE ramp_states (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    queue_manager VARCHAR(48) NOT NULL,
    queue VARCHAR(48) NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    phase VARCHAR(10) NOT NULL,
    step INTEGER NOT NULL,
    allowed INTEGER NOT NULL,
    depth INTEGER,
    step_from INTEGER NOT NULL,
    count_from INTEGER NOT NULL,
    until TIMESTAMP WITHOUT TIME ZONE,
    why TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT ramp_states_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_ramp_states_run_id ON ramp_states (run_id);
CREATE INDEX ramp_states_of_a_subject ON ramp_states (queue_manager, queue, cause_id, target_q, target_q_mgr, seq);

CREATE TABLE released_holds (
    hold_id INTEGER NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (hold_id),
    CONSTRAINT released_holds_hold_id_fkey FOREIGN KEY(hold_id) REFERENCES holds (hold_id)
);

CREATE TABLE repairs (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    format_from VARCHAR(8) NOT NULL,
    format_to VARCHAR(8) NOT NULL,
    ccsid_from INTEGER NOT NULL,
    ccsid_to INTEGER NOT NULL,
    dest_q_from VARCHAR(48) NOT NULL,
    dest_q_mgr_from VARCHAR(48) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    length INTEGER NOT NULL,
    refusal TEXT NOT NULL,
    body_to VARCHAR(64) NOT NULL,
    length_to INTEGER NOT NULL,
    PRIMARY KEY (run_id, message_id),
    CONSTRAINT repairs_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id),
    CONSTRAINT repairs_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_repairs_message_id ON repairs (message_id);

CREATE TABLE settled_lots (
    lot_id SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    snapshot_id VARCHAR(100) NOT NULL,
    needs_carry BOOLEAN NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    PRIMARY KEY (lot_id),
    CONSTRAINT settled_lots_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_settled_lots_run_id ON settled_lots (run_id);

CREATE TABLE settled_outcomes (
    run_id VARCHAR(250) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (run_id, outcome, rule, action, target_q, target_q_mgr),
    CONSTRAINT settled_outcomes_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE sightings (
    run_id VARCHAR(250) NOT NULL,
    oldest_left TIMESTAMP WITHOUT TIME ZONE,
    depth INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    next_pass_at TIMESTAMP WITHOUT TIME ZONE,
    PRIMARY KEY (run_id),
    CONSTRAINT sightings_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE snapshots (
    run_id VARCHAR(250) NOT NULL,
    pruned_at TIMESTAMP WITHOUT TIME ZONE,
    snapshot_id VARCHAR(100) NOT NULL,
    location TEXT NOT NULL,
    messages INTEGER NOT NULL,
    taken_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    settled INTEGER NOT NULL,
    absent INTEGER NOT NULL,
    PRIMARY KEY (run_id),
    CONSTRAINT snapshots_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TABLE units (
    unit_no SERIAL NOT NULL,
    unit VARCHAR(48) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    plan_id VARCHAR(150) NOT NULL,
    PRIMARY KEY (unit_no),
    CONSTRAINT units_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_units_run_id ON units (run_id);
CREATE INDEX ix_units_unit ON units (unit);

CREATE TABLE verdicts (
    seq SERIAL NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    verdict VARCHAR(20) NOT NULL,
    headline TEXT NOT NULL,
    why TEXT NOT NULL,
    messages INTEGER,
    adds_up BOOLEAN,
    attention INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    failed_tasks TEXT NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT verdicts_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_verdicts_run_id ON verdicts (run_id);

CREATE TABLE attempt_lots (
    unit_no INTEGER NOT NULL,
    lot INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    attempt_no INTEGER NOT NULL,
    cause_id VARCHAR(12) NOT NULL,
    PRIMARY KEY (unit_no, lot),
    CONSTRAINT attempt_lots_unit_no_fkey FOREIGN KEY(unit_no) REFERENCES units (unit_no)
) /* WITHOUT ROWID */;
CREATE INDEX attempts_of_a_cause ON attempt_lots (cause_id, target_q, target_q_mgr) WHERE cause_id <> '';

CREATE TABLE attempt_messages (
    unit_no INTEGER NOT NULL,
    place INTEGER NOT NULL,
    lot INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (unit_no, place),
    CONSTRAINT attempt_messages_unit_no_fkey FOREIGN KEY(unit_no) REFERENCES units (unit_no),
    CONSTRAINT attempt_messages_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
) /* WITHOUT ROWID */;
CREATE INDEX ix_attempt_messages_message_id ON attempt_messages (message_id);

CREATE TABLE outcome_messages (
    run_no INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    lot_id INTEGER NOT NULL,
    PRIMARY KEY (run_no, message_id),
    CONSTRAINT outcome_messages_run_no_fkey FOREIGN KEY(run_no) REFERENCES runs (run_no),
    CONSTRAINT outcome_messages_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id),
    CONSTRAINT outcome_messages_lot_id_fkey FOREIGN KEY(lot_id) REFERENCES outcome_lots (lot_id)
) /* WITHOUT ROWID */;
CREATE INDEX ix_outcome_messages_lot_id ON outcome_messages (lot_id);
CREATE INDEX ix_outcome_messages_message_id ON outcome_messages (message_id);

CREATE TABLE pruned_copies (
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    prune_id INTEGER NOT NULL,
    PRIMARY KEY (run_id, message_id),
    CONSTRAINT pruned_copies_run_id_message_id_fkey FOREIGN KEY(run_id, message_id) REFERENCES archive (run_id, message_id),
    CONSTRAINT pruned_copies_prune_id_fkey FOREIGN KEY(prune_id) REFERENCES prunes (prune_id)
);

CREATE TABLE pruned_outcomes (
    run_id VARCHAR(250) NOT NULL,
    is_settled BOOLEAN NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (run_id, is_settled, outcome, rule, action, target_q, target_q_mgr),
    CONSTRAINT pruned_outcomes_run_id_fkey FOREIGN KEY(run_id) REFERENCES pruned_runs (run_id)
);

CREATE TABLE restoration_states (
    seq SERIAL NOT NULL,
    restoration_id VARCHAR(250) NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    message_id INTEGER NOT NULL,
    state VARCHAR(20) NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    unit VARCHAR(48) NOT NULL,
    mqrc INTEGER NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT restoration_states_run_id_message_id_fkey FOREIGN KEY(run_id, message_id) REFERENCES archive (run_id, message_id),
    CONSTRAINT restoration_states_restoration_id_fkey FOREIGN KEY(restoration_id) REFERENCES restorations (restoration_id)
);
CREATE INDEX ix_restoration_states_restoration_id ON restoration_states (restoration_id);
CREATE INDEX restoration_states_of_a_copy ON restoration_states (run_id, message_id);

CREATE TABLE settled_messages (
    lot_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (lot_id, message_id),
    CONSTRAINT settled_messages_lot_id_fkey FOREIGN KEY(lot_id) REFERENCES settled_lots (lot_id),
    CONSTRAINT settled_messages_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_settled_messages_message_id ON settled_messages (message_id);

CREATE TABLE unit_states (
    seq SERIAL NOT NULL,
    unit_no INTEGER NOT NULL,
    message_id INTEGER,
    state VARCHAR(25) NOT NULL,
    mqrc INTEGER NOT NULL,
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT unit_states_unit_no_fkey FOREIGN KEY(unit_no) REFERENCES units (unit_no),
    CONSTRAINT unit_states_message_id_fkey FOREIGN KEY(message_id) REFERENCES messages (message_id)
);
CREATE INDEX ix_unit_states_message_id ON unit_states (message_id);
CREATE INDEX ix_unit_states_unit_no ON unit_states (unit_no);

CREATE TABLE verdict_outcomes (
    verdict_seq INTEGER NOT NULL,
    run_id VARCHAR(250) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    rule INTEGER NOT NULL,
    action VARCHAR(10) NOT NULL,
    target_q VARCHAR(48) NOT NULL,
    target_q_mgr VARCHAR(48) NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (verdict_seq, outcome, rule, action, target_q, target_q_mgr),
    CONSTRAINT verdict_outcomes_verdict_seq_fkey FOREIGN KEY(verdict_seq) REFERENCES verdicts (seq),
    CONSTRAINT verdict_outcomes_run_id_fkey FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX ix_verdict_outcomes_run_id ON verdict_outcomes (run_id);

CREATE VIEW run_messages AS
SELECT r.run_id, l.message_id, l.browse_seq, l.disposition
FROM listed_messages l JOIN runs r ON r.run_no = l.run_no;

CREATE VIEW attempts AS
SELECT s.seq, m.place, l.rule, l.action, l.target_q, l.target_q_mgr, u.unit, u.run_id, u.plan_id,
    m.message_id, l.attempt_no, s.state, s.mqrc, s.at, l.cause_id
FROM unit_states s
JOIN units u ON u.unit_no = s.unit_no
JOIN attempt_messages m ON m.unit_no = s.unit_no
    AND (s.message_id IS NULL OR s.message_id = m.message_id)
JOIN attempt_lots l ON l.unit_no = m.unit_no AND l.lot = m.lot;

CREATE VIEW attempt_states AS
SELECT s.seq, m.place, l.rule, l.action, l.target_q, l.target_q_mgr, u.unit, u.run_id, u.plan_id,
    m.message_id, l.attempt_no, s.state, s.mqrc, s.at, l.cause_id
FROM unit_states s
JOIN units u ON u.unit_no = s.unit_no
JOIN attempt_messages m ON m.unit_no = s.unit_no
    AND (s.message_id IS NULL OR s.message_id = m.message_id)
JOIN attempt_lots l ON l.unit_no = m.unit_no AND l.lot = m.lot
WHERE NOT EXISTS (
    SELECT 1 FROM unit_states n
    WHERE n.unit_no = s.unit_no AND n.seq > s.seq AND n.message_id IS NULL
)
AND NOT EXISTS (
    SELECT 1 FROM unit_states n
    WHERE n.unit_no = m.unit_no AND n.seq > s.seq AND n.message_id = m.message_id
);

CREATE VIEW outcomes AS
SELECT l.rule, l.action, l.target_q, l.target_q_mgr, l.outcome, r.run_id, m.message_id, l.why, l.at
FROM outcome_messages m
JOIN outcome_lots l ON l.lot_id = m.lot_id
JOIN runs r ON r.run_no = m.run_no;
