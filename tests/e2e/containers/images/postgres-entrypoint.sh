#!/bin/bash
# As the entrypoint of PostgreSQL's image is documented: the first start makes the data directory
# with POSTGRES_INITDB_ARGS and the password of POSTGRES_PASSWORD_FILE, and runs the scripts of
# /docker-entrypoint-initdb.d on a server that listens on its socket only.
set -eu
if [ "$(id -u)" = 0 ]; then
  chown postgres:postgres "$PGDATA" /var/run/postgresql
  chmod 0700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  # shellcheck disable=SC2086 # several arguments
  initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust $POSTGRES_INITDB_ARGS
  printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
  pg_ctl --wait --options="-c listen_addresses=''" start
  for script in /docker-entrypoint-initdb.d/*.sh; do
    bash "$script"
  done
  pg_ctl --wait --mode=fast stop
fi
exec "$@" -c listen_addresses='*'
