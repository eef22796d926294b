"""Find messages in the snapshots of handlers by a filter, with what the ledger knows of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from mqdlq.constants import reason_text
from mqdlq.lake import row_search, snapshot_directory
from mqdlq.lake.filters import FilterError, MessageFilter, conditions_of
from mqdlq.lake.storage import file_names
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.message_facts import UNKNOWN_MESSAGE, KnownSnapshot, MessageState
from mqdlq.model import MessageClass, Outcome
from mqdlq.reading.exports import Export, schema_of
from mqdlq.reading.run_messages import ROW_COLUMNS, MessageFacts, facts_of
from mqdlq.reasons import code_of, words_of
from mqdlq.rules.wildcards import fits
from mqdlq.words import CLASSES

# Messages that a search found, and one page of them.

PAGE_ROWS: Final = 50
COUNTED: Final = 10_000
"""A page counts the messages that its filter selects up to this number."""


SCHEMA: Final = schema_of(
    *("handler", "queue_manager", "queue", "snapshot_id", "run_id", "browse_seq"),
    *("message_key", "msg_id", "correl_id", "cls", "reason", "dest_q_name", "dest_q_mgr_name"),
    *("cause_id", "application", "user", "format", "total_length", "persistence"),
    *("put_at", "dead_lettered_at", "expires_at", "outcome", "why", "why_code"),
    *("outcome_run_id", "outcome_at", "has_departed", "equals"),
)
"""The columns of a file of messages."""
_FIELDS: Final = {"application": "put_appl_name", "user": "user_identifier"}
"""The fields of a message that have another name in `SCHEMA`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage(MessageFacts):
    """A message in its newest full row, with what the ledger knows of it.

    `run_id` and `snapshot_id` are those of the row, and `browse_seq` is its number there.
    `correl_id` is hexadecimal digits, `persistence` is MQMD.Persistence. `outcome` is the last one,
    of the run `outcome_run_id`. `equals` counts messages on the queue that have the same key.
    """

    handler: str
    queue_manager: str
    queue: str
    snapshot_id: str
    run_id: str
    correl_id: str
    persistence: int | None
    put_at: datetime | None
    outcome: Outcome | None
    why: str
    why_code: str
    outcome_run_id: str
    outcome_at: datetime | None
    has_departed: bool
    equals: int

    @property
    def why_dead(self) -> str:
        """Why it is a dead letter: its reason, or its class without a valid MQDLH."""
        if self.cls is None or self.cls is MessageClass.DEAD_LETTER:
            return reason_text(self.reason)
        return CLASSES[self.cls]

    def as_record(self) -> dict[str, Any]:
        return {name: getattr(self, _FIELDS.get(name, name)) for name in SCHEMA.names}


Total = tuple[int, bool]
"""How many messages a filter selects, and whether that is exact and not the least number."""


@dataclass(frozen=True, slots=True)
class FoundPage:
    """One page of messages; `number` is from 1.

    `is_complete` is False if the search ended before it had looked at all messages, as too many
    fit all but the state: a narrower filter sees the others.
    """

    messages: tuple[FoundMessage, ...]
    total: Total
    number: int
    has_next: bool
    is_complete: bool = True


COLUMNS: Final = (*ROW_COLUMNS, "correl_id", "persistence")
"""The columns of a snapshot that a `FoundMessage` has."""


def found_message(
    snapshot: KnownSnapshot, row: Mapping[str, Any], state: MessageState
) -> FoundMessage:
    return FoundMessage(
        **facts_of(row),
        handler=snapshot.handler,
        queue_manager=snapshot.queue_manager,
        queue=snapshot.queue,
        snapshot_id=snapshot.snapshot_id,
        run_id=snapshot.run_id,
        correl_id=(row["correl_id"] or b"").hex(),
        persistence=row["persistence"],
        put_at=row["put_at"],
        outcome=state.outcome,
        why=words_of(state.why),
        why_code=code_of(state.why),
        outcome_run_id=state.run_id,
        outcome_at=state.at,
        has_departed=state.has_departed,
        equals=state.occurrences,
    )


def found_messages(messages: Iterable[FoundMessage]) -> Export:
    """Return messages as a list to be written."""
    return Export("messages", SCHEMA, (message.as_record() for message in messages))


# Find messages in the snapshots of handlers, and join what the ledger knows of them.
#
# A message is found in its newest full row. Compact rows need not be read: the full row of a
# settled message is in an earlier snapshot, which pruning keeps.

EXAMINED: Final = 20_000
"""How many messages a search by state looks at, if the ledger cannot narrow it."""

EXAMINED_BY_NAME: Final = 1_000_000
"""How many rows of snapshots are counted by application."""

DOWNLOADED: Final = 100_000
"""How many messages a download has at most."""

_NARROWS: Final = 2_000
"""The ledger narrows a search by outcome if at most so many outcomes are of the kind."""

_AT_ONCE: Final = 500
_CLOCKS_DIFFER: Final = timedelta(days=1)
"""Messages of a snapshot may have later times than the snapshot itself, by other clocks."""

Found = tuple[KnownSnapshot, dict[str, Any]]


class Search:
    """A search for the messages that a filter selects, of these handlers.

    The messages of the newest snapshot come first, those of one snapshot in browse order. What the
    ledger knows narrows the search. All methods raise `LakeError`.
    """

    def __init__(
        self, chosen: MessageFilter, handlers: Iterable[str], ledger: Ledger, lake_root: str
    ) -> None:
        self.ledger, self.wanted, self.is_complete = ledger, chosen.state, True
        self._chosen = chosen
        self.snapshots = _snapshots(chosen, handlers, ledger, lake_root)
        self.conditions = conditions_of(chosen, self._sizes)
        if isinstance(chosen.state, Outcome):
            self._narrow(chosen.state)

    def page(self, number: int = 1) -> FoundPage:
        """Return one page; raise `FilterError` for one beyond the last that is counted."""
        if not 1 <= number <= COUNTED // PAGE_ROWS:
            expected = f"1 to {COUNTED // PAGE_ROWS}; narrow the filter"
            raise FilterError("page", f"found {number}", expected)
        start = (number - 1) * PAGE_ROWS
        end = start + PAGE_ROWS + 1
        found = list(islice(self._messages(end, EXAMINED), start, end))
        has_next, is_there = len(found) > PAGE_ROWS, bool(found) or number == 1
        if self.wanted is None and (has_next or not is_there):
            total = self.count()
        else:
            is_exact = not has_next and self.is_complete and is_there
            total = (start + len(found) if found else 0, is_exact)
        return FoundPage(tuple(found[:PAGE_ROWS]), total, number, has_next, self.is_complete)

    def messages(self, limit: int = DOWNLOADED) -> Iterator[FoundMessage]:
        """Yield at most so many messages, some at a time."""
        yield from islice(self._messages(limit, limit), limit)

    def with_keys(self, message_keys: Iterable[str]) -> Iterator[FoundMessage]:
        """Yield the messages with these keys (hex); unknown keys are left out."""
        keys = sorted({(bytes.fromhex(key),) for key in message_keys})
        self.conditions.append(row_search.is_one_of(keys, "message_key"))
        return self._messages(DOWNLOADED, EXAMINED)

    def count(self) -> Total:
        """Count the messages, whatever their state, up to `COUNTED`."""
        rows, keys = row_search.count_rows(self._sizes, self.conditions, COUNTED + 1)
        return min(keys, COUNTED), rows <= COUNTED

    def count_by_application(self, most: int) -> tuple[list[tuple[str, int]], bool]:
        """Count the messages, whatever their state, by application, most first.

        Returns the first `most` applications, and whether all rows of the snapshots counted: at
        most `EXAMINED_BY_NAME` of the newest do.
        """
        limit = EXAMINED_BY_NAME
        found, rows = row_search.count_keys_by(
            "put_appl_name", self._sizes, self.conditions, most, limit
        )
        return found, rows < limit

    def rows(self, columns: Sequence[str], many: int | None = None) -> Iterator[Found]:
        """Yield the newest row of each message; a search for `many` of them takes less time."""
        seen: set[tuple[str, str, bytes]] = set()
        for limit in (many, None):
            read = 0
            for directory, row in row_search.search_rows(
                self._sizes, self.conditions, columns, limit=limit
            ):
                read += 1
                found = self.snapshots[directory], row
                if (identity := _identity(found)) not in seen:
                    seen.add(identity)
                    yield found
            if limit is None or read < limit:
                return  # otherwise there may be more, as some rows were of the same message

    @property
    def _sizes(self) -> dict[str, int]:
        """How many full rows each snapshot has, by its directory."""
        return {directory: one.full for directory, one in self.snapshots.items()}

    def _narrow(self, outcome: Outcome) -> None:
        keys = self.ledger.message_facts.with_last_outcome(outcome, _NARROWS)
        if keys is None:
            return
        places = {name: (o.queue_manager, o.queue) for name, o in self.snapshots.items()}
        self.snapshots = {n: one for n, one in self.snapshots.items() if keys.get(places[n])}
        here = {places[name] for name in self.snapshots}
        wanted = sorted({(key,) for place in here for key in keys[place]})
        self.conditions.append(row_search.is_one_of(wanted, "message_key"))

    def _messages(self, many: int, examined: int) -> Iterator[FoundMessage]:
        """Yield messages with their states; `many` is how many the caller reads at most.

        With a wanted state, so many rows are `examined`.
        """
        wanted, at_once = self.wanted, PAGE_ROWS + 1
        rows = self.rows(COLUMNS, many if wanted is None else None)
        rows = self._first(rows, many if wanted is None else examined)
        while part := list(islice(rows, at_once)):
            at_once = min(2 * at_once, _AT_ONCE)
            states = self._states(part)
            for found in part:
                state = states.get(_identity(found), UNKNOWN_MESSAGE)
                if self._chosen.is_met_by(state):
                    yield found_message(*found, state)

    def _first(self, rows: Iterator[Found], many: int) -> Iterator[Found]:
        yield from islice(rows, many)
        if self.wanted is not None:
            self.is_complete = next(rows, None) is None

    def _states(self, part: Sequence[Found]) -> dict[tuple[str, str, bytes], MessageState]:
        keys: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        for found in part:
            queue_manager, queue, key = _identity(found)
            keys[queue_manager, queue].append(key)
        return {
            (*place, key): state
            for place, some in keys.items()
            for key, state in self.ledger.message_facts.states(*place, some).items()
        }


def find_row(
    message_key: str, handler: str, *, ledger: Ledger, lake_root: str, columns: Sequence[str]
) -> Found | None:
    """Return these columns of the newest full row of a message, and its snapshot.

    None if no snapshot of the handler has the message. The row is read where the ledger lists the
    message; only a message that no run has listed is searched for. Raises `LakeError`.
    """
    search = Search(MessageFilter(message_key=message_key), [handler], ledger, lake_root)
    known = {one.snapshot_id: (name, one) for name, one in search.snapshots.items()}
    for snapshot_id, browse_seq in ledger.message_facts.places(handler, bytes.fromhex(message_key)):
        if snapshot_id in known:
            directory, snapshot = known[snapshot_id]
            here = [*search.conditions, row_search.equals(browse_seq, "browse_seq")]
            for _, row in row_search.search_rows(
                {directory: snapshot.full}, here, columns, limit=1
            ):
                return snapshot, row
    return next(search.rows(columns, 1), None)


def _identity(found: Found) -> tuple[str, str, bytes]:
    snapshot, row = found
    return snapshot.queue_manager, snapshot.queue, row["message_key"]


def _snapshots(
    chosen: MessageFilter, handlers: Iterable[str], ledger: Ledger, lake_root: str
) -> dict[str, KnownSnapshot]:
    """Return the snapshots that may have such messages by their directories, newest first."""
    found: dict[str, KnownSnapshot] = {}
    standing: dict[tuple[str, str], set[str]] = {}
    named = (chosen.queue_manager or "*", chosen.queue or "*")
    for one in ledger.message_facts.snapshots(handlers):
        place = (one.queue_manager, one.queue)
        is_too_old = chosen.since and one.taken_at < chosen.since - _CLOCKS_DIFFER
        if is_too_old or not all(map(fits, named, place)):
            continue
        directory = snapshot_directory(lake_root, *place, one.snapshot_id)
        if place not in standing:
            standing[place] = _names_in(directory.rsplit("/", 1)[0])
        if one.snapshot_id in standing[place]:
            found[directory] = one
    return found


def _names_in(directory: str) -> set[str]:
    with suppress(FileNotFoundError):  # the lake is another one, or was cleared
        return set(file_names(directory, ""))
    return set()
