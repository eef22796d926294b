"""Transport `embedded`, which an entry point provides."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

import embedded_mq
from embedded_mq.cli.app import app as embedded_mq_command
from mqdlq.errors import ConnectionSettingsError, QueueManagerError, TransportError
from mqdlq.mqi import transports
from mqdlq.mqi.connect import ConnectionSettings, connect
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

INSTALL = "the extra `embedded` of mqdlq installs it"


def test_transport_embedded_never_reaches_a_real_queue_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))

    with pytest.raises(QueueManagerError) as caught:
        connect(ConnectionSettings("QM9", transport="embedded"))
    assert str(caught.value) == (
        "MQCONN of queue manager QM9 failed: MQRC_Q_MGR_NAME_ERROR (2058) [MQDLQ-100]"
    )
    assert caplog.messages == []


def test_other_transports_never_reach_an_embedded_queue_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")

    with pytest.raises(ConnectionSettingsError) as caught:
        connect(ConnectionSettings("QM1", transport="bindings"))
    assert str(caught.value) == (
        "queue manager QM1 is embedded in this process, so transport 'bindings' cannot"
        " reach another queue manager of that name; rename the embedded one [MQDLQ-107]"
    )


def test_a_command_reports_a_state_directory_that_is_a_file_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.touch()
    monkeypatch.setenv("MQDLQ_HOME", str(home))

    result = CliRunner().invoke(embedded_mq_command, ["status", "QM1"])

    assert result.exit_code == 1
    assert result.stderr.startswith("embedded-mq: ")
    assert f"{home} is not a directory; correct MQDLQ_HOME" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_error_of_embedded_mq_becomes_a_transport_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    embedded_mq.end("QM1")

    with (
        pytest.raises(TransportError) as caught,
        transports.embedded("a test") as queue_managers,
    ):
        queue_managers.run_mqsc("QM1", "DISPLAY QMGR")
    assert (
        str(caught.value)
        == "queue manager QM1 is ended; `mqdlq qm start QM1` starts it [MQDLQ-109]"
    )


@pytest.fixture(scope="session")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with all installed packages except embedded-mq."""
    directory = tmp_path_factory.mktemp("site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("embedded_mq", "_embedded_mq")):
            (directory / path.name).symlink_to(path)
    return directory


def python(without: Path, home: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code without embedded-mq."""
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(without)]),
            "MQDLQ_HOME": str(home),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_connection_error_says_how_to_install_embedded_mq(without: Path, tmp_path: Path) -> None:
    done = python(
        without,
        tmp_path,
        """
from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.airflow_connections import AirflowConnection
extra = {"queue_manager": "QM1", "transport": "embedded"}
try:
    AirflowConnection("mq_payments", "ibmmq", extra).settings()
except ConnectionSettingsError as error:
    print(error)
""",
    )

    assert done.stdout == (
        "connection 'mq_payments': transport 'embedded' needs the distribution embedded-mq, which"
        f" is not installed; {INSTALL} [MQDLQ-105]\n"
    ), done.stderr


@pytest.mark.parametrize(
    ("call", "needs"),
    [
        ("from mqdlq.cli import app; app(['qm', 'depth', 'QM1'])", "mqdlq: `mqdlq qm`"),
        ("from mqdlq.cli import app; app(['qm'])", "mqdlq: `mqdlq qm`"),
        (
            "from mqdlq.local.demo import main; main()",
            "mqdlq.local.demo: queue manager QM1 of the demo",
        ),
    ],
)
def test_a_command_reports_a_missing_embedded_mq_in_one_line(
    call: str, needs: str, without: Path, tmp_path: Path
) -> None:
    done = python(without, tmp_path, call)

    assert done.returncode == 1
    assert done.stderr == (
        f"{needs} needs the distribution embedded-mq, which is not installed;"
        f" {INSTALL} [MQDLQ-108]\n"
    )


def test_other_commands_work_without_embedded_mq(without: Path, tmp_path: Path) -> None:
    code = "from mqdlq.cli import app; app(['preview', '--rules', 'no.rules', 'QM1', 'DLQ'])"
    (tmp_path / "demo.rules").write_text("ACTION(RETRY)\n", encoding="utf-8")

    done = python(without, tmp_path, code.replace("no.rules", str(tmp_path / "demo.rules")))

    assert "queue manager QM1 is not known here" in done.stderr
    assert "embedded queue managers in" in done.stderr
    assert python(without, tmp_path, "import embedded_mq.clients").returncode == 1
