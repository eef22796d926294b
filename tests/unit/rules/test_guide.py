"""docs/reference/rules.md agrees with the code: every keyword, code and example."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import mqdlq.rules
from mqdlq import handlers
from mqdlq.constants import reason_text
from mqdlq.model import Action, QueueKind
from mqdlq.rules import parse, print_table
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, MAX_NUMBER, Keyword, Kind, Part
from mqdlq.rules.lint import HOPELESS_REASONS, WARNING_CODES, Code, review

GUIDE = (Path(__file__).parents[3] / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^### (?P<heading>.+)$"
    r"|^(?P<label>Wrong|Right)(?P<escaped> \(escaped\))?:\n\n```\w+\n(?P<labelled>[^`]*)^```$"
    r"|^```rules\n(?P<plain>[^`]*)^```$",
    re.MULTILINE,
)
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
WARN = {"warning"}
OF_BACKOUT_QUEUES = {"needs-mqdlh", "missing-inputq"}
REFUSE = {"error", "_error", "_FaultError"}


@dataclass(frozen=True)
class Example:
    """A table of the page, and the heading of its section."""

    heading: str
    is_wrong: bool
    table: bytes


def examples() -> list[Example]:
    found = []
    heading = ""
    for block in BLOCK.finditer(GUIDE):
        heading = block["heading"] or heading
        if not block["heading"]:
            table = (block["labelled"] or block["plain"]).encode()
            if block["escaped"]:
                table = table.removesuffix(b"\n").decode("unicode_escape").encode("latin-1")
            found.append(Example(heading, block["label"] == "Wrong", table))
    return found


EXAMPLES = examples()
HEADINGS = re.findall(r"^### (.+)$", GUIDE, re.MULTILINE)


def codes_reported_by(names: set[str]) -> set[str]:
    """Return the codes that modules of the language pass to functions of these names."""
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
    """Return the codes of an example; most examples are excerpts without a last rule."""
    kind = QueueKind.BACKOUT if example.heading in OF_BACKOUT_QUEUES else QueueKind.DEAD_LETTER
    found = review(example.table, queue_kind=kind)
    codes = {diagnostic.code for diagnostic in found.diagnostics}
    return codes if example.heading == Code.NO_CATCH_ALL else codes - {Code.NO_CATCH_ALL}


def test_a_handler_can_set_the_severity_of_every_warning_and_no_error() -> None:
    assert codes_reported_by(WARN) | set(Code) == WARNING_CODES
    assert not ERROR_CODES & WARNING_CODES


def table_rows(section: str) -> list[list[str]]:
    """Return the cells of the first table of a section, without its header."""
    text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n##")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def kind_of(keyword: Keyword) -> str:
    """Return the kind of a keyword as the index has it."""
    if keyword.part is Part.CONTROL:
        return "control data"
    return "pattern" if keyword.is_pattern else "action"


VALUES_OF_EXTENSIONS = {
    Kind.TIME: "comparison with a time",
    Kind.SIZE: "comparison with a number of bytes",
    Kind.COUNT: "comparison with a number",
    Kind.PROPERTY: "comparison of a property",
    Kind.CHAIN: "names of headers, with wildcards",
}


def values_of(keyword: Keyword) -> str:
    """Return the allowed values of a keyword as the index has them."""
    numbers = f"{keyword.least} to {MAX_NUMBER}"
    match keyword.kind:
        case Kind.TEXT:
            return f"text, {keyword.length} characters"
        case Kind.NAME:
            return f"name, {keyword.length} characters"
        case Kind.PATTERN_NUMBER:
            return ", ".join(["number", *(f"`{family}_…`" for family in keyword.families)])
        case Kind.NUMBER:
            return numbers
        case Kind.WORD:
            words = [f"`{word}`" for word in keyword.words]
            return ", ".join(words if keyword.least is None else [*words, numbers])
        case _:
            found = VALUES_OF_EXTENSIONS[keyword.kind]
            return ", ".join([found, *(f"`{word}`" for word in keyword.words)])


def test_the_index_has_every_keyword_with_its_kind_and_values() -> None:
    index = [row[:3] for row in table_rows("Keywords")]

    assert index == [
        [f"[{name}](#{name.lower()})", kind_of(keyword), values_of(keyword)]
        for name, keyword in KEYWORDS.items()
    ]


def test_the_index_has_every_extension_with_its_values_and_whether_they_change() -> None:
    assert [row[:3] for row in table_rows("Extensions")] == [
        [
            f"[{name.lower()}](#{name.lower()})",
            values_of(extension),
            "yes" if extension.changes else "no",
        ]
        for name, extension in EXTENSIONS.items()
    ]


def test_every_example_of_an_extension_is_valid() -> None:
    blocks = re.findall(r"```yaml\n(extensions: [^`]*)```", GUIDE)

    assert [set(yaml.safe_load(block)["extensions"]) for block in blocks] == [
        {name.lower()} for name in EXTENSIONS
    ]
    for block in blocks:
        rule = f"table:\n  rules:\n    - action: IGNORE\n      {block}    - action: IGNORE\n"
        assert [str(found) for found in handlers.check(rule, "page").diagnostics] == []


def test_the_index_names_the_field_of_every_pattern() -> None:
    described = {row[0].partition("]")[0].strip("["): row[4] for row in table_rows("Keywords")}

    for keyword in KEYWORDS.values():
        if keyword.is_pattern:
            structure = "MQDLH" if keyword.column.startswith("dlh_") else "MQMD"
            assert described[keyword.name] == f"matches {structure}.{keyword.field}"


def test_every_code_is_in_the_table_of_its_section() -> None:
    listed = {
        section: [row[0].partition("]")[0].strip("[") for row in table_rows(section)]
        for section in ("Errors", "Warnings", "Lint warnings")
    }

    assert sorted(listed["Errors"]) == sorted(ERROR_CODES)
    assert sorted(listed["Warnings"]) == sorted(codes_reported_by(WARN))
    assert sorted(listed["Lint warnings"]) == sorted(Code)


def test_every_keyword_action_and_code_has_exactly_one_section() -> None:
    actions = [f"ACTION({action})" for action in Action]

    assert sorted(HEADINGS) == sorted([*KEYWORDS, *map(str.lower, EXTENSIONS), *actions, *CODES])


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_wrong_and_a_right_example(code: str) -> None:
    assert {example.is_wrong for example in EXAMPLES if example.heading == code} == {True, False}


@pytest.mark.parametrize("keyword", [k for k in KEYWORDS if k != "ACTION"])
def test_every_keyword_has_an_example_that_uses_it(keyword: str) -> None:
    tables = [example.table for example in EXAMPLES if example.heading == keyword]

    assert any(f"{keyword}(".encode() in table for table in tables)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_a_wrong_example_has_the_code_of_its_section_and_others_have_none(
    example: Example,
) -> None:
    assert codes_of(example) == ({example.heading} if example.is_wrong else set())


def test_the_page_lists_every_hopeless_reason() -> None:
    listed = re.search(r"^\| until .*?\n\n", GUIDE, re.MULTILINE | re.DOTALL)

    assert listed
    assert set(re.findall(r"MQRC_\w+ \(\d+\)", listed[0])) == set(
        map(reason_text, HOPELESS_REASONS)
    )


def test_every_link_within_the_page_has_a_target() -> None:
    titles = re.findall(r"^#+ (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    assert len(anchors) == len(titles)
    assert set(re.findall(r"\]\(#([^)]+)\)", GUIDE)) <= anchors


def test_the_yaml_example_means_the_same_as_the_table_after_it() -> None:
    section = GUIDE.partition("## YAML form")[2].partition("\n## ")[0]
    yaml_form = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    table = re.search(r"```rules\n(.*?)```", section, re.DOTALL)
    assert yaml_form is not None
    assert table is not None

    read = handlers.check(yaml_form[1].encode(), "guide.yaml").table

    assert read is not None
    assert print_table(read) == print_table(parse(table[1]))
