#!/bin/bash
# The service `tests` of docker-compose.yaml runs this: the contract tests against the queue manager
# in its container through both clients, then the demo, handled by a DAG run on the Spark cluster.
set -eu
umask 077
cd /opt/mqdlq

settings() { # client
  CLIENT="$1" python - <<'PYTHON'
import json, os, pathlib
password = pathlib.Path("/run/secrets/mq_app_password").read_text().strip()
print(json.dumps({"queue_manager": "QM1", "host": "mq", "channel": "DEV.APP.SVRCONN",
                  "user": "app", "password": password, "client": os.environ["CLIENT"]}))
PYTHON
}

for client in pymqi ibmmq; do
  echo "The contract tests through $client, on IBM MQ"
  MQDLQ_TEST_QUEUE_MANAGER="$(settings "$client")" \
    pytest -p no:cacheprovider --quiet -k real tests/contract
done

settings pymqi >/tmp/settings.json
python -m mqdlq.local.demo --settings /tmp/settings.json
mqdlq run demo
