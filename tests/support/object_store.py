"""An S3-compatible server for tests: moto's, in a process on a free port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError

import fsspec
import pytest


@contextmanager
def object_store() -> Iterator[str]:
    """Run a server; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=1).close()  # noqa: S310
                break
            except (URLError, OSError):
                time.sleep(0.1)
        else:
            raise TimeoutError(f"moto's server at {address} did not answer in 30 s")
        yield address
    finally:
        server.terminate()
        server.wait()


@contextmanager
def new_bucket(address: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Make a bucket; yield its location, and the variables AWS's own tools find it by."""
    variables = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        bucket = f"lake-{os.urandom(4).hex()}"
        files.mkdir(bucket)
        yield f"s3://{bucket}/dlq", variables
        fsspec.filesystem("s3").clear_instance_cache()
