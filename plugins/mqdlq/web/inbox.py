"""The inbox of causes over all queues or on those of a handler, and what people say of them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from mqdlq.constants import reason_text
from mqdlq.diagnosis.keeping import MOST_SHOWN, Place, with_changes
from mqdlq.diagnosis.records import Diagnosis
from mqdlq.handlers.owners import NOBODY, Owners, read_owners
from mqdlq.lake.filters import PageNumber, Query, Reason, Start, Text, choice, longest, number
from mqdlq.ledger import Ledger
from mqdlq.ledger.inbox import BookedNumbers
from mqdlq.ledger.tables import AuditEvent, CauseChange
from mqdlq.model import AuditKind, ChangeKind
from mqdlq.reading.exports import Export, FileForm, schema_of
from mqdlq.reading.inbox import InboxRow, is_arriving, read_inbox
from mqdlq.reading.message import ticket_link
from mqdlq.reading.page_paths import Paths, dag_of
from mqdlq.reading.standings import Mute, Standing
from mqdlq.rules.wildcards import fits
from mqdlq.web import rendering
from mqdlq.web.acting import PostedForm
from mqdlq.web.requests import FleetView, HandlerView, View
from mqdlq.web.serving import PageRoute
from mqdlq.words import destination_of, moment

router: Final = APIRouter(route_class=PageRoute)

WIDTH: Final = 100.0
ON_A_PAGE: Final = 50

# Filters and order: all state of the page is in its address.

OPEN, GONE, ALL = "open", "gone", "all"
STATES: Final = {
    "": "open",
    **{one.value: one.words for one in Standing},
    GONE: "without messages",
    ALL: "all",
}
ONLY: Final = {
    "attention": "that need attention",
    "arriving": "that still arrive",
    "expiring": "that expire soon",
}
SORTS: Final = {
    "": "need",
    "messages": "most messages",
    "last": "last dead-lettered",
    "first": "newest cause",
    "oldest": "oldest message",
}
MINE: Final = "mine"
SPANS: Final = {"": "24 hours", "week": "7 days"}
_CLOSED: Final = {Standing.MUTED, Standing.RESOLVED}
_RANKS: Final = {Standing.ACKNOWLEDGED: 1, Standing.MUTED: 2, Standing.RESOLVED: 3}


class InboxFilters(Query):
    """The causes to list; by default those that are open, which are neither muted nor resolved.

    `text` is a part of a name, a reason or a ticket, in any case; `owner` is a name, or "mine".
    """

    text: Text = ""
    reason: Reason = None
    queue_manager: Text = ""
    handler: Text = ""
    application: Text = ""
    owner: Text = ""
    state: Annotated[str, choice(STATES)] = ""
    only: Annotated[str, choice(ONLY)] = ""
    sort: Annotated[str, choice(SORTS)] = ""
    span: Annotated[str, choice(SPANS)] = ""
    page: PageNumber = 1
    download: FileForm = ""

    def choose(
        self, rows: Iterable[InboxRow], owners: Owners, mine: Collection[str]
    ) -> list[InboxRow]:
        """Return the chosen causes in their order; `mine` are the owners who the person is."""
        chosen = [row for row in rows if self.has(row)]
        if self.owner:
            wanted = mine if self.owner == MINE else {self.owner}
            chosen = [row for row in chosen if owner_of(row, owners) in wanted]
        return sorted(chosen, key=lambda row: _order(row, self.sort))

    def has(self, row: InboxRow) -> bool:
        numbers = row.numbers
        # The names are looked up for a filter that asks for them only.
        return (
            self._has_state(row)
            and self.reason in (None, numbers.reason)
            and not (self.queue_manager and not _fits(self.queue_manager, row.queue_managers))
            and not (self.handler and not _fits(self.handler, row.handlers))
            and not (self.application and not _fits(self.application, row.applications))
            and (self.only != "attention" or numbers.attention > 0)
            and (self.only != "arriving" or row.is_arriving)
            and (self.only != "expiring" or numbers.expiring > 0)
            and (not self.text or self.text.lower() in _words(row))
        )

    def _has_state(self, row: InboxRow) -> bool:
        if self.state in (ALL, row.standing):
            return True
        if self.state == GONE:
            return not row.numbers.messages
        return not self.state and bool(row.numbers.messages) and row.standing not in _CLOSED


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(fits(pattern, name) for name in names)


def _words(row: InboxRow) -> str:
    ticket = row.said.ticket.value if row.said.ticket else ""
    queues = (one.place[1] for one in row.places)
    words = (row.cause.cause_id, reason_text(row.cause.reason), destination_of(row.cause), ticket)
    names = (*row.queue_managers, *row.handlers, *row.applications, *queues)
    return "\n".join((*words, *names)).lower()


def owner_of(row: InboxRow, owners: Owners) -> str:
    if not owners.causes:
        return ""
    name = row.numbers.dest_q_name or ""
    return owners.of(name, row.applications, row.queue_managers)


def _order(row: InboxRow, sort: str) -> tuple[object, ...]:
    """Return the sort key of a row; by need, what is open and lost soonest comes first."""
    numbers, never = row.numbers, datetime.max.replace(tzinfo=UTC)
    key: tuple[object, ...]
    if sort == "messages":
        key = (-numbers.messages,)
    elif sort == "oldest":
        key = (numbers.oldest_at or never,)
    elif sort:
        at = numbers.last_at if sort == "last" else numbers.first_at
        key = (-at.timestamp() if at else 0.0,)
    else:
        rank, is_safe = _RANKS.get(row.standing, 0), not numbers.expiring
        key = (rank, is_safe, -numbers.attention, -numbers.messages)
    return (*key, numbers.reason, numbers.cause_id)


SCHEMA: Final = schema_of(
    *("cause_id", "reason", "reason_text", "dest_q_name", "dest_q_mgr_name", "state", "owner"),
    *("ticket", "messages", "attention", "expiring", "expires_at", "first_at", "last_at"),
    *("oldest_at", "is_arriving", "looked_at", "queue_managers", "handlers", "applications"),
)
"""The columns of the inbox as a file."""


def _record(row: InboxRow, owners: Owners) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reason_text": reason_text(row.cause.reason),
        "state": row.standing,
        "owner": owner_of(row, owners),
        "ticket": row.said.ticket.value if row.said.ticket else "",
        "queue_managers": ", ".join(row.queue_managers),
        "handlers": ", ".join(row.handlers),
        "applications": ", ".join(row.applications),
        "is_arriving": row.is_arriving,
        "looked_at": row.looked_at,
    }
    numbers = (name for name in SCHEMA.names if name not in found)
    return found | {name: getattr(row.numbers, name) for name in numbers}


@router.get(Paths.inbox)
def inbox(view: FleetView) -> Response:
    return _show(view)


@router.get(Paths.causes)
def causes_of_handler(view: HandlerView) -> Response:
    """Show the causes on the queues of one handler, or what to do before its first run."""
    if not view.ledger.handled_queues.of_handler(view.handler):
        return view.render("inbox/none.html")
    return _show(view)


def _show(view: View) -> Response:
    owners, person = read_owners(), view.person
    mine = {name for name, one in owners.owners.items() if one.has(person.names, person.roles)}
    filters, now = view.parse(InboxFilters), view.clock()
    if filters.download:
        rows = read_inbox(view.ledger, view.handlers, now)
        chosen = filters.choose(rows, owners, mine)
        name = f"causes-{view.handler}" if view.handler else "inbox"
        listed = Export(name, SCHEMA, (_record(row, owners) for row in chosen))
        return view.download(listed, filters.download)
    given = list_causes(view.ledger, view.handlers, filters, now, owners=owners, mine=mine)
    shown = {name for row in given["rows"] for name in row.handlers}
    acts = (view.person.may_act(dag_of(name)) for name in sorted(shown))
    may_change = not view.handler and any(acts)
    return view.render("inbox/inbox.html", may_change=may_change, **given)


def list_causes(
    ledger: Ledger,
    handlers: Collection[str],
    filters: InboxFilters,
    now: datetime,
    *,
    owners: Owners = NOBODY,
    mine: Collection[str] = (),
) -> dict[str, Any]:
    """Return the values of the inbox: a page of the chosen causes, and the numbers of all.

    `mine` are the owners who the person is.
    """
    rows = read_inbox(ledger, handlers, now)
    found = filters.choose(rows, owners, mine)
    pages = rendering.pages_of(len(found), ON_A_PAGE)
    page = min(filters.page, pages)
    shown = found[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    known = [row for row in rows if row.numbers.messages]
    standings = Counter(row.standing for row in known)
    return {
        "filters": filters,
        "rows": shown,
        "charts": _charts(ledger, handlers, shown, filters.span, now),
        "found": len(found),
        "open": sum(row.standing not in _CLOSED for row in known),
        "messages": sum(row.numbers.messages for row in known),
        "attention": sum(row.numbers.attention for row in known if row.standing not in _CLOSED),
        "standings": {one: standings[one] for one in Standing if standings[one]},
        "owners": {row.numbers.cause_id: owner_of(row, owners) for row in shown},
        "owner_names": [MINE, *owners.owners] if owners.owners else [],
        "choices": {"state": STATES, "only": ONLY, "sort": SORTS, "span": SPANS},
        "page": page,
        "pages": pages,
        "now": now,
        **_ABOUT,
    }


@router.get(Paths.known_cause)
def known_cause(view: FleetView, cause_id: str) -> HTMLResponse:
    row, now = _row_of(view, cause_id), view.clock()
    changes = view.ledger.cause_changes.of_cause(cause_id)
    charts = {
        span: _charts(view.ledger, view.handlers, [row], span, now)[cause_id] for span in SPANS
    }
    places = sorted(row.places, key=lambda one: (-one.numbers.messages, one.handler, one.place))
    acting = {one for one in row.handlers if view.person.may_act(dag_of(one))}
    return view.render(
        "inbox/cause.html",
        row=row,
        owner=owner_of(row, read_owners()),
        places=places,
        changes=changes,
        diagnoses=_diagnoses(places, cause_id, view.ledger),
        charts=charts,
        spans=SPANS,
        acting=acting,
        now=now,
        is_arriving=is_arriving,
        **_ABOUT,
    )


def _diagnoses(
    places: Iterable[BookedNumbers], cause_id: str, ledger: Ledger
) -> list[tuple[Diagnosis, Place, list[str]]]:
    """Return the diagnoses of a cause on some queues, the last one first, with what changed."""
    found = [
        (one, place, changed)
        for place in (Place(one.handler, *one.place) for one in places)
        for one, changed in with_changes(place, cause_id, ledger)
    ]
    return sorted(found, key=lambda one: one[0].at, reverse=True)[:MOST_SHOWN]


def _row_of(view: FleetView, cause_id: str) -> InboxRow:
    for row in read_inbox(view.ledger, view.handlers, view.clock()) if cause_id else ():
        if row.cause.cause_id == cause_id:
            return row
    raise rendering.NotFoundError(
        "MQDLQ-965",
        f"no cause {cause_id[:60]!r} is known on a queue that you may see; choose one from the"
        " inbox",
    )


def mute_of(change: CauseChange) -> str:
    return Mute.read(change.value).words


_ABOUT: Final[dict[str, Any]] = {
    "spark": (WIDTH, rendering.HEIGHT),
    "mute_of": mute_of,
    "ticket_link": ticket_link,
    "ChangeKind": ChangeKind,
}


# Arrivals as bars: an hour each for a day, six hours each for a week.

Chart = tuple[list[rendering.Bar], str]


def _charts(
    ledger: Ledger,
    handlers: Collection[str],
    rows: Collection[InboxRow],
    span: str,
    now: datetime,
) -> dict[str, Chart]:
    hours, bars = (6, 28) if span else (1, 24)
    until = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    starts = [until - timedelta(hours=hours * back) for back in range(bars, 0, -1)]
    ids = [row.cause.cause_id for row in rows if row.cause.cause_id]
    counted = ledger.inbox.arrivals(ids, handlers, starts[0])
    return {
        row.cause.cause_id: _chart(
            counted.get(row.cause.cause_id, Counter()), starts, timedelta(hours=hours), span
        )
        for row in rows
    }


def _chart(
    counted: Mapping[datetime, int], starts: list[datetime], width: timedelta, span: str
) -> Chart:
    numbers = [0] * len(starts)
    for hour, messages in counted.items():  # a clock that is ahead counts in the last bar
        numbers[min((hour - starts[0]) // width, len(starts) - 1)] += messages
    titled = [
        (number, f"{number:,} from {moment(start)}")
        for start, number in zip(starts, numbers, strict=True)
    ]
    drawn = rendering.draw_bars(titled, width=WIDTH, places=len(titled), least=1.5, zero=0.5)
    return drawn, f"{sum(numbers):,} dead-lettered in the last {SPANS[span]}"


# Changes of what people say of causes.

KINDS: Final = {
    ChangeKind.ACKNOWLEDGED: "acknowledge",
    ChangeKind.MUTED: "mute",
    ChangeKind.RESOLVED: "resolve",
    ChangeKind.REOPENED: "open again",
}
_MOST: Final = 1_000_000_000
_ABOUT["kinds"] = KINDS


class ChangeForm(Query):
    """A change of causes: a state, a note and a ticket, each if it is given.

    A mute ends at the time `until`, with so many `more` messages, or with `times` as many.
    """

    state: Annotated[str, choice(KINDS)] = ""
    until: Start = None
    more: Annotated[int, number(1, _MOST)] = 0
    times: Annotated[int, number(2, _MOST)] = 0
    ticket: Annotated[str, longest(60)] = ""
    note: Annotated[str, longest(2_000)] = ""


@router.post(Paths.changed_causes)
def change_causes(view: FleetView, pairs: PostedForm) -> Response:
    """Change causes for all who see them, as the person who sent the form.

    The person must be permitted to act on a handler that has the cause. Of two people at once, both
    changes are recorded, and the last one counts.
    """
    ids = dict.fromkeys(value for name, value in pairs if name == "cause_id" and value)
    back = next((value for name, value in pairs if name == "back"), "")
    if not any(view.person.may_act(dag_of(one)) for one in view.handlers):
        raise _forbidden("")
    asked = list(_asked_of(ChangeForm.parse(pairs, ("cause_id", "back"))))
    if not ids or not asked:
        raise rendering.InvalidRequestError(
            "MQDLQ-962",
            "No cause is selected, or no change is given; select causes, and choose a state, or"
            " write a note or a ticket",
        )
    rows = {row.cause.cause_id: row for row in read_inbox(view.ledger, view.handlers, view.clock())}
    messages, at, who = view.ledger.inbox.messages(ids), view.clock(), view.person.name
    changes, events = [], []
    said = "; ".join(f"{kind.words} {value}".strip() for kind, value in asked)
    for cause_id in ids:
        row = rows.get(cause_id)
        if row is None or not any(view.person.may_act(dag_of(one)) for one in row.handlers):
            raise _forbidden(cause_id)
        changes += [CauseChange(cause_id, at, who, *one, messages[cause_id]) for one in asked]
        about = f"{cause_id} {reason_text(row.cause.reason)} {destination_of(row.cause)}"
        kind = AuditKind.CAUSE_CHANGED
        events += [
            AuditEvent(at, kind, who, handler, why=said, details=about.strip())
            for handler in row.handlers
        ]
    view.ledger.cause_changes.add(changes, events)
    if back == "cause":
        return RedirectResponse(view.paths.known_cause(next(iter(ids))), HTTPStatus.SEE_OTHER)
    leads_to = view.paths.inbox(dict(parse_qsl(back)))
    return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)


def _forbidden(cause_id: str) -> rendering.ForbiddenError:
    return rendering.ForbiddenError(
        "MQDLQ-963",
        f"You may not change the cause {cause_id[:60]!r}; ask for permission to trigger the DAG of"
        " a handler that has it",
    )


def _asked_of(form: ChangeForm) -> Iterator[tuple[ChangeKind, str]]:
    if form.note:
        yield ChangeKind.NOTE, form.note
    if form.ticket:
        yield ChangeKind.TICKET, form.ticket
    kind = ChangeKind(form.state) if form.state else None
    ends = [one for one in (form.until, form.more, form.times) if one]
    if kind is not None and len(ends) != (kind is ChangeKind.MUTED):
        raise rendering.InvalidRequestError(
            "MQDLQ-969",
            "A mute has one end, and no other state has any; give a time, a number of more"
            " messages, or how many times as many",
        )
    if kind is not None:
        yield kind, Mute(form.until, form.more, form.times).stored if ends else ""
