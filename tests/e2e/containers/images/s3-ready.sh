#!/bin/bash
# `mc ready local` of MinIO's image: whether the server answers.
set -eu
[ "$*" = "ready local" ]
exec curl --fail --silent --output /dev/null http://127.0.0.1:9000/moto-api/
