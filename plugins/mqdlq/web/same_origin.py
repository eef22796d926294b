"""Refuse requests that another site had the browser send (cross-site request forgery)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from fastapi import Request

from mqdlq.web.page_errors import ForbiddenError

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_same_origin(request: Request) -> None:
    """Let requests pass that read, or that a page of this Airflow had the browser send.

    Browsers say where a request comes from in ``Sec-Fetch-Site`` (W3C, Fetch Metadata Request
    Headers), and, where that header is missing because the connection is not encrypted, in
    ``Origin``. A request that says neither is refused, too: raises ForbiddenError.
    """
    if request.method in READING:
        return
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin" or (site is None and _origin_is_ours(request)):
        return
    raise ForbiddenError(
        "MQDLQ-992",
        "This request does not come from the operator's page, so nothing was done; open the page"
        " in Airflow and send its form, or use Airflow's REST API from a program",
    )


def _origin_is_ours(request: Request) -> bool:
    origin = request.headers.get("origin", "")
    scheme, host, *_ = urlsplit(origin)
    if scheme not in {"http", "https"} or not host:
        return False
    configured = urlsplit(conf.get("api", "base_url", fallback=""))
    return host == request.headers.get("host") or (scheme, host) == configured[:2]
