#!/bin/bash
# Run docker compose for `make compose-up`, `compose-down`, `compose-test` and `compose-prove`.
# COMPOSE names another program than `docker compose`: docs/how-to/deploy.md#podman.
set -eu
cd "$(dirname "$0")/.."
read -ra compose <<<"${COMPOSE:-docker compose}"

refuse() {
  echo "$*" >&2
  exit 1
}

[ -n "${COMPOSE:-}" ] || docker info >/dev/null 2>&1 ||
  refuse "No Docker engine answers here, and docker-compose.yaml needs one (with Compose 2.24 or" \
    "newer), or podman (docs/how-to/deploy.md#podman); \`make run\` handles the demo's dead letters without."

prepare() {
  [ -f .env ] || cp .env.example .env
  compare_with_the_example
  python3 deploy/make-secrets.py "$(setting MQDLQ_SECRETS)"
  if has_profile mq && [ "$(setting MQ_CLIENT)" != ibm ]; then
    refuse "the profile mq needs IBM's client in the image: set MQ_CLIENT=ibm and" \
      "MQDLQ_CONNECTIONS=connections-mq.json in .env"
  fi
  if has_profile mq && [ "$(setting MQ_LICENSE)" != accept ]; then
    refuse "IBM MQ's developer image starts only where its licence is accepted: read it with" \
      "\`docker run --rm -e LICENSE=view $(setting MQ_IMAGE)\`, then set MQ_LICENSE=accept in" \
      ".env, or do without IBM MQ, as .env.example does"
  fi
}

setting() { # the value of a variable as for Docker Compose: of this environment, else of .env
  printenv "$1" || sed -n "s/^$1=//p" .env | tail -n 1 | tr -d "\"'"
}

has_profile() {
  [[ ",$(setting COMPOSE_PROFILES)," == *,"$1",* ]]
}

compare_with_the_example() { # .env is older than the example after an upgrade
  local name value missing=()
  while IFS='=' read -r name value; do
    if ! printenv "$name" >/dev/null && ! grep -q "^$name=" .env; then
      missing+=("$name")
    elif [[ $name == *_IMAGE || $name == MQ_CLIENT_* ]] && [ "$(setting "$name")" != "$value" ]; then
      echo "$name is $(setting "$name"); .env.example has $value" >&2
    fi
  done < <(grep '^[A-Z]' .env.example)
  [ ${#missing[@]} -eq 0 ] || refuse ".env has no ${missing[*]}: take over what .env.example says"
}

prove() { # a queue manager of its own, which ends afterwards
  compose+=(--file docker-compose.yaml --file deploy/mq/prove.compose.yaml)
  "${compose[@]}" down --volumes
  "${compose[@]}" build airflow-init
  "${compose[@]}" up --detach --wait mq
  local failed=0
  "${compose[@]}" run --rm tests || failed=$?
  "${compose[@]}" down --volumes
  return "$failed"
}

case "${1:-}" in
  up)
    prepare
    "${compose[@]}" up --build --detach --wait
    echo "Airflow: http://127.0.0.1:$(setting AIRFLOW_PORT), user admin, password in" \
      "$(setting MQDLQ_SECRETS)/airflow_passwords"
    ;;
  down) "${compose[@]}" --profile '*' down ;;
  test)
    prepare
    has_profile mq || refuse "compose-test is about IBM MQ, and the profile mq is not among" \
      "COMPOSE_PROFILES ($(setting COMPOSE_PROFILES)); \`make test\` has the other tests"
    export MQDLQ_TARGET=trial
    "${compose[@]}" up --build --detach --wait
    "${compose[@]}" run --rm tests
    ;;
  prove)
    export COMPOSE_PROFILES=mq MQ_CLIENT=ibm MQDLQ_CONNECTIONS=connections-mq.json MQDLQ_TARGET=trial COMPOSE_PROJECT_NAME=mqdlq-proof
    export MQ_PORT=0 MQ_CONSOLE_PORT=0 # any free ports: those of `up` may be taken
    prepare
    secrets=$(setting MQDLQ_SECRETS)
    bash deploy/mq/make-certificates.sh "$secrets/tls" mq
    if [[ $(setting MQ_IMAGE) == *:9.[0-3].* ]]; then # these images read no secret
      MQ_APP_PASSWORD=$(<"$secrets/mq_app_password")
      export MQ_APP_PASSWORD
    fi
    mkdir -p -m 0700 var
    mkdir -p var/proof
    chmod 0777 var/proof # the user in the container is another one
    prove
    ;;
  *)
    echo "usage: deploy/compose.sh up|down|test|prove" >&2
    exit 2
    ;;
esac
