#!/bin/bash
# The service `tests` runs this for `make compose-prove`: the proof on IBM MQ in its container,
# through each client of CLIENT and each transport of TRANSPORT (all by default).
set -eu
umask 022
cd /opt/mqdlq

settings() { # transport
  TRANSPORT="$1" python - <<'PYTHON'
import json, os, pathlib
settings = {"queue_manager": "QM1", "host": "mq", "channel": "MQDLQ.PROOF", "user": "app",
            "password": pathlib.Path("/run/secrets/mq_app_password").read_text().strip()}
if os.environ["TRANSPORT"] == "tls":
    settings |= {"channel": "MQDLQ.PROOF.TLS", "tls_cipher_spec": "ANY_TLS12_OR_HIGHER",
                 "key_repository": "/run/mqdlq-tls/key.p12", "certificate_label": "mqdlq"}
print(json.dumps(settings))
PYTHON
}

MQKEYRPWD=$(cat /run/mqdlq-tls/password)
export MQKEYRPWD
failed=0
for client in ${CLIENT:-pymqi ibmmq}; do
  for transport in ${TRANSPORT:-client tls}; do
    settings "$transport" >/tmp/settings.json
    python -m tests.proof --settings /tmp/settings.json --client "$client" \
      --results "var/proof/$client-$transport" || failed=1
  done
done
exit $failed
