"""The rules guide and the code, held together: no keyword, code or example goes astray."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import mqdlq.rules
from mqdlq import handlers
from mqdlq.constants import reason_text
from mqdlq.model import Action
from mqdlq.rules import parse, print_table
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.lint import WARNING_CODES, Code, review
from mqdlq.rules.lint.actions import WITHOUT_HOPE

GUIDE = (Path(__file__).parents[3] / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
WARN = {"warning"}
REFUSE = {"error", "_error", "_FaultError"}


@dataclass(frozen=True)
class Example:
    """A block of the guide: the heading it stands under, and a table."""

    heading: str
    is_wrong: bool
    table: bytes


def examples() -> list[Example]:
    found = []
    heading = ""
    for block in re.finditer(
        r"^### (.+)$|^```rules( wrong)?( escapes)?\n([^`]*)^```$", GUIDE, re.MULTILINE
    ):
        heading = block[1] or heading
        if not block[1]:
            text = block[4].removesuffix("\n") if block[3] else block[4]
            table = text.encode()
            if block[3]:
                table = table.decode("unicode_escape").encode("latin-1")
            found.append(Example(heading, bool(block[2]), table))
    return found


EXAMPLES = examples()
HEADINGS = re.findall(r"^### (.+)$", GUIDE, re.MULTILINE)


def codes_reported_by(names: set[str]) -> set[str]:
    """Return the codes that the language's modules hand to functions of these names."""
    found = set()
    for path in Path(str(mqdlq.rules.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            code = getattr(node.args[0], "value", None)
            if name in names and isinstance(code, str) and CODE.fullmatch(code):
                found.add(code)
    return found


ERROR_CODES = codes_reported_by(REFUSE)
CODES = sorted(ERROR_CODES | codes_reported_by(WARN) | set(Code))


def codes_of(example: Example) -> set[str]:
    """Return what is said of an example; most are excerpts and leave out the last rule."""
    codes = {diagnostic.code for diagnostic in review(example.table).diagnostics}
    return codes if example.heading == Code.NO_CATCH_ALL else codes - {Code.NO_CATCH_ALL}


def test_the_codes_that_a_handler_can_set_are_those_of_all_warnings() -> None:
    assert codes_reported_by(WARN) | set(Code) == WARNING_CODES
    assert not ERROR_CODES & WARNING_CODES


def test_every_keyword_action_and_code_has_one_heading_and_there_are_no_others() -> None:
    actions = [f"ACTION({action})" for action in Action]

    assert sorted(HEADINGS) == sorted([*KEYWORDS, *actions, *CODES])


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_wrong_and_a_right_example(code: str) -> None:
    assert {example.is_wrong for example in EXAMPLES if example.heading == code} == {True, False}


@pytest.mark.parametrize("keyword", [k for k in KEYWORDS if k != "ACTION"])
def test_every_keyword_has_an_example_that_uses_it(keyword: str) -> None:
    tables = [example.table for example in EXAMPLES if example.heading == keyword]

    assert any(f"{keyword}(".encode() in table for table in tables)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_an_example_shows_what_it_stands_under(example: Example) -> None:
    assert codes_of(example) == ({example.heading} if example.is_wrong else set())


def test_the_guide_lists_every_hopeless_reason() -> None:
    listed = re.search(r"^\| until .*?\n\n", GUIDE, re.MULTILINE | re.DOTALL)

    assert listed
    assert set(re.findall(r"MQRC_\w+ \(\d+\)", listed[0])) == set(map(reason_text, WITHOUT_HOPE))


def test_the_guides_links_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    assert set(re.findall(r"\]\(#([^)]+)\)", GUIDE)) <= anchors


def test_the_yaml_example_means_the_table_beside_it() -> None:
    section = GUIDE.partition("## The YAML form")[2].partition("\n## ")[0]
    yaml_form = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    table = re.search(r"```rules\n(.*?)```", section, re.DOTALL)
    assert yaml_form is not None
    assert table is not None

    read = handlers.check(yaml_form[1].encode(), "guide.yaml").table

    assert read is not None
    assert print_table(read) == print_table(parse(table[1]))
