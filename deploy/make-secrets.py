"""Create the missing secrets of docker-compose.yaml in a directory.

Run as ``python deploy/make-secrets.py deploy/secrets``; it keeps files that exist. To replace a
secret, delete its file; docs/explanation/security.md names what else to change. It uses only the
standard library, because it runs before anything is installed.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path


def make(directory: Path) -> list[str]:
    """Make what is missing; return the names of what was made.

    The directory is its owner's alone. The files are readable, since the users inside the
    containers are others; nobody else reaches them here.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    made = []

    def secret(name: str, build: Callable[[], str]) -> str:
        path = directory / name
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(build())
            path.chmod(0o444)
            made.append(name)
        return path.read_text(encoding="utf-8").strip()

    for name in ("airflow_secret_key", "airflow_jwt_secret", "postgres_password"):
        secret(name, _random)
    secret("mq_admin_password", _random)
    user, password = secret("s3_user", lambda: "mqdlq"), secret("s3_password", _random)
    secret("aws_config", lambda: _AWS_CONFIG.format(user, password))
    secret("airflow_fernet_key", lambda: base64.urlsafe_b64encode(os.urandom(32)).decode())
    secret("airflow_passwords", lambda: json.dumps({"admin": _random()}))
    for role, url in (("airflow", "airflow_database_url"), ("mqdlq", "ledger_url")):
        of_the_role = "airflow_database_password" if role == "airflow" else "ledger_password"
        password = secret(of_the_role, _random)
        address = f"postgresql+psycopg://{role}:{password}@postgres:5432/{role}?{_NOTICE_A_CUT}"
        secret(url, lambda: address)  # noqa: B023
    app = secret("mq_app_password", _random)
    secret("connections-mq.json", lambda: _connections(_real(app)))
    secret("connections-embedded.json", lambda: _connections(_EMBEDDED))
    return made


def _random() -> str:
    return secrets.token_urlsafe(24)


# The object store of the compose file, as AWS's own tools read it.
_AWS_CONFIG = """\
[default]
region = us-east-1
endpoint_url = http://s3:9000
aws_access_key_id = {}
aws_secret_access_key = {}
"""

# A connection whose other end is gone without a word, as after a cut of the network, ends within
# half a minute. Linux would wait two hours for an answer, and a quarter of one to send.
_NOTICE_A_CUT = "keepalives_idle=10&keepalives_interval=5&keepalives_count=4&tcp_user_timeout=30000"

_EMBEDDED: dict[str, object] = {
    "conn_type": "mqdlq",
    "extra": {"queue_manager": "QM1", "transport": "embedded"},
}
_SPARK = {
    "conn_type": "spark",
    "host": "spark://spark-master",
    "port": 7077,
    "extra": {"deploy-mode": "client"},
}


def _real(password: str) -> dict[str, object]:
    return {
        "conn_type": "mqdlq",
        "host": "mq",
        "port": 1414,
        "login": "app",
        "password": password,
        "extra": {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"},
    }


def _connections(queue_manager: dict[str, object]) -> str:
    return json.dumps({"mq_demo": queue_manager, "spark_default": _SPARK}, indent=1) + "\n"


if __name__ == "__main__":
    for name in make(Path(sys.argv[1])):
        print(f"made {Path(sys.argv[1]) / name}")
