"""The pytest plugin of embedded-mq: a new queue manager for each test that uses its fixture.

It is a module outside the package, because pytest imports it at each start. The package is imported
only when a test uses the fixture.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class EmbeddedQueueManager:
    """A running queue manager of a test, and the directory that contains it."""

    name: str
    directory: Path

    def run_mqsc(self, text: str) -> list[str]:
        """Run MQSC commands, all or none (MqscError); return a line for each."""
        import embedded_mq  # noqa: PLC0415

        return embedded_mq.run_mqsc(self.name, text, self.directory)

    def depths(self) -> dict[str, int]:
        """Return CURDEPTH of every local queue, by name."""
        import embedded_mq  # noqa: PLC0415

        return embedded_mq.depths(self.name, self.directory)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers", "mqsc(text): MQSC commands to run on the embedded_queue_manager of the test"
    )


@pytest.fixture
def embedded_queue_manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmbeddedQueueManager]:
    """Yield a new queue manager QM1 below ibmmq and pymqi, in tmp_path, and end it after the test.

    The MQSC commands of the marks `mqsc` run on it, those of the module before those of the test.
    Programs that the test starts find it by EMBEDDED_MQ_HOME.
    """
    import embedded_mq  # noqa: PLC0415
    from embedded_mq.storage import directories  # noqa: PLC0415

    directory = tmp_path / "queue_managers"
    monkeypatch.setattr(directories, "_configured_directory", None)
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(directory))
    embedded_mq.install()
    texts = [str(text) for mark in request.node.iter_markers("mqsc") for text in mark.args]
    embedded_mq.create_defined("QM1", "\n".join(reversed(texts)))
    yield EmbeddedQueueManager("QM1", directory)
    if embedded_mq.status("QM1", directory) != "ENDED":
        embedded_mq.end("QM1", directory)
