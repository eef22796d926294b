"""The README is short, and the pages it was split into are linked from it."""

from __future__ import annotations

import re

from tests.support.docs.console import commands
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_at_most_900_words() -> None:
    assert len(README.split()) <= 900


def test_try_it_names_both_commands_of_a_fresh_machine() -> None:
    section = README.partition("\n## Try it\n")[2].partition("\n## ")[0]
    typed = [command.text for command in commands(ROOT / "README.md")]

    assert [text for text in typed if text.startswith("make ")] == ["make run", "make test"]
    assert all(f"$ {text}\n" in section for text in ("make run", "make test"))
    # It says which tests these are, and how long they take.
    (said,) = re.findall(r"(?m)^`make test` .*$", section)
    assert "neither Docker nor IBM MQ" in said
    assert re.search(r"about \d+ minutes", said)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    *_, tests = (command.text for command in commands(ROOT / "README.md") if "test" in command.text)

    assert tests == "make test"
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script.count(tests) == 1
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"- run: {tests}\n" in workflow


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)

    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []
