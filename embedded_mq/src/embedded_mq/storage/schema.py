"""The tables of a queue manager, and the migration of an earlier layout.

A message has a row from its put on. Its `rank` is 9 minus its priority, so that the lowest rank
comes first; `place` orders messages of equal rank. No place is reused: `last_place` is the highest
place of a removed message.

A message of an uncommitted put or get, or one that a browse has locked, also has a row in `held`,
which hides it from all other connections. One transaction over these rows ends a unit of work. If a
process is killed, the next connection that detects this backs out its rows. Triggers maintain each
queue's depth, which includes uncommitted puts and excludes uncommitted gets.
"""

PUT, REPORT, GOT, LOCKED = 1, 2, 3, 4
"""The reason why a message is held. The same unit of work can get a PUT message, but not a REPORT,
which the queue manager has put. A LOCKED message stays locked when a unit of work ends."""

LAYOUT = 5
"""Stored in the database (PRAGMA application_id); a change of the schema increases it."""

HELD = f"""
CREATE TABLE held(
    place INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    connection_id INTEGER NOT NULL,
    kind INTEGER NOT NULL);
CREATE TRIGGER put AFTER INSERT ON message BEGIN
    UPDATE queue SET depth = depth + 1 WHERE queue_id = NEW.queue_id;
END;
CREATE TRIGGER removed AFTER DELETE ON message BEGIN
    UPDATE operation SET last_place = OLD.place WHERE last_place < OLD.place;
    UPDATE queue SET depth = depth - 1 WHERE queue_id = OLD.queue_id;
    DELETE FROM held WHERE place = OLD.place;
END;
CREATE TRIGGER got AFTER INSERT ON held WHEN NEW.kind = {GOT} BEGIN
    UPDATE queue SET depth = depth - 1 WHERE queue_id = NEW.queue_id;
END;
CREATE TRIGGER given_back AFTER DELETE ON held WHEN OLD.kind = {GOT} BEGIN
    UPDATE queue SET depth = depth + 1 WHERE queue_id = OLD.queue_id;
END;
"""  # noqa: S608 (a number of this module)

SCHEMA = f"""
CREATE TABLE queue_manager(keyword TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE queue(
    queue_id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    type INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    depth INTEGER NOT NULL DEFAULT 0);
CREATE TABLE message(
    place INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    msg_id BLOB NOT NULL,
    correl_id BLOB,
    expires_at REAL,
    backout_count INTEGER NOT NULL,
    descriptor BLOB NOT NULL,
    properties BLOB,
    body BLOB NOT NULL);
CREATE INDEX in_order ON message(queue_id, rank);
CREATE INDEX by_msg_id ON message(queue_id, msg_id, rank);
CREATE INDEX by_correl_id ON message(queue_id, correl_id, rank) WHERE correl_id IS NOT NULL;
CREATE INDEX expiring ON message(queue_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE connection(
    connection_id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    user TEXT NOT NULL DEFAULT '',
    application TEXT NOT NULL DEFAULT '');
CREATE TABLE open_handle(
    connection_id INTEGER NOT NULL,
    handle INTEGER NOT NULL,
    queue_id INTEGER NOT NULL,
    input INTEGER NOT NULL,
    exclusive INTEGER NOT NULL,
    output INTEGER NOT NULL,
    options INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY(connection_id, handle)) WITHOUT ROWID;
CREATE TABLE operation(
    status TEXT NOT NULL,
    start INTEGER NOT NULL,
    owner TEXT NOT NULL,
    last_place INTEGER NOT NULL DEFAULT 0);
CREATE TABLE authority(
    object_type TEXT NOT NULL,
    profile TEXT NOT NULL,
    principal TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY(object_type, profile, principal)) WITHOUT ROWID;
CREATE TABLE fault(
    fault_id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0);
{HELD}"""

BOARD_OF_LAYOUT_3 = "queue_manager.board"
"""A mapped file of layout 3 with the held messages, whose units of work are lost."""

FROM_LAYOUT_3 = f"""
ALTER TABLE queue ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE connection DROP COLUMN units_ended;
ALTER TABLE operation ADD COLUMN last_place INTEGER NOT NULL DEFAULT 0;
{HELD}
UPDATE queue SET depth = (SELECT count(*) FROM message WHERE queue_id = queue.queue_id);
PRAGMA application_id = 4;
"""  # noqa: S608 (a text of this module)

FROM_LAYOUT_4 = """
ALTER TABLE connection ADD COLUMN user TEXT NOT NULL DEFAULT '';
ALTER TABLE connection ADD COLUMN application TEXT NOT NULL DEFAULT '';
ALTER TABLE open_handle ADD COLUMN options INTEGER NOT NULL DEFAULT 0;
PRAGMA application_id = 5;
"""

MIGRATIONS = {3: FROM_LAYOUT_3, 4: FROM_LAYOUT_4}
"""The change from each earlier layout to the next one."""
