"""Create queue managers, and install them below the clients."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import embedded_mq
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage.faults import Fault, Faults, parse

FILES = ("queue_manager.sqlite", "queue_manager.lock")


def python(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_only_its_owner_can_read_a_queue_manager(tmp_path: Path) -> None:
    """New parent directories belong to the owner alone, too."""
    path = embedded_mq.create("QM1", tmp_path / "home" / "queue_managers")

    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.iterdir()}
    assert modes == dict.fromkeys(FILES, 0o600)
    assert {stat.S_IMODE(made.stat().st_mode) for made in (path, *path.parents[:2])} == {0o700}


def test_a_queue_manager_name_may_hold_characters_no_file_name_may(tmp_path: Path) -> None:
    embedded_mq.create("A/B.C", tmp_path)

    assert embedded_mq.exists("A/B.C", tmp_path)
    assert embedded_mq.names(tmp_path) == ["A/B.C"]


def test_a_queue_manager_is_created_once(tmp_path: Path) -> None:
    path = embedded_mq.create("QM1", tmp_path)

    with pytest.raises(EmbeddedQueueManagerError) as caught:
        embedded_mq.create("QM1", tmp_path)
    assert str(caught.value) == f"queue manager QM1 already exists in {path}"
    with pytest.raises(EmbeddedQueueManagerError, match="'Q M' is not a valid queue manager name"):
        embedded_mq.create("Q M", tmp_path)


@pytest.mark.skipif(find_spec("pymqi") is None, reason="needs pymqi, which is not installed")
def test_a_program_reaches_a_queue_manager_in_its_own_directory(tmp_path: Path) -> None:
    output = python(f"""
import embedded_mq
embedded_mq.install({str(tmp_path)!r})
embedded_mq.install()
embedded_mq.create("QM1")
embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")
import ibmmq, pymqi
qm = ibmmq.connect("QM1")
ibmmq.Queue(qm, "A").put("hello")
print(pymqi.Queue(pymqi.connect("QM1"), "A").get().decode(), ibmmq.__c_version__, end=" ")
print(ibmmq.otel_enabled, hex(qm.get_handle()))
""")

    words = output.split()
    assert (words[0], words[2], words[3]) == ("hello", "False", "0x1000001")
    assert embedded_mq.exists("QM1", tmp_path)


def test_the_most_specific_setting_locates_the_queue_managers(tmp_path: Path) -> None:
    """Without site-packages, no other distribution names a directory."""
    code = f"""
import os
from pathlib import Path
import embedded_mq
from embedded_mq.storage.directories import directory_of
os.chdir({str(tmp_path)!r})
print(directory_of("QM1"))
os.environ["EMBEDDED_MQ_HOME"] = "/environment"
print(directory_of("QM1"))
embedded_mq.install("/chosen")
print(directory_of("QM1"), directory_of("QM1", Path("/argument")))
"""
    said = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(Path(embedded_mq.__file__).parents[1])},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    found = ("/environment/QM1", "/chosen/QM1", "/argument/QM1")
    assert said == [f"{tmp_path}/queue_managers/QM1", *found]


TWO_DIRECTORIES = """
import embedded_mq
from embedded_mq.errors import EmbeddedQueueManagerError
embedded_mq.install({first!r})
for place in ({first!r}, {second!r}):
    with embedded_mq.in_directory(place):
        embedded_mq.create("QM1")
        embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")
import {client} as client
"""


@pytest.mark.parametrize("client", ["ibmmq", "pymqi"])
def test_queue_managers_of_one_name_are_separate_in_one_process(
    tmp_path: Path, client: str
) -> None:
    """The block decides where names lead to in its thread; a connection stays where it was made."""
    if find_spec(client) is None:
        pytest.skip(f"needs {client}, which is not installed")
    places = {"first": str(tmp_path / "1"), "second": str(tmp_path / "2")}
    output = python(
        TWO_DIRECTORIES.format(**places, client=client)
        + f"""
import threading
first = client.connect("QM1")
with embedded_mq.in_directory({places["second"]!r}):
    second = client.connect("QM1")
    other = threading.Thread(target=lambda: print(embedded_mq.depths("QM1")["A"], end=" "))
    client.Queue(second, "A").put(b"two")
    other.start()
    other.join()
    print(embedded_mq.depths("QM1")["A"], end=" ")
    client.Queue(first, "A").put(b"one")
print(client.Queue(first, "A").get().decode(), client.Queue(second, "A").get().decode())
first.disconnect()
second.disconnect()
"""
    )

    assert output == "0 1 one two"


def test_install_with_another_directory_fails_while_the_process_is_connected(
    tmp_path: Path,
) -> None:
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    output = python(
        TWO_DIRECTORIES.format(first=first, second=second, client="ibmmq")
        + f"""
connected = client.connect("QM1")
embedded_mq.install({first!r})
try:
    embedded_mq.install({second!r})
except EmbeddedQueueManagerError as error:
    print(error)
print(client.Queue(client.connect("QM1"), "A").put(b"one"), embedded_mq.depths("QM1")["A"])
connected.disconnect()
embedded_mq.install({second!r})
print(embedded_mq.depths("QM1")["A"])
"""
    )

    error, *depths = output.splitlines()
    assert error == (
        f"this process is connected to {first}/QM1, so that install() cannot change the directory"
        f" to {second}; disconnect before, or connect within embedded_mq.in_directory({second!r})"
    )
    assert depths == ["None 1", "0"]


def test_install_fails_if_a_client_is_already_loaded() -> None:
    output = python("""
import sys, types
sys.modules["pymqi"] = types.ModuleType("pymqi")
from embedded_mq.errors import EmbeddedQueueManagerError
import embedded_mq
try:
    embedded_mq.install()
except EmbeddedQueueManagerError as error:
    print(error)
""")

    assert output == (
        "pymqi is already imported with its C extension; call embedded_mq.install()"
        " before the first import of pymqi"
    )


def test_a_fault_is_read_from_text() -> None:
    assert parse("MQCMIT:2:2009:after") == Fault("MQCMIT", 2, "2009", "after")
    assert parse("MQGET:1:kill:before") == Fault("MQGET", 1, "kill", "before")
    assert parse("MQPUT1[PAY.1]:3+:delay=0.5:before") == Fault(
        "MQPUT1", 3, "delay=0.5", "before", "PAY.1", is_lasting=True
    )
    with pytest.raises(EmbeddedQueueManagerError) as caught:
        Faults("MQCMIT:0:2009:after")
    assert str(caught.value) == (
        "'MQCMIT:0:2009:after' is not a fault; use VERB:N:REASON|kill|delay=SECONDS|LIE:before|"
        "after, with VERB[QUEUE] for one queue and N+ for the Nth and all later calls,"
        " for example MQCMIT:2:2009:after; or the name of a LIE alone, such as commit-lost"
    )
    with pytest.raises(EmbeddedQueueManagerError) as caught:
        Faults("MQPUT:1:trace:before")
    assert str(caught.value) == (
        "'MQPUT:1:trace:before' is not a fault; use trace with before and MQGET, for example"
        " MQGET:1+:trace:before"
    )
    with pytest.raises(EmbeddedQueueManagerError) as caught:
        Faults("MQGET:1+:context-replaced:before")
    assert str(caught.value) == (
        "'MQGET:1+:context-replaced:before' is not a fault; use context-replaced with before and"
        " MQPUT or MQPUT1, for example MQPUT:1+:context-replaced:before"
    )
