"""Chart of the applications with most dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.ledger import Ledger
from mqdlq.stages.finding import MessageFilter, count_by_application
from mqdlq.stages.report.wording import visible
from mqdlq.web.history.charts import Chart, Series

SHOWN: Final = 10
"""How many applications the chart has."""

TITLE: Final = "Dead letters by application"
NOTE: Final = (
    "The applications with most messages that were dead-lettered in this range, or put, if the"
    " MQDLH does not say; each message counts once, also if it has left the queue."
)


def chart_of_applications(searched: Mapping[str, str], *, ledger: Ledger, lake_root: str) -> Chart:
    """Count the messages of a search by application; `searched` are the search's parameters.

    One of them is the handler. If the lake cannot be searched, the chart has no numbers and says
    why.
    """
    chosen = MessageFilter.parse(searched.items(), ("handler",))
    found: list[tuple[str, int]] = []
    note, empty = NOTE, "No message in the snapshots is of this range."
    try:
        found, is_whole = count_by_application(
            chosen, [searched["handler"]], ledger=ledger, lake_root=lake_root, most=SHOWN
        )
        if not is_whole:
            note += " Only the newest snapshots count: shorten the range."
    except LakeError as error:
        empty = error.text
    filters: dict[str, Mapping[str, str]] = {
        visible(name): {**searched, "application": name} for name, _ in found if name
    }
    return Chart(
        TITLE,
        note,
        "ranking",
        "Application",
        tuple(visible(name) for name, _ in found),
        (Series("messages", tuple(float(messages) for _, messages in found)),),
        filters,
        empty,
    )
