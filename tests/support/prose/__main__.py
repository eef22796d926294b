"""Check the prose of the project, or of the files and directories given: `make prose`.

Prints ``file:line:column: words: message [rule]`` for each finding; ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.prose import markdown, python
from tests.support.prose.styles import Styles, read_styles

_PLACES = ("benchmarks", "dags", "deploy", "docs", "embedded_mq", "plugins", "spark", "tests")
_TESTS = ("tests/", "embedded_mq/tests/")


def files(paths: Sequence[Path] = ()) -> list[Path]:
    """Return the Markdown and Python files of the project, or those at or below these paths."""
    found = [*ROOT.glob("*.md"), *(path for place in _PLACES for path in (ROOT / place).rglob("*"))]
    wanted = [path.resolve() for path in paths] or [ROOT]
    return sorted(
        path
        for path in found
        if path.suffix in {".md", ".py"}
        and not path.is_symlink()
        and any(path.is_relative_to(place) for place in wanted)
    )


def findings(path: Path, styles: Styles) -> Iterator[str]:
    """Yield a line for each finding in a file."""
    name = path.relative_to(ROOT).as_posix()
    rules = styles.rules_for(name)
    if not rules:
        return
    text = path.read_text(encoding="utf-8")
    passages = (
        markdown.passages(text)
        if path.suffix == ".md"
        else python.passages(text, is_test=name.startswith(_TESTS))
    )
    for passage in passages:
        for rule in rules:
            for found in rule.findings(passage):
                line, column = passage.place(found.offset)
                yield f"{name}:{line}:{column}: {found.words}: {found.message} [{found.rule}]"


def main() -> int:
    """Print the findings, and their number by rule."""
    parser = argparse.ArgumentParser(description="Check the prose of the project.")
    parser.add_argument("paths", nargs="*", type=Path, help="files or directories; all if none")
    parser.add_argument("--count", action="store_true", help="print the number by rule only")
    arguments = parser.parse_args()
    styles = read_styles(ROOT)
    lines = [line for path in files(arguments.paths) for line in findings(path, styles)]
    if arguments.count:
        numbers = Counter(line.rpartition(" [")[2].rstrip("]") for line in lines)
        lines = [f"{number:6} {rule}" for rule, number in numbers.most_common()]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
