"""Read-only file systems for one process, as a container with `read_only: true` has them."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

UNSHARE = ("unshare", "--mount", "--propagation", "private", "--")
# Mounts of the kernel, such as /proc and /dev/shm, stay as they are; a container has its own.
READ_ONLY = """
mount --bind "$1" "$1"
while read -r _ place kind _; do
  case "$kind:$place" in
    ext*:*|xfs:*|btrfs:*|overlay:*|zfs:*|tmpfs:/tmp*)
      [ "$place" = "$1" ] || mount -o remount,bind,ro "$place" ;;
  esac
done </proc/self/mounts
shift
exec "$@"
"""


def confined(directory: Path, command: list[str]) -> list[str]:
    """Return a command that sees every file system as read-only, except for one directory."""
    return [*UNSHARE, "sh", "-ec", READ_ONLY, "sh", str(directory), *command]


@cache
def can_confine() -> bool:
    """Check whether this process may make a mount namespace and change the mounts in it."""
    with tempfile.TemporaryDirectory() as place:
        command = confined(Path(place), ["true"])
        try:
            return subprocess.run(command, check=False, capture_output=True).returncode == 0
        except FileNotFoundError:  # not on Linux
            return False
