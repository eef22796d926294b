#!/bin/bash
# `make compose-up | compose-down | compose-test`: what is to be done in, docker compose called.
set -eu
cd "$(dirname "$0")/.."

docker info >/dev/null 2>&1 || {
  echo "No Docker engine answers here, and docker-compose.yaml needs one (with Compose 2.24 or" \
    "newer); \`make run\` handles the demo's dead letters without." >&2
  exit 1
}

prepare() {
  [ -f .env ] || cp .env.example .env
  python3 deploy/make-secrets.py "$(setting MQDLQ_SECRETS)"
  if [[ ",$(setting COMPOSE_PROFILES)," == *,mq,* && "$(setting MQ_LICENSE)" != accept ]]; then
    echo "IBM MQ's developer image starts only where its licence is accepted: read it with" \
      "\`docker run --rm -e LICENSE=view $(setting MQ_IMAGE)\`, then set MQ_LICENSE=accept in" \
      ".env, or do without IBM MQ: COMPOSE_PROFILES=embedded and" \
      "MQDLQ_CONNECTIONS=connections-embedded.json" >&2
    exit 1
  fi
}

setting() { # the value of a variable in .env
  sed -n "s/^$1=//p" .env | tail -n 1
}

case "${1:-}" in
  up)
    prepare
    docker compose up --build --detach --wait
    echo "Airflow: http://127.0.0.1:$(setting AIRFLOW_PORT), user admin, password in" \
      "$(setting MQDLQ_SECRETS)/airflow_passwords"
    ;;
  down) docker compose --profile '*' down ;;
  test)
    prepare
    docker compose up --build --detach --wait
    docker compose --profile test run --rm tests
    ;;
  *)
    echo "usage: deploy/compose.sh up|down|test" >&2
    exit 2
    ;;
esac
