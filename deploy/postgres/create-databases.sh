#!/bin/bash
# Run once, by PostgreSQL's image when it makes its data directory: a database and a role each for
# Airflow's metadata and for the ledger, neither of which can read the other's.
set -eu

create() { # name, file of its password
  psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" \
    --set=name="$1" --set=password="$(cat "$2")" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

create airflow "${AIRFLOW_DATABASE_PASSWORD_FILE:-/run/secrets/airflow_database_password}"
create mqdlq "${LEDGER_PASSWORD_FILE:-/run/secrets/ledger_password}"
