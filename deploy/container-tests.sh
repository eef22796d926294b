#!/bin/bash
# The service `tests` of docker-compose.yaml runs this: the demo on the queue manager in its
# container, handled by a DAG run on the Spark cluster.
set -eu
umask 077
cd /opt/mqdlq

python - >/tmp/settings.json <<'PYTHON'
import json, pathlib
password = pathlib.Path("/run/secrets/mq_app_password").read_text().strip()
print(json.dumps({"queue_manager": "QM1", "host": "mq", "channel": "DEV.APP.SVRCONN",
                  "user": "app", "password": password}))
PYTHON
python -m mqdlq.local.demo --settings /tmp/settings.json
mqdlq run demo
