#!/bin/bash
# As MinIO's image is documented: `server /data --address :9000 …`, with the key in two files.
set -eu
[ "$1 $2 $3 $4" = "server /data --address :9000" ]
[ -s "$MINIO_ROOT_USER_FILE" ] && [ -s "$MINIO_ROOT_PASSWORD_FILE" ]
exec /opt/s3/bin/moto_server --host 0.0.0.0 --port 9000
