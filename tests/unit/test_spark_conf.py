from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Template

from mqdlq.errors import ExecutionError
from mqdlq.evaluation.spark_conf import LARGE_FROM, check_pyspark, submit_conf, templated_conf


def options(messages: int, archive: Path) -> str:
    return submit_conf(messages, archive)["spark.driver.extraJavaOptions"]


def test_a_small_snapshot_starts_from_the_archive_of_classes(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.touch()

    assert f"-XX:SharedArchiveFile={archive}" in options(1000, archive)
    assert "TieredStopAtLevel=1" in options(1000, archive)


def test_without_an_archive_it_starts_without(tmp_path: Path) -> None:
    assert "SharedArchiveFile" not in options(1000, tmp_path / "classes.jsa")


def test_a_large_snapshot_gets_the_full_compiler(tmp_path: Path) -> None:
    large = submit_conf(LARGE_FROM, tmp_path)

    assert large["spark.driver.extraJavaOptions"] == "-XX:+UseParallelGC"
    assert large["spark.sql.codegen.wholeStage"] == "true"


def test_the_dag_chooses_by_the_count_the_snapshot_gave() -> None:
    templates = templated_conf("count")

    for messages in (5, LARGE_FROM):
        rendered = {
            name: Template(text).render(count=messages, submit_conf=submit_conf)
            for name, text in templates.items()
        }
        assert rendered == submit_conf(messages)


def test_another_version_of_pyspark_client_over_pyspark_is_an_error_with_the_commands() -> None:
    installed = {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}

    with pytest.raises(ExecutionError) as error:
        check_pyspark(installed.__getitem__)

    assert error.value.text == (
        "pyspark-client 4.2.0 and pyspark 4.3.0 are installed, and both write to the directory"
        " pyspark; remove one: `pip uninstall pyspark-client`, then `pip install --force-reinstall"
        " --no-deps pyspark==4.3.0`"
    )


def test_pyspark_alone_or_with_its_own_client_is_used() -> None:
    check_pyspark()
    check_pyspark({"pyspark": "4.2.0", "pyspark-client": "4.2.0"}.__getitem__)
