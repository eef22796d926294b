"""Run the proof on one queue manager through one client: ``python -m tests.proof`` (`make prove`).

The queue manager is the one whose connection settings a JSON file has (the fields of
`ConnectionSettings`), or else an embedded one. Each proof writes a JUnit XML file, and the whole
cell a result.json. The exit code is 0 if every proof passed, 1 if not, 2 if it could not begin.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mqdlq.errors import MqDlqError
from mqdlq.mqi import transports
from mqdlq.mqi.connect import ConnectionSettings, connect
from tests.proof.cells import CLIENTS, PROOFS
from tests.proof.queue_managers import KILLS, QUEUE_MANAGER, prepare_embedded
from tests.proof.results import FILE, Counts, Result
from tests.support.paths import ROOT

TESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "contract": ("-m", "given_queue_manager and not embedded_only", "tests/contract"),
    "demo": ("tests/proof/prove_demo.py",),
    "least_privilege": ("tests/proof/prove_least_privilege.py",),
    "kills": ("tests/proof/prove_kills.py",),
}
PLATFORMS: Final = {1: "z/OS", 3: "Unix", 4: "IBM i", 11: "Windows", 28: "Appliance"}
"""MQIA_PLATFORM: MQPL_ZOS, MQPL_UNIX, MQPL_OS400, MQPL_WINDOWS_NT, MQPL_APPLIANCE."""
USAGE: Final = 2


def main() -> int:
    """Run the proofs that the command line names; return the exit code."""
    given = _arguments()
    home = tempfile.mkdtemp(prefix="mqdlq-proof-")
    try:
        os.environ["MQDLQ_HOME"] = home
        settings = _settings(given.settings, given.client)
        given.results.mkdir(parents=True, exist_ok=True)
        result = prove(settings, given.results, given.only or list(PROOFS), given.kills)
    except (MqDlqError, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"make prove: {error}\n")
        return USAGE
    finally:
        shutil.rmtree(home, ignore_errors=True)
    target = given.results / FILE
    if target.exists() and given.only:
        result = _add_to(Result.read(target), result)
    result.write(target)
    sys.stdout.write(f"{result.cell.name}: {target}\n")
    return int(result.has_failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    parser.add_argument("--settings", type=Path, help="JSON file with connection settings")
    parser.add_argument("--client", choices=CLIENTS, default="ibmmq")
    parser.add_argument("--results", type=Path, required=True, help="directory for the results")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(PROOFS),
        help="run this proof, and keep the counts of the others",
    )
    parser.add_argument("--kills", type=int, default=20, help="executions to kill")
    return parser.parse_args()


def _settings(file: Path | None, client: str) -> ConnectionSettings:
    if file is None:
        prepare_embedded()
        return ConnectionSettings("QM1", transport=transports.EMBEDDED, client=client)
    keys = json.loads(file.read_text(encoding="utf-8"))
    return ConnectionSettings(**{**keys, "client": client})


def prove(settings: ConnectionSettings, results: Path, names: list[str], kills: int) -> Result:
    """Run these proofs, and return their result; MqDlqError if nothing can be connected."""
    result = _describe(settings)
    environment = {
        **os.environ,
        QUEUE_MANAGER: json.dumps(asdict(settings)),
        KILLS: str(kills),
    }
    proofs = {}
    for name in names:
        sys.stdout.write(f"{PROOFS[name]}:\n")
        sys.stdout.flush()
        report = results / f"{name}.xml"
        report.unlink(missing_ok=True)
        call = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet", "--no-header"]
        call += ["-o", f"junit_suite_name={result.cell.name}", f"--junitxml={report}", *TESTS[name]]
        subprocess.run(call, cwd=ROOT, env=environment, check=False)
        proofs[name] = Counts.of_junit_file(report) if report.exists() else Counts(0, 1, 0)
    return replace(result, proofs=proofs)


def _add_to(earlier: Result, result: Result) -> Result:
    """Return the result with the counts of the proofs that only an earlier call ran.

    A result of other versions, or of another cell, counts for nothing.
    """
    if replace(earlier, date="", proofs={}) != replace(result, date="", proofs={}):
        return result
    found = {**earlier.proofs, **result.proofs}
    return replace(result, proofs={name: found[name] for name in PROOFS if name in found})


def _describe(settings: ConnectionSettings) -> Result:
    with connect(settings) as queue_manager:
        constants = queue_manager.client.CMQC
        client = queue_manager.client.name
        is_embedded = settings.transport == transports.EMBEDDED
        transport = "tls" if settings.tls_cipher_spec else settings.transport
        platform = queue_manager.inquire(constants.MQIA_PLATFORM)
        return Result(
            is_embedded=is_embedded,
            command_level=queue_manager.inquire(constants.MQIA_COMMAND_LEVEL),
            version=queue_manager.inquire(constants.MQCA_VERSION),
            platform=PLATFORMS.get(platform, str(platform)),
            client=client,
            client_version=importlib.metadata.version(client),
            mq_client="" if is_embedded else _mq_client_version(),
            transport=transport,
            cipher=settings.tls_cipher_spec,
            date=f"{datetime.now(UTC):%Y-%m-%d}",  # noqa: TID251 (an entry point)
            mqdlq=importlib.metadata.version("mqdlq"),
            proofs={},
        )


def _mq_client_version() -> str:
    """Return the version of IBM's C client by its dspmqver; blank if it is not installed."""
    program = shutil.which("dspmqver", path=f"{os.environ['PATH']}:/opt/mqm/bin")
    if program is None:
        return ""
    done = subprocess.run([program, "-b", "-f", "2"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
