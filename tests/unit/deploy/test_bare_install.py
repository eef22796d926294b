"""The wheel with only the packages it depends on runs the commands that connect to nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from tests.support.paths import ROOT
from tests.support.wire.pasted_messages import print_amqsbcg

pytestmark = pytest.mark.slow


def needed(name: str, seen: set[str]) -> Iterator[str]:
    """Yield a distribution and all that it depends on without extras, in this environment."""
    if name in seen:
        return
    seen.add(name)
    yield name
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from needed(canonicalize_name(requirement.name), seen)


class Bare:
    """A virtual environment with the wheel and what it depends on, and nothing else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "v"], check=True)
        (site,) = (directory / "v" / "lib").glob("python*/site-packages")
        self.distributions = list(needed("mqdlq", set()))
        for name in self.distributions[1:]:
            found = distribution(name)
            for file in found.files or ():
                if ".." not in file.parts:
                    (site / file).parent.mkdir(parents=True, exist_ok=True)
                    (site / file).symlink_to(str(found.locate_file(file)))
        build = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "-d",
            str(directory),
        ]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = directory.glob("*.whl")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        subprocess.run([*pip, "--target", site, wheel], check=True, capture_output=True)

    def run(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command `mqdlq`."""
        start = "import sys; sys.argv[0] = 'mqdlq'; from mqdlq.cli import app; app()"
        done = subprocess.run(
            [self.directory / "v" / "bin" / "python", "-I", "-c", start, *arguments],
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"],
                "MQDLQ_HOME": str(self.directory / "home"),
                "MQDLQ_RULES_DIR": str(self.directory),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done


@pytest.fixture(scope="module", name="bare")
def _bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    bare = Bare(tmp_path_factory.mktemp("bare"))
    md = MessageDescriptor(format="MQDEAD", encoding=546, coded_char_set_id=819)
    inner = (546, 819, "MQSTR")
    header = DeadLetterHeader(2053, "ORDERS", "QM1", *inner, 6, "mover", "20261121", "11000000")
    body = header.encode(encoding=546, ccsid=819) + b"text"
    (bare.directory / "dump.txt").write_text(print_amqsbcg([(md, body)] * 3))
    (bare.directory / "a.rules").write_text("REASON(2053) ACTION(RETRY)\n")
    (bare.directory / "b.rules").write_text("REASON(2053)   ACTION(IGNORE)\n")
    (bare.directory / "a.yaml").write_text("connection: mq\nrules: a.rules\nschedule: '@hourly'\n")
    return bare


def test_a_bare_install_has_few_packages(bare: Bare) -> None:
    assert len(bare.distributions) <= 15
    assert not {"apache-airflow", "pyarrow", "numpy", "sqlalchemy", "rich"} & {*bare.distributions}


def test_a_bare_install_checks_formats_and_compares_tables_and_handlers(bare: Bare) -> None:
    checked = bare.run("rules", "check", "a.yaml").stdout
    compared = bare.run("rules", "diff", "a.rules", "b.rules", code=1).stdout
    page = bare.run("rules", "diff", "--format", "html", "a.rules", "b.rules", code=1).stdout
    converted = bare.run("rules", "convert", "--to", "yaml", "a.rules").stdout

    assert "a.yaml: handler, connection mq, rules a.rules\n" in checked
    assert "a.rules and b.rules differ\n" in compared
    assert "<html" in page
    assert "action: RETRY" in converted
    assert bare.run("rules", "format", "b.rules").stdout == "b.rules: formatted\n"


def test_a_bare_install_reads_a_dump(bare: Bare) -> None:
    decoded = bare.run("decode", "dump.txt", "--format", "json").stdout
    explained = bare.run("explain", "--rules", "a.rules", "dump.txt", "--format", "json").stdout
    counted = bare.run("causes", "dump.txt").stdout
    drafted = bare.run("rules", "suggest", "dump.txt").stdout

    assert json.loads(decoded.splitlines()[0])["class"] == "dead_letter"
    assert json.loads(explained.splitlines()[0])["chain"] == [1]
    assert counted.startswith("3 messages\n      3  MQRC_Q_FULL (2053) for ORDERS")
    assert "DESTQ(ORDERS) REASON(MQRC_Q_FULL) ACTION(RETRY)" in drafted


def test_a_bare_install_writes_the_first_files_of_a_handler(bare: Bare) -> None:
    bare.run("init", "dlq", "--queue-manager", "QM1")

    assert "handler, connection mq_qm1" in bare.run("rules", "check", "dlq/handlers").stdout


MISSING = {
    ("check", "a"): "airflow",
    ("explain", "--rules", "a.rules", "QM1", "DLQ"): "airflow",
    ("rules", "diff", "a.rules", "a.rules", "--since", "1d"): "airflow",
    ("run", "a"): "airflow",
    ("airflow", "version"): "airflow",
    ("preview", "--rules", "a.rules", "QM1"): "airflow",
    ("report", "RUN"): "airflow",
    ("snapshots", "list"): "airflow",
    ("mcp",): "mcp",
    ("lsp",): "lsp",
}


@pytest.mark.parametrize(
    ("arguments", "extra"), MISSING.items(), ids=[" ".join(one) for one in MISSING]
)
def test_a_command_whose_extra_is_missing_says_so_in_a_line(
    bare: Bare, arguments: tuple[str, ...], extra: str
) -> None:
    said = bare.run(*arguments, code=1).stderr

    assert re.fullmatch(
        r"mqdlq: this command needs the package [\w-]+, which is not installed: run"
        rf" `pip install 'mqdlq\[{extra}\]'` \[MQDLQ-919\]\n",
        said,
    )
