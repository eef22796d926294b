"""Install the pymqi version that requirements.lock names, with or without its C extension.

pymqi is available as source only, and its C extension cannot be built without IBM's SDK. If the SDK
is installed (MQ_FILE_PATH or /opt/mqm), pip builds it. Otherwise pymqi's unmodified Python layer,
checked by hash, is copied into site-packages, which is enough for an embedded queue manager.

Run ``python deploy/pymqi_layer.py requirements.lock``; a second run does nothing.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mqdlq.errors import ClientNotFoundError

ENTRY = re.compile(r"(?m)^pymqi==(?P<version>\S+)(?:[ \t]*\\\n[ \t]+--hash=sha256:[0-9a-f]{64})+")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


LockedSdist = tuple[str, str, frozenset[str]]
"""The lock's entry for pymqi as pip reads it, its version, and the allowed digests."""


def read_lock_entry(lock: Path) -> LockedSdist:
    """Read the pymqi entry of a lock file (ClientNotFoundError if it has none)."""
    found = ENTRY.search(lock.read_text(encoding="utf-8"))
    if found is None:
        raise ClientNotFoundError(
            "MQDLQ-130", f"{lock}: no entry for pymqi with a version and sha256 hashes"
        )
    return found[0], found["version"], frozenset(HASH.findall(found[0]))


def find_sdk(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory of IBM's SDK, recognised by its header file, or None."""
    for directory in (environ.get("MQ_FILE_PATH"), "/opt/mqm"):
        if directory and (Path(directory) / "inc" / "cmqc.h").is_file():
            return Path(directory)
    return None


def install_layer(sdist: Path, wanted: LockedSdist, site_packages: Path) -> None:
    """Copy the Python layer of a pymqi sdist into `site_packages`, with metadata for importlib.

    Raises ClientNotFoundError, and writes nothing, if the lock does not allow the sdist.
    """
    _, version, digests = wanted
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    if digest not in digests:
        raise ClientNotFoundError(
            "MQDLQ-131",
            f"{sdist.name}: SHA-256 is {digest},"
            f" requirements.lock allows {', '.join(sorted(digests))}",
        )
    about = f"pymqi-{version}.dist-info"
    files = {**_layer(sdist, about), f"{about}/INSTALLER": b"mqdlq\n"}
    record = [
        f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in sorted(files.items())
    ]
    files[f"{about}/RECORD"] = "".join([*record, f"{about}/RECORD,,\n"]).encode()
    # The dist-info is moved last: an interrupted installation does not count as installed.
    with tempfile.TemporaryDirectory(prefix=".pymqi-", dir=site_packages) as staging:
        for name, data in files.items():
            path = Path(staging) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        for old in [site_packages / "pymqi", *site_packages.glob("pymqi-*.dist-info")]:
            shutil.rmtree(old, ignore_errors=True)
        for new in ("pymqi", about):
            (Path(staging) / new).rename(site_packages / new)


def _layer(sdist: Path, about: str) -> dict[str, bytes]:
    files = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if re.fullmatch(r"code/pymqi/\w+\.py", inside):
                name = inside.removeprefix("code/")
            elif inside in {"PKG-INFO", "LICENSE"}:
                name = f"{about}/{'METADATA' if inside == 'PKG-INFO' else inside}"
            else:
                continue
            source = archive.extractfile(member)
            if source is not None:
                files[name] = source.read()
    return files


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _pip(verb: str, wanted: LockedSdist, *options: str) -> None:
    entry, version, _ = wanted
    # setuptools is in the lock and already installed: a build installs nothing unpinned.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(f"{entry}\n")
        requirements.flush()
        call = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", verb]
        call += ["--no-deps", "--no-build-isolation", "--require-hashes", *options]
        done = subprocess.run(
            [*call, "-r", requirements.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ClientNotFoundError(
            "MQDLQ-132", f"pip {verb} of pymqi {version} failed: {_error_line(done.stderr)}"
        )


def _error_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"(?i)\berror: (?!subprocess-exited)", line)]
    return next(iter(causes or lines[-1:]), "pip does not say why")


def install_pymqi(lock: Path) -> str:
    """Install the pymqi of the lock; return one line that says what was done."""
    wanted = read_lock_entry(lock)
    _, version, _ = wanted
    site_packages = Path(sysconfig.get_path("platlib"))
    built = any((site_packages / "pymqi").glob("pymqe*.so"))
    found = find_sdk()
    installed = ""
    with suppress(importlib.metadata.PackageNotFoundError):
        installed = importlib.metadata.version("pymqi")
    if installed == version and (built or found is None):
        return f"pymqi {version} is installed"
    if found is not None:
        _pip("install", wanted, "--force-reinstall")
        return f"pymqi {version}: built with IBM's SDK in {found}"
    with tempfile.TemporaryDirectory() as directory:
        _pip("download", wanted, "--dest", directory)
        install_layer(next(Path(directory).glob("pymqi-*.tar.gz")), wanted, site_packages)
    return (
        f"pymqi {version}: Python layer installed; IBM's SDK was not found, so it reaches"
        " embedded queue managers only (ibmmq reaches real ones)"
    )


def main() -> int:
    try:
        sys.stdout.write(install_pymqi(Path(sys.argv[1])) + "\n")
    except ClientNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
