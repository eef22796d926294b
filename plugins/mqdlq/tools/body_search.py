"""Search the captured bodies of a handler's messages, for people who may see bodies.

A search goes on in lots: each looks at some megabytes or for some seconds, and what it has done is
a text that the next lot begins with. The words are recorded in the audit before a body is read;
they, and what is in a body, are in no log and no error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from mqdlq.headers import walk
from mqdlq.headers.ccsid import UTF_16, following_ccsid, text_codec
from mqdlq.lake import Snapshot
from mqdlq.lake.filters import FilterError, MessageFilter, Where, mask_of, parse_where
from mqdlq.lake.snapshots import payload_groups, rows_of
from mqdlq.ledger.reading.message_facts import UNKNOWN_MESSAGE, KnownSnapshot, MessageState
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from mqdlq.reading import find
from mqdlq.stages.snapshot.capture import decryption
from mqdlq.tools.acting import Sources

MOST_FOUND: Final = 50
"""A search ends when it has found so many messages."""
LOT_BYTES: Final = 32 << 20
LOT_TIME: Final = timedelta(seconds=1)
"""A lot ends when it has looked at so many bytes, or for so long."""
_GOES_ON_FOR: Final = timedelta(hours=1)
"""A search that began before is a new one for the audit."""
_LONGEST: Final = 200
_UTF_8: Final = "utf_8"
_DESCRIBED: Final = ("encoding", "coded_char_set_id", "format")
_COLUMNS: Final = ("browse_seq", "message_key", *_DESCRIBED, *(f"dlh_{one}" for one in _DESCRIBED))


class Found(NamedTuple):
    """A message that was found: its key (hex), and the snapshot and number of its row."""

    message_key: str
    snapshot_id: str
    browse_seq: int


class Progress(BaseModel):
    """What a search has done, and the row group of a snapshot that it goes on with.

    `looked` counts the rows that it has passed. `uncaptured` had no body, of `partly` only the
    beginning is stored, and `unreadable` have a CCSID that is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    began_at: AwareDatetime
    snapshot_id: str = ""
    group: NonNegativeInt = 0
    looked: NonNegativeInt = 0
    uncaptured: NonNegativeInt = 0
    partly: NonNegativeInt = 0
    unreadable: NonNegativeInt = 0
    found: Annotated[tuple[Found, ...], Field(max_length=MOST_FOUND)] = ()
    is_complete: bool = False

    @property
    def is_over(self) -> bool:
        """Whether there is no further lot: all was looked at, or enough was found."""
        return self.is_complete or len(self.found) == MOST_FOUND

    @classmethod
    def parse(cls, text: str) -> Progress:
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise FilterError("progress", "it is not that of a search", "a new search") from None


@dataclass(frozen=True, slots=True)
class Words:
    """What is searched for: a text, or bytes as hexadecimal digits; never shown in an error.

    A text is compared in the character set that the MQDLH, or else the MQMD, states; case matters.
    What is searched begins after the MQDLH. If an MQRFH2 follows, its folders are compared as text,
    and the data after it in the character set that it states. Properties are compared as text.
    """

    text: str = field(repr=False)
    is_hex: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise FilterError("words", "there are none", "a text, or hexadecimal digits")
        if len(self.text) > _LONGEST:
            raise FilterError("words", "they are too long", f"at most {_LONGEST} characters")
        if self.is_hex:
            try:
                bytes.fromhex(self.text)
            except ValueError:
                expected = "pairs of hexadecimal digits, such as 504d54"
                raise FilterError("words", "they are no bytes", expected) from None

    def __str__(self) -> str:
        """Return the words as the audit has them."""
        return f"{self.text!r} as {'hexadecimal digits' if self.is_hex else 'text'}"

    def are_in(self, data: bytes, row: Mapping[str, Any], properties: bytes = b"") -> bool | None:
        """Whether the stored data of a message of this row have them; None if no text is known."""
        if self.is_hex:
            return any(bytes.fromhex(self.text) in one for one in (data, properties))
        if self.text in properties.decode(_UTF_8, "replace"):
            return True
        prefix = "" if row["dlh_coded_char_set_id"] is None else "dlh_"
        encoding, stated, format_ = (row[f"{prefix}{name}"] for name in _DESCRIBED)
        ccsid = following_ccsid(stated, row["coded_char_set_id"])
        chain = walk(data, len(data), encoding=encoding, ccsid=ccsid, format=format_)
        folders = (folder for one in chain.rules_headers or () for folder in one.folders)
        if any(self.text in str(folder) for folder in folders):
            return True
        is_met = self._are_in_text(data, ccsid)
        if is_met or not chain.headers or chain.following is None:
            return is_met
        return self._are_in_text(data[chain.payload_offset :], chain.following[1])

    def _are_in_text(self, data: bytes, ccsid: int) -> bool | None:
        if ccsid in UTF_16:  # its bytes have the order of the sender's computer
            orders = ("utf-16-be", "utf-16-le")
            return any(self.text in data.decode(order, "replace") for order in orders)
        codec = text_codec(ccsid)
        if codec is None:
            return None
        try:
            is_there = codec.encode(self.text) in data
        except UnicodeError:
            return False  # the character set has no such text
        if not is_there or codec.several_byte in {"", _UTF_8}:
            return is_there
        # The bytes may begin within another character.
        return self.text in data.decode(codec.several_byte, "replace")


class BodySearch:
    """A search for words in the captured bodies of one handler, the newest snapshot first.

    `where` is a condition as `parse_where` reads it, "" for all messages. `keys` are those of
    encrypted payload. Raises FilterError; the methods raise `LakeError`.
    """

    def __init__(
        self, words: Words, where: str, sources: Sources, keys: Callable[[], Mapping[str, bytes]]
    ) -> None:
        self._words, self._sources, self._keys = words, sources, keys
        self._chosen = parse_where(where) if where.strip() else Where()
        self._mask = mask_of(self._chosen)
        search = find.Search(MessageFilter(), [sources.handler], sources.ledger, sources.lake_root)
        self._snapshots = {one.snapshot_id: (name, one) for name, one in search.snapshots.items()}
        self.total = sum(one.full for _, one in self._snapshots.values())
        """How many rows there are to look at."""

    def begin(self, who: str, progress: str = "") -> Progress:
        """Return the progress to go on with, of a search that is recorded in the audit.

        Raises LedgerUnavailableError if it cannot be recorded.
        """
        now = self._sources.clock()
        done = Progress.parse(progress) if progress else Progress(began_at=now)
        audit, event = self._sources.ledger.audit, self._event(done.began_at, who)
        is_recent = timedelta() <= now - done.began_at < _GOES_ON_FOR
        if progress and is_recent and audit.knows(event):
            return done
        done = Progress(began_at=now)
        audit.record(self._event(now, who))
        return done

    def _event(self, at: datetime, who: str) -> AuditEvent:
        where = self._chosen.text_of_where
        details = f"{self._words}{f', of messages with {where}' if where else ''}"
        handler = self._sources.handler
        return AuditEvent(at, AuditKind.BODIES_SEARCHED, who, handler, details=details)

    def go_on(self, done: Progress) -> Progress:
        """Look at one lot; raise FilterError if a snapshot that it goes on with was pruned."""
        if done.snapshot_id and done.snapshot_id not in self._snapshots:
            raise FilterError("progress", "its snapshot was pruned", "a new search")
        lot, until, passed = 0, self._sources.clock() + LOT_TIME, 0
        for directory, known in self._snapshots.values():
            passed += known.full
            if done.snapshot_id not in {"", known.snapshot_id}:
                continue
            done = done.model_copy(update={"snapshot_id": known.snapshot_id})
            for size, done in self._groups(directory, known, done):  # noqa: B020
                lot += size
                if done.is_over or lot >= LOT_BYTES or self._sources.clock() >= until:
                    return done
            end = {"snapshot_id": "", "group": 0, "looked": passed}
            done = done.model_copy(update=end)
        return done.model_copy(update={"is_complete": True, "looked": self.total})

    def _groups(
        self, directory: str, known: KnownSnapshot, done: Progress
    ) -> Iterator[tuple[int, Progress]]:
        """Yield the bytes of each row group from one on, and what is done after it."""
        snapshot = Snapshot.at(directory)
        if not snapshot.payload:
            if not done.group:
                unseen = {"group": 1, "uncaptured": done.uncaptured + known.full}
                yield 0, done.model_copy(update=unseen)
            return
        columns = sorted({*_COLUMNS, *self._mask.columns})
        read = decryption(directory, self._keys())
        for group, rows in payload_groups(snapshot, columns, done.group):
            chosen = self._chosen_rows(rows, known)
            found = {one.message_key: one for one in done.found}
            partly, unreadable = done.partly, done.unreadable
            for stored in group.to_pylist():
                row = chosen.get(stored["browse_seq"])
                if row is None:
                    continue
                data = read(stored)
                partly += len(data) < stored["payload_length"]
                is_met = self._words.are_in(data, row, read(stored, "properties"))
                unreadable += is_met is None
                if is_met:
                    key = row["message_key"].hex()
                    found.setdefault(key, Found(key, known.snapshot_id, row["browse_seq"]))
            changes = {"group": done.group + 1, "looked": done.looked + len(group)}
            counted = {"partly": partly, "unreadable": unreadable}
            all_found = {"found": tuple(found.values())[:MOST_FOUND]}
            done = done.model_copy(update=changes | counted | all_found)
            yield group.nbytes, done

    def _chosen_rows(self, rows: pa.Table, known: KnownSnapshot) -> dict[int, dict[str, Any]]:
        """Return the rows that meet the condition, by browse_seq."""
        found = [
            row
            for batch in rows.combine_chunks().to_batches()
            for row in batch.filter(self._mask.rows(batch)).to_pylist()
        ]
        states = self._states(known, found) if self._chosen.state is not None else {}
        return {
            row["browse_seq"]: row
            for row in found
            if self._chosen.is_met_by(states.get(row["message_key"], UNKNOWN_MESSAGE))
        }

    def _states(
        self, known: KnownSnapshot, rows: Sequence[Mapping[str, Any]]
    ) -> dict[bytes, MessageState]:
        keys = [row["message_key"] for row in rows]
        facts = self._sources.ledger.message_facts
        return facts.states(known.queue_manager, known.queue, keys)

    def messages(self, done: Progress) -> list[find.FoundMessage]:
        """Return the messages that were found, in order, without those that were pruned since."""
        places = defaultdict[str, set[int]](set)
        for one in done.found:
            places[one.snapshot_id].add(one.browse_seq)
        shown: dict[str, find.FoundMessage] = {}
        for snapshot_id, numbers in places.items():
            if snapshot_id not in self._snapshots:
                continue
            directory, known = self._snapshots[snapshot_id]
            held = rows_of(Snapshot.at(directory), min(numbers), max(numbers), find.COLUMNS)
            rows = [row for row in held.to_pylist() if row["browse_seq"] in numbers]
            states = self._states(known, rows)
            for row in rows:
                state = states.get(row["message_key"], UNKNOWN_MESSAGE)
                shown[row["message_key"].hex()] = find.found_message(known, row, state)
        return [shown[one.message_key] for one in done.found if one.message_key in shown]
