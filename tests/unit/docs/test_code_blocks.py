"""The code in the documentation is valid: tables, handlers, JSON, Python, MQSC and commands."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from embedded_mq.mqsc import syntax as mqsc
from mqdlq.handlers import load_handler
from mqdlq.handlers.configuration import KEYS
from mqdlq.rules.lint import review
from tests.support.declared_commands import all_commands, declared_commands
from tests.support.docs.code_blocks import LANGUAGES, CodeBlock, calls, code_blocks, inputs, pages
from tests.support.paths import ROOT

BLOCKS = [block for page in pages() for block in code_blocks(page)]
COMMANDS = [
    pytest.param(words, id=f"{block} {' '.join(words)[:60]}")
    for block in BLOCKS
    if block.language == "console"
    for command in inputs(block)
    for words in calls(command)
]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))


def of(language: str) -> list[CodeBlock]:
    found = [block for block in BLOCKS if block.language == language]
    assert found
    return found


def test_every_code_block_has_a_language() -> None:
    others = {str(block): block.language for block in BLOCKS if block.language not in LANGUAGES}

    assert not others, f"name one of {sorted(LANGUAGES)} behind the fence: {others}"


@pytest.mark.parametrize("block", of("rules"), ids=str)
def test_a_rules_table_is_valid(block: CodeBlock) -> None:
    faults = [
        found for found in review(block.text.encode()).diagnostics if found.severity == "error"
    ]

    assert not faults


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_keys_of_a_handler_are_valid(block: CodeBlock, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(block.text))
    if len(documents) != 1 or not set(map(str, documents[0])) <= set(KEYS):
        return
    given = documents[0]
    needed = "" if "connection" in given else "connection: mq\n"
    needed += "" if given.keys() & {"rules", "table"} else "rules: a.rules\n"
    (tmp_path / "example.yaml").write_text(needed + block.text, encoding="utf-8")

    load_handler("example", tmp_path)


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_is_valid(block: CodeBlock) -> None:
    try:
        json.loads(block.text)
    except json.JSONDecodeError:
        for line in block.text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_compiles(block: CodeBlock) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", of("mqsc"), ids=str)
def test_mqsc_is_understood(block: CodeBlock) -> None:
    assert not [one for one in mqsc.parse_commands(block.text) if isinstance(one, mqsc.Problem)]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_has_these_arguments(words: list[str]) -> None:
    program, *arguments = words
    if program in {"docker", "kubectl"} and "mqdlq" in arguments:
        program, *arguments = arguments[arguments.index("mqdlq") :]
    match Path(program).name:
        case "mqdlq":
            assert not unknown_words(arguments)
        case "embedded-mq":
            assert not unknown_words(["qm", *arguments])
        case "make":
            targets = {word for word in arguments if "=" not in word and not word.startswith("-")}
            assert targets <= TARGETS
        case "python" | "python3" if arguments[:1] == ["-m"]:
            assert find_spec(arguments[1])
        case "bash" | "sh" | "python" | "python3":
            assert (ROOT / arguments[0]).exists()


def unknown_words(arguments: list[str]) -> list[str]:
    """Return the options that a command of mqdlq does not have, or the words that name none."""
    for path, options in known_options().items():
        if tuple(arguments[: len(path)]) == path:
            given = [word.partition("=")[0] for word in arguments if word.startswith("--")]
            return [] if options is None else sorted(set(given) - options)
    is_for_all = not arguments or arguments[-1] in {"--help", "--version"}
    return [] if is_for_all else arguments


@cache
def known_options() -> dict[tuple[str, ...], set[str] | None]:
    """Return the options of each command, None for one that passes its arguments on."""
    passed_on = {path for path, command in declared_commands() if command.passes_on}
    return {
        path: None
        if path in passed_on
        else {"--help", *(name for parameter in command.params for name in parameter.opts)}
        for path, command in all_commands().items()
    }


def test_a_command_that_does_not_exist_is_found() -> None:
    assert unknown_words(["rules", "verify", "a.rules"]) == ["rules", "verify", "a.rules"]
    assert unknown_words(["rules", "check", "--verbose"]) == ["--verbose"]
    assert unknown_words(["airflow", "dags", "list", "--output", "json"]) == []


def test_the_commands_of_a_console_are_read_without_their_output() -> None:
    text = "$ A=1 mqdlq run <handler> --conf '{\n  \"dry_run\": true}' | cat\noutput\n$ make run\n"
    block = CodeBlock("page.md", 1, "console", text)

    assert [words for command in inputs(block) for words in calls(command)] == [
        ["mqdlq", "run", "handler", "--conf", '{\n  "dry_run": true}'],
        ["cat"],
        ["make", "run"],
    ]
