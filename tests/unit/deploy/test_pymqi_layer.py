"""pymqi without its C extension: the Python layer of a locked sdist, put into site-packages."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import tarfile
from pathlib import Path

import pytest

from deploy.pymqi_layer import LockedSdist, find_sdk, install_layer, read_lock_entry
from mqdlq import directories
from mqdlq.errors import ClientNotFoundError
from mqdlq.mqi import client

FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: pymqi\nVersion: 9.9\n",
    "LICENSE": b"terms\n",
    "setup.py": b"raise SystemExit('not to be run')\n",
    "code/pymqi/__init__.py": b"from pymqi import CMQC\n",
    "code/pymqi/CMQC.py": b"MQRC_NONE = 0\n",
    "code/pymqi/pymqe.c": b"int x;\n",
}


def sdist(directory: Path, files: dict[str, bytes] = FILES) -> Path:
    path = directory / "pymqi-9.9.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"pymqi-9.9/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def wanted(path: Path) -> LockedSdist:
    return "", "9.9", frozenset({hashlib.sha256(path.read_bytes()).hexdigest()})


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    """Make an empty site-packages."""
    site = tmp_path / "site-packages"
    site.mkdir()
    return site


def test_a_client_without_its_c_extension_is_not_reported_as_a_circular_import() -> None:
    missing = ModuleNotFoundError("No module named 'pymqe'", name="pymqe")
    missing.__context__ = ImportError("most likely due to a circular import", name="pymqi")

    assert client._advice("pymqi", missing) == (
        "the Python package pymqi is installed, but IBM's MQ client library could not be loaded"
        " (pymqi has no C extension); install the IBM MQ client, or use an embedded queue manager"
        ' (connection extra "transport": "embedded")'
    )


def test_the_python_layer_is_installed_unmodified_and_nothing_else(
    tmp_path: Path, site: Path
) -> None:
    path = sdist(tmp_path)

    install_layer(path, wanted(path), site)

    assert {file.name: file.read_bytes() for file in (site / "pymqi").iterdir()} == {
        "__init__.py": FILES["code/pymqi/__init__.py"],
        "CMQC.py": FILES["code/pymqi/CMQC.py"],
    }
    assert sorted(entry.name for entry in site.iterdir()) == ["pymqi", "pymqi-9.9.dist-info"]


def test_the_python_layer_is_listed_as_an_installed_distribution(
    tmp_path: Path, site: Path
) -> None:
    path = sdist(tmp_path)

    install_layer(path, wanted(path), site)

    (found,) = importlib.metadata.distributions(name="pymqi", path=[str(site)])
    assert found.version == "9.9"
    assert {str(file) for file in found.files or ()} == {
        "pymqi/CMQC.py",
        "pymqi/__init__.py",
        "pymqi-9.9.dist-info/INSTALLER",
        "pymqi-9.9.dist-info/LICENSE",
        "pymqi-9.9.dist-info/METADATA",
        "pymqi-9.9.dist-info/RECORD",
    }
    for file in found.files or ():
        if file.hash is not None:
            content = Path(str(file.locate())).read_bytes()
            assert (len(content), file.hash.mode) == (file.size, "sha256")


def test_an_earlier_installation_of_pymqi_is_replaced(tmp_path: Path, site: Path) -> None:
    (site / "pymqi").mkdir()
    (site / "pymqi" / "stale.py").touch()
    (site / "pymqi-1.0.dist-info").mkdir()
    path = sdist(tmp_path)

    install_layer(path, wanted(path), site)
    install_layer(path, wanted(path), site)

    assert sorted(entry.name for entry in site.iterdir()) == ["pymqi", "pymqi-9.9.dist-info"]
    assert not (site / "pymqi" / "stale.py").exists()


def test_an_sdist_the_lock_does_not_name_is_refused_and_nothing_written(
    tmp_path: Path, site: Path
) -> None:
    path = sdist(tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    with pytest.raises(ClientNotFoundError) as refused:
        install_layer(path, ("", "9.9", frozenset({"0" * 64})), site)

    assert str(refused.value) == (
        f"pymqi-9.9.tar.gz: SHA-256 is {digest}, requirements.lock allows {'0' * 64} [MQDLQ-131]"
    )
    assert list(site.iterdir()) == []


def test_the_project_lock_names_pymqi_with_its_hash() -> None:
    entry, version, digests = read_lock_entry(directories.PROJECT / "requirements.lock")

    assert entry.startswith(f"pymqi=={version} \\\n    --hash=sha256:")
    assert len(digests) == 1


def test_a_lock_without_pymqi_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("pymqi-extras==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")

    with pytest.raises(ClientNotFoundError) as refused:
        read_lock_entry(lock)

    assert str(refused.value) == (
        f"{lock}: no entry for pymqi with a version and sha256 hashes [MQDLQ-130]"
    )


def test_the_sdk_is_found_by_its_header_file(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()

    assert find_sdk({"MQ_FILE_PATH": str(tmp_path)}) is None

    (tmp_path / "inc" / "cmqc.h").touch()

    assert find_sdk({"MQ_FILE_PATH": str(tmp_path)}) == tmp_path
