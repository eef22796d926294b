#!/bin/bash
# Start what needs more than one command, in a container of our image:
#     bash deploy/start.sh init                         create or migrate both schemas, of Airflow and the ledger
#     bash deploy/start.sh api-server FILE [OPTION…]    Airflow's api-server, with the passwords in a file
# Airflow opens its file of passwords for writing, and a secret is read-only: it gets a copy.
set -eu
case "${1:-} ${2:+file}" in
  "init ")
    airflow db migrate
    exec python -m mqdlq.ledger
    ;;
  "api-server file")
    install -m 600 "$2" "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
    exec airflow api-server "${@:3}"
    ;;
  *)
    echo "usage: deploy/start.sh init | api-server FILE [OPTION…]" >&2
    exit 2
    ;;
esac
