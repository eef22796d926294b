#!/bin/bash
# Back up ledger and lake of the services of docker-compose.yaml to a directory, and restore them.
# The copies have the form of deploy/backup.py.
#     bash deploy/compose-backup.sh backup /backups/2026-11-21
#     bash deploy/compose-backup.sh restore /backups/2026-11-21
# COMPOSE names another program than `docker compose`, as for deploy/compose.sh.
set -eu
read -ra compose <<<"${COMPOSE:-docker compose}"
directory="${2:-}"
case "${1:-} ${directory:+named}" in
  "backup named" | "restore named") ;;
  *)
    echo "usage: deploy/compose-backup.sh backup|restore DIRECTORY" >&2
    exit 2
    ;;
esac
[[ $directory == /* ]] || directory="$PWD/$directory"
cd "$(dirname "$0")/.."

refuse() {
  echo "deploy/compose-backup.sh: $*" >&2
  exit 1
}

lake=$(printenv MQDLQ_LAKE || sed -n 's/^MQDLQ_LAKE=//p' .env 2>/dev/null | tail -n 1)
[[ $lake != *://* ]] || refuse "the lake $lake is no directory; copy it with its store's own tools," \
  "and the ledger with pg_dump"

postgres() { # run a program of PostgreSQL on the ledger's database
  local program="$1"
  shift
  "${compose[@]}" exec -T postgres "$program" --username=mqdlq --dbname=mqdlq "$@"
}

# Run a command as the owner of the lake's files.
in_the_lake() {
  "${compose[@]}" run --rm --no-deps -T --entrypoint bash airflow-init \
    -c "umask 077; mkdir -p \"\$MQDLQ_LAKE\"; cd \"\$MQDLQ_LAKE\"; $1"
}

backup() {
  [ ! -e "$directory" ] || refuse "$directory exists; name a new directory [MQDLQ-920]"
  umask 077 # the archive holds customers' messages
  rm -rf "$directory.part"
  mkdir -p "$directory.part"
  # The ledger first: it only names files that are already in the lake.
  postgres pg_dump --format=custom --no-owner >"$directory.part/ledger"
  # Exit code 1 of tar: a file changed or vanished meanwhile, which the ledger's copy does not name.
  in_the_lake "tar --create . || [ \$? -eq 1 ]" >"$directory.part/lake.tar"
  mv "$directory.part" "$directory"
  echo "ledger and lake are copied to $directory"
}

restore() {
  [ -f "$directory/ledger" ] && [ -f "$directory/lake.tar" ] || refuse "$directory holds no copy"
  "${compose[@]}" up --detach --wait postgres
  [ -z "$(in_the_lake "ls -A" </dev/null)" ] || refuse "the lake is not empty; move it away first"
  [ -z "$(postgres psql --tuples-only --no-align --command='\dt' </dev/null 2>/dev/null)" ] ||
    refuse "the ledger is not empty; restore into a new volume"
  postgres pg_restore --single-transaction --exit-on-error --no-owner <"$directory/ledger"
  in_the_lake "tar --extract" <"$directory/lake.tar"
  echo "ledger and lake are those of $directory again"
}

"$1"
