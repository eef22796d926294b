"""Search in captured bodies, for people who may see bodies; every search is in the audit.

The words are sent in a form and never in an address, because servers and browsers keep addresses.
"""

from functools import partial
from typing import Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from mqdlq.lake.filters import FilterError
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.body_search import MOST_FOUND, BodySearch, Words
from mqdlq.web.acting import PostedForm
from mqdlq.web.requests import HandlerView, may_reveal, payload_keys
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute, dependencies=[Depends(may_reveal)])


@router.get(Paths.find)
def ask_for_words(view: HandlerView) -> HTMLResponse:
    return _page(view)


@router.post(Paths.find)
def search_bodies(view: HandlerView, pairs: PostedForm) -> HTMLResponse:
    """Show what one more lot of a search found, and what the lots before it did."""
    given = dict(pairs)
    try:
        words = Words(given.get("words", ""), given.get("as") == "hex")
        keys = partial(payload_keys, view.handler)
        search = BodySearch(words, given.get("where", ""), view, keys)
        done = search.begin(view.person.name, given.get("progress", ""))
        done = search.go_on(done)
    except FilterError as error:
        return _page(view, 422, given=given, fault=error)
    messages = search.messages(done)
    return _page(view, given=given, done=done, total=search.total, messages=messages)


def _page(view: HandlerView, status: int = 200, **values: object) -> HTMLResponse:
    empty: dict[str, object] = {"given": {}, "fault": None, "done": None}
    return view.render("messages/find.html", status, **empty | values, most=MOST_FOUND)
