#!/bin/bash
# As the entrypoint of Airflow's image is documented: `bash` and `python` run as they are, everything
# else is a command of Airflow, with or without that word before it.
set -eu
case "${1:-}" in
  bash | python) exec "$@" ;;
  airflow) exec "$@" ;;
  *) exec airflow "$@" ;;
esac
