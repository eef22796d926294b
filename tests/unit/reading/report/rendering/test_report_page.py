from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import pytest

from mqdlq.ledger import Ledger
from mqdlq.model import AttemptState, Outcome
from mqdlq.reading.report.files import ReportFiles
from mqdlq.reasons import Why
from tests.unit.reading.report.ended_runs import (
    STAGES,
    USER,
    EndedRun,
    delivered,
    exhausted,
    failed_at,
    forwarded,
    left_by_rule,
    messages_of_every_outcome,
    unmatched,
)

pytestmark = pytest.mark.stages

FilesOf = Callable[..., ReportFiles]
VOID = {"meta", "br"}
HOSTILE = "<script>alert(1)</script>&\"'\x1b{{7*7}}"


@dataclass
class Element:
    """An element of the page with what is below it."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        parts = [c if isinstance(c, str) else c.text for c in self.children]
        return " ".join(" ".join(parts).split())

    def all(self, tag: str, cls: str = "") -> list[Element]:
        """Find elements below this one, in the order of the page."""
        below = [c for c in self.children if isinstance(c, Element)]
        return [
            found
            for child in below
            for found in ([child] if child._is(tag, cls) else []) + child.all(tag, cls)
        ]

    def _is(self, tag: str, cls: str) -> bool:
        classes = (self.attributes.get("class") or "").split()
        return tag in {self.tag, "*"} and (not cls or cls in classes)


class Page(HTMLParser):
    """Builds the tree of a page, refusing tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Element("page", {})
        self._open = [self.root]
        self.feed(html)
        self.close()
        assert self._open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs)
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def page_of(files: ReportFiles) -> Element:
    return Page(files.html_path.read_text()).root


def section(page: Element, title: str) -> Element:
    (found,) = [s for s in page.all("section") if s.all("h2")[0].text.startswith(title)]
    return found


def test_the_html_report_loads_no_other_file(files_of: FilesOf) -> None:
    files = files_of(EndedRun(messages_of_every_outcome()))

    page = page_of(files)
    tags = {element.tag for element in page.all("*")}
    attributes = {name for element in page.all("*") for name in element.attributes}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    assert not attributes & {"src", "href", "srcset", "style", "action"}
    assert not [name for name in attributes if name.startswith("on")]
    css = re.search(r"<style>(.*?)</style>", files.html_path.read_text(), re.DOTALL)
    assert css is not None
    assert not re.search(r"url\(|@import", css[1])


def test_the_content_security_policy_allows_only_the_pages_own_style(files_of: FilesOf) -> None:
    files = files_of(EndedRun(messages_of_every_outcome()))

    html = files.html_path.read_text()
    css = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert css is not None
    digest = base64.b64encode(hashlib.sha256(css[1].encode()).digest()).decode()
    (policy,) = [
        m.attributes["content"] for m in page_of(files).all("meta") if "http-equiv" in m.attributes
    ]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_the_account_on_the_page_is_the_ledgers(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun(messages_of_every_outcome(), arrived=2)

    page = page_of(files_of(run))

    outcomes = Counter(fact.outcome for fact in ledger.outcomes.of_run(run.run_id).values())
    account = section(page, "Account")
    legend = [end.text for end in account.all("p", "legend")[0].all("span", "end")]
    assert legend == [f"{outcomes[o]} {o.words}" for o in Outcome if o in outcomes]
    drawn = [rect.all("title")[0].text for rect in account.all("rect")]
    assert drawn == legend
    widths = [float(rect.attributes["width"] or 0) for rect in account.all("rect")]
    assert sum(widths) == pytest.approx(1000, abs=0.1)
    assert account.all("p", "sum")[0].text == (
        "62 in the snapshot, 62 accounted for: it adds up. The last browse,"
        " 2026-11-21 02:50:03 UTC, saw 14 messages: 12 of this run, 2 arrived since."
    )


def test_the_table_of_rules_is_the_ledgers(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun(messages_of_every_outcome())

    table = section(page_of(files_of(run)), "Rules").all("table")[0]

    expected: Counter[tuple[str, str, str]] = Counter()
    for fact in ledger.outcomes.of_run(run.run_id).values():
        rule = f"Rule {fact.rule}" if fact.rule else "No rule"
        to = f" to {fact.target_q}" if fact.target_q else ""
        expected[rule, f"{fact.action}{to}", fact.outcome.words] += 1
    shown: Counter[tuple[str, str, str]] = Counter()
    for body in table.all("tbody"):
        rule = re.sub(r"^(Rule \d+|No rule).*", r"\1", body.all("th")[0].text)
        for row in body.all("tr"):
            action, outcome, messages, _ = row.all("td")
            shown[rule, action.text, outcome.text] += int(messages.text)
    assert shown == expected


def test_the_page_shows_a_rule_as_written_in_the_table(files_of: FilesOf) -> None:
    page = page_of(files_of(EndedRun([exhausted(), forwarded()])))

    codes = ["".join(map(str, code.children)) for code in page.all("code", "rule-text")]
    assert codes == [
        "REASON(MQRC_PUT_INHIBITED) DESTQ(PAYMENTS.HELD) +\n    ACTION(RETRY) RETRY(3)",
        (
            "REASON(MQRC_UNKNOWN_OBJECT_NAME) DESTQ('ORDERS.*') ACTION(FWD) FWDQ(PARKED.ORDERS)"
            " HEADER(YES)"
        ),
    ]


def test_causes_on_the_page_add_up_to_the_dead_letters(files_of: FilesOf) -> None:
    page = page_of(files_of(EndedRun(messages_of_every_outcome())))

    rows = section(page, "Causes").all("tbody")[0].all("tr")
    totals = [int(row.all("td", "n")[0].text) for row in rows]
    ended = [sum(int(end.text.split()[0]) for end in row.all("span", "end")) for row in rows]
    assert sum(totals) == 59
    assert ended == totals
    assert rows[0].all("th")[0].text == (
        "MQRC_Q_FULL (2053) for PAYMENTS.IN @ QM1 006198e771ae the queue is full passes by itself"
    )


def test_every_message_that_needs_attention_is_listed_with_its_attempts(files_of: FilesOf) -> None:
    page = page_of(files_of(EndedRun(messages_of_every_outcome())))

    people = section(page, "Needs attention")
    rows = [row for body in people.all("tbody") for row in body.all("tr")]
    assert sorted(int(row.all("th")[0].text) for row in rows) == [*range(51, 54), *range(57, 63)]
    (key,) = re.findall(r'"([0-9a-f]{64})"', rows[0].all("code", "command")[0].text)
    assert [cell.text for cell in rows[0].all("td")] == [
        "2026-11-21 01:25:19 UTC",
        "02:49:42, 02:49:48, 02:49:54",
        (b"AMQ QM1" + (51).to_bytes(17, "big")).hex(),
        "1 h 24 min",
        "payments",
        USER,
        "MQSTR",
        "188",
        key,
        (
            f'mqdlq run demo --conf \'{{"message_keys": ["{key}"], "input_q":'
            ' "SYSTEM.DEAD.LETTER.QUEUE"}\''
        ),
    ]
    assert people.all("dd", "next")[0].text == (
        "ask who inhibited puts, then set PUT(ENABLED); then run the handler again"
    )


def test_the_drawn_attempts_are_the_ledgers(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun(messages_of_every_outcome())

    drawn: Counter[str] = Counter()
    for title in section(page_of(files_of(run)), "Attempts over time").all("title"):
        found = re.fullmatch(r"\d\d:\d\d:\d\d: (\d+) (succeeded|failed)", title.text)
        assert found is not None
        drawn[found[2]] += int(found[1])

    states = Counter(attempt.state for attempt in ledger.attempts.of_run(run.run_id))
    assert drawn == {
        "succeeded": states[AttemptState.CONFIRMED],
        "failed": states[AttemptState.FAILED],
    }


def test_names_from_messages_cannot_become_markup(files_of: FilesOf) -> None:
    letters = [
        unmatched(
            dest_q_name=HOSTILE,
            dest_q_mgr_name="<b>QM</b>",
            put_appl_name="<b>\x1b\u202ea'b",
            user_identifier="<i>\"'&",
        ),
        exhausted(target_q=HOSTILE, why=Why.UNPROCESSABLE(problem=HOSTILE)),
        replace(delivered(), target_q=HOSTILE, target_q_mgr="<i>"),
    ]

    files = files_of(EndedRun(letters, queue=HOSTILE), failed_at("retry"), HOSTILE)

    page = page_of(files)
    html = files.html_path.read_text()
    assert not [e for e in page.all("*") if e.tag in {"script", "b"}]
    assert "\x1b" not in html
    assert "From <b>\\x1b\\u202ea'b; oldest" in page.all("article")[1].text
    assert page.all("h3")[1].text.endswith(
        "for <script>alert(1)</script>&\"'\\x1b{{7*7}} @ <b>QM</b>"
    )


@pytest.mark.parametrize(
    ("run", "stages", "verdict"),
    [
        (EndedRun([delivered()]), failed_at("retry"), "failed"),
        (EndedRun([delivered()], returned=1), {}, "failed"),
        (EndedRun([delivered()], plan=False), failed_at("approve"), "failed"),
        (EndedRun([replace(delivered(), outcome=None)]), {}, "failed"),
        (EndedRun(snapshot=False), {}, "unfinished"),
        (EndedRun([unmatched()]), {}, "attention"),
        (EndedRun([left_by_rule()]), {}, "ok"),
    ],
)
def test_only_a_finished_run_without_findings_is_green(
    files_of: FilesOf, run: EndedRun, stages: dict[str, str], verdict: str
) -> None:
    page = page_of(files_of(run, stages))

    assert page.all("header")[0].attributes["class"] == verdict


def test_the_page_of_an_empty_queue_is_not_blank(files_of: FilesOf) -> None:
    stages = {**dict.fromkeys(STAGES, "skipped"), "sense": "success"}

    page = page_of(files_of(EndedRun(snapshot=False), stages))

    assert page.all("h1")[0].text == "Queue empty, last checked 2026-11-21 02:49:22 UTC."
    assert [s.all("h2")[0].text for s in page.all("section")] == ["Run"]


def test_the_page_counts_rows_that_it_leaves_out(files_of: FilesOf) -> None:
    letters = [unmatched(dest_q_name=f"Q{n}") for n in range(70)]

    page = page_of(files_of(EndedRun([*letters, *[exhausted()] * 130])))

    people = section(page, "Needs attention")
    assert [p.text for p in people.all("p", "more")] == [
        "and 30 messages more: see report.json",
        "and 11 groups more: see report.json",
    ]


def test_messages_without_an_outcome_are_drawn_and_listed(files_of: FilesOf) -> None:
    lost = replace(delivered(), outcome=None, tries=())

    page = page_of(files_of(EndedRun([delivered(), lost, lost]), failed_at("execute")))

    account = section(page, "Account")
    assert [rect.attributes["class"] for rect in account.all("rect")] == ["delivered", "missing"]
    assert account.all("li")[0].text == "2 of 3 messages have no outcome: messages 2-3"
    missing = section(page, "Without an outcome")
    assert [row.all("th")[0].text for row in missing.all("tbody")[0].all("tr")] == ["2", "3"]
