# Sets up, runs and checks the project. `make help` lists the targets.
# It needs make, Python 3.11 or newer and Java 17 or newer; everything else comes from
# requirements-dev.lock. `make set-up PYTHON=python3.12` chooses another Python.

PYTHON ?= python3
UV_VERSION := 0.13.8
TEST_PROCESSES ?= 2

# The image that `make image` builds, by which program, and the address of the repository for its labels.
DOCKER ?= docker
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= mqdlq:$(VERSION)
SOURCE ?= unknown

# By themselves they reach every branch of the packages under [tool.coverage.run] in pyproject.toml.
CORE_TESTS := tests/unit/rules tests/unit/headers tests/unit/test_plan.py \
  tests/unit/test_structures.py tests/unit/stages/units \
  tests/unit/stages/execute/test_units_of_work.py tests/unit/stages/execute/test_discards.py \
  tests/unit/stages/execute/test_own_queues.py

BIN := .venv/bin
UV := $(BIN)/uv
READY := .venv/.set-up
CLASSES := .venv/.spark-classes
PYODIDE := .tools/pyodide/.set-up

.DEFAULT_GOAL := help
.PHONY: help set-up setup run up down test test-changed test-fast coverage mutate test-e2e soak bench bench-spark bench-handlers cluster cluster-stop check prose docs docs-serve docs-pages format lock wheel matrix peers clean java
.PHONY: compose-up compose-down compose-test check-deploy supply-chain image sbom compose-here compose-faults
.PHONY: prove proved-on compose-prove release-check release-notes release-image

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

set-up: $(READY) $(CLASSES)  ## .venv from requirements-dev.lock, with this project in it
setup: set-up

run: $(READY) $(CLASSES)  ## the demo: its queue manager QM1 is filled, its dead-letter queue handled by a DAG run
	@$(BIN)/python -m mqdlq.local.demo
	@$(BIN)/mqdlq run demo

up: $(READY)  ## a local Airflow with its UI and the demo, fed until `make down`
	@$(BIN)/python -m mqdlq.local.services

down: $(READY)  ## stop what `make up` started
	@$(BIN)/python -m mqdlq.local.services --down

# Tests compile once, and not in each process: where the environment forbids bytecode, this allows it.
coverage test test-changed test-fast: export PYTHONDONTWRITEBYTECODE =

# In the order of the directories, the files of minutes come first, and both processes end together.
# A test of ten minutes hangs: it fails with the lines where all its threads stand.
test: coverage  ## every test that needs neither Docker nor IBM MQ
	$(BIN)/pytest -m "not long" $(CORE_TESTS:%=--ignore=%) -n $(TEST_PROCESSES) --dist loadfile \
	  --no-loadscope-reorder --timeout 600

coverage: $(READY)  ## the tests of rules, headers, plan and units of work, which reach every branch
	$(BIN)/pytest --quiet $(CORE_TESTS) --cov -n $(TEST_PROCESSES) --dist loadfile --timeout 600

test-fast: $(READY)  ## the quick tests: no Airflow, no JVM, no kills
	$(BIN)/pytest --quiet --ignore tests/airflow --ignore tests/e2e --ignore tests/spark \
	  -m "not airflow and not slow and not stages" -n $(TEST_PROCESSES) --dist worksteal

test-changed: $(READY)  ## the tests that changes since SINCE=HEAD touch, but the long ones
	@$(BIN)/python -m tests.support.changed $(or $(SINCE),HEAD) --quiet -m "not long"

# mutmut takes modules to be named by their paths below src. It goes on where it was interrupted.
mutate: $(READY)  ## change one expression of that code after another: hours, or MUTANTS='mqdlq.plan.*'
	@ln -sfn plugins src && mkdir -p mutants && ln -sfn src mutants/plugins
	$(BIN)/mutmut run --max-children $(TEST_PROCESSES) $(MUTANTS)
	@$(BIN)/python -m tests.support.coverage.mutants

test-e2e: $(READY) .tools/.set-up $(PYODIDE)  ## Airflow's real services, a real cluster, the containers: slow, with nothing else running
	$(BIN)/pytest tests/e2e tests/spark/test_cluster.py
	$(BIN)/pytest -m long tests/airflow --timeout 600

soak: $(READY)  ## the long proofs: thousands of kills, every reason at every call, 1000 random worlds
	@$(BIN)/python -m tests.soak.everything
	@MQDLQ_SPARK_EQUALITY=1 $(BIN)/pytest --quiet tests/spark/test_strategies.py tests/spark/test_evaluate_rules.py

bench: $(READY)  ## how fast it is, as JSON: each number beside a floor taken in the same run
	@$(BIN)/python -m benchmarks

bench-spark: $(READY)  ## the evaluation in Spark beside a floor, DuckDB, Polars and plain Python: half an hour
	@$(BIN)/python -m benchmarks.spark_evaluation

bench-handlers: $(READY)  ## what 1, 10 and 50 waiting handlers cost Airflow's services: ten minutes
	@$(BIN)/python -m benchmarks.handlers

cluster: $(READY)  ## a Spark master and two workers on this machine; prints the master's URL
	@$(BIN)/python spark/local_cluster.py start

cluster-stop: $(READY)  ## end them
	@$(BIN)/python spark/local_cluster.py stop

# Two at a time; each prints what it says at its end, and all of them run though one fails.
CHECKS := check-types check-prose check-names check-imports check-style check-rules
.PHONY: $(CHECKS)

check: $(READY)  ## lint, format, types, dead code, import contracts, handlers and rules tables, prose
	@$(MAKE) --no-print-directory --jobs 2 --output-sync --keep-going $(CHECKS)

check-types:
	$(BIN)/mypy

check-prose:
	$(BIN)/python -m tests.support.prose

check-names:
	$(BIN)/vulture

check-imports:
	$(BIN)/lint-imports

check-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-rules:
	$(BIN)/mqdlq rules check include/rules

prose: $(READY)  ## the words of documents, docstrings and messages (IN=directory: there only)
	@$(BIN)/python -m tests.support.prose $(IN)

docs: $(READY) $(PYODIDE)  ## the documentation as a site in var/site; fails for a broken link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

docs-serve: $(READY)  ## the site on port 8000, built again at each change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

docs-pages: $(READY)  ## the pages of docs/reference that are generated from code
	@$(BIN)/python -m tests.support.docs.pages
	@$(BIN)/python -m tests.proof.page

format: $(READY)  ## lay out the code as `make check` expects
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet

prove: CLIENT ?= ibmmq
prove: $(READY) $(CLASSES)  ## the proof on the queue manager of SETTINGS=file.json, else on an embedded one (CLIENT=pymqi)
	@$(BIN)/python -m tests.proof $(if $(SETTINGS),--settings $(SETTINGS)) --client $(CLIENT) \
	  --results $(or $(RESULTS),var/proof/$(CLIENT))

proved-on: $(READY)  ## write docs/proved-on.md; RESULTS=directory takes over the results in it
	@$(BIN)/python -m tests.proof.page $(RESULTS)

compose-up:  ## docker-compose.yaml: Airflow, PostgreSQL, Spark and IBM MQ in containers
	@bash deploy/compose.sh up

compose-down:  ## stop it; its volumes stay (`docker compose down --volumes` removes them)
	@bash deploy/compose.sh down

compose-here: .tools/.set-up $(READY)  ## what compose-up starts, by podman on base images of packages, and the demo in it
	$(BIN)/pytest --quiet tests/e2e/containers/test_long_demo.py

compose-faults: .tools/.set-up $(READY)  ## kills, pauses, cuts, full volumes, a restore, an upgrade and an object store there
	$(BIN)/pytest --quiet tests/e2e/containers --ignore tests/e2e/containers/test_long_demo.py

compose-test:  ## the demo on the queue manager in its container and on the Spark cluster
	@bash deploy/compose.sh test

compose-prove:  ## the proof on IBM MQ in a container of its own (MQ_IMAGE=image CLIENT=ibmmq TRANSPORT=tls)
	@bash deploy/compose.sh prove

check-deploy: .tools/.set-up  ## Dockerfile, workflows and shell scripts; then `make test` has the tools of its tests
	.tools/bin/hadolint Dockerfile
	.tools/bin/shellcheck deploy/*.sh deploy/*/*.sh .ci/run
	PATH="$(CURDIR)/.tools/bin:$$PATH" .tools/bin/actionlint
	.tools/bin/zizmor --quiet --offline .github action.yml

release-check:  ## whether TAG=v0.2.0 may be released: the version and the changelog say so
	@$(PYTHON) deploy/release.py check $(TAG)

release-notes:  ## the changelog's section of TAG=v0.2.0, in var/release-notes.md
	@$(PYTHON) deploy/release.py notes $(TAG)

release-image:  ## build and push the image of TAG=v0.2.0 to IMAGE_REGISTRY=host IMAGE=name
	@bash deploy/release-image.sh

supply-chain: .tools/.set-up $(READY)  ## docs/reference/licences.md, and known vulnerabilities
	@$(BIN)/python deploy/supply_chain.py

image:  ## the image with its labels, by Docker: IMAGE=registry.example.com/mqdlq:0.1.0
	@$(DOCKER) build --target production --tag $(IMAGE) --build-arg VERSION=$(VERSION) \
	  --build-arg REVISION="$$(git rev-parse HEAD)" --build-arg SOURCE="$(SOURCE)" \
	  --build-arg CREATED="$$(git log -1 --format=%cI)" \
	  --build-arg MQ_CLIENT_VERSION --build-arg MQ_CLIENT_SHA256 .

sbom: .tools/.set-up  ## the bill of materials of the image IMAGE, CycloneDX in var/sbom.json
	@mkdir -p -m 0700 var
	@$(DOCKER) run --rm --interactive --network none --entrypoint python3 $(IMAGE) - \
	  <deploy/inventory.py >var/inventory.json
	@.tools/bin/python -m deploy.sbom var/inventory.json var/sbom.json

# Python for the browser, which npm compares with the digests of its lock. The site's page that tries
# a table needs it, and says so where it is not.
$(PYODIDE): deploy/pyodide/package-lock.json
	@mkdir -p $(@D) && cp deploy/pyodide/*.json $(@D)
	@if command -v npm >/dev/null; then npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel error && touch $@; \
	  else echo "npm is not installed: the site cannot try tables in the browser" >&2; fi

.tools/.set-up: deploy/tools.lock $(UV)
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .tools
	@$(UV) pip install --quiet --python .tools/bin/python --require-hashes -r deploy/tools.lock
	@touch $@

lock: $(UV)  ## write both locks from requirements.txt; pins stay where they still fit
	@sed '/^# To develop/,$$d' requirements.txt | \
	  $(UV) pip compile --quiet --universal --generate-hashes --custom-compile-command "make lock" \
	  --no-emit-package mqdlq - -o requirements.lock
	@$(UV) pip compile --quiet --universal --generate-hashes --custom-compile-command "make lock" \
	  --no-emit-package mqdlq --constraints requirements.lock requirements.txt -o requirements-dev.lock
	@$(UV) pip compile --quiet --universal --generate-hashes deploy/tools.txt -o deploy/tools.lock

# Built from the source distributions, with hatchling of the lock and without an index.
wheel: $(READY)  ## wheels and source distributions of mqdlq and embedded-mq, in dist/
	@rm -rf dist
	@for place in . embedded_mq; do \
	  $(UV) build --quiet --no-build-isolation --offline --python $(BIN)/python --out-dir dist $$place || exit 1; \
	done
	@ls -1 dist/*.whl dist/*.tar.gz

# Its results are in tests/matrix/results.json, and by `make docs-pages` in docs/reference/versions.md.
matrix: wheel  ## the wheel with each version of Python, Airflow and Spark: hours (CELLS=spark4.1: some)
	@$(BIN)/python -m tests.matrix --processes $(TEST_PROCESSES) \
	  $(if $(CONSTRAINTS),--constraints '$(CONSTRAINTS)') $(CELLS)

peers: $(READY)  ## test suites of other MQ clients over embedded queue managers, fetched by pip and git
	@$(BIN)/python -m tests.peers

clean:  ## remove .venv, caches and the state in var/
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage mutants src var dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Checked before anything is downloaded, as Spark will look for it: JAVA_HOME, else PATH.

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version="$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p')"; \
	[ "$${version:-0}" -ge 17 ] || { \
	  echo "Java 17 or newer is needed, found $${version:-none} ($$java): install it (Debian, Ubuntu:" \
	    "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)" \
	    "or point JAVA_HOME at it" >&2; \
	  exit 1; \
	}

$(UV): | java
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer with its venv module is needed, found" \
	    "$$($(PYTHON) --version 2>/dev/null || echo none) ($(PYTHON)): install it (Debian, Ubuntu:" \
	    "apt-get install python3-venv) or name another one, as in: make PYTHON=python3.12 set-up" >&2; \
	  exit 1; \
	}
	@echo "Setting up .venv (2 GB) takes some minutes. 1 of 4: a virtual environment with uv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# Bytecode is made here, once: every process of Airflow and Spark would else compile what it imports
# wherever it may not, or is not to (PYTHONDONTWRITEBYTECODE), leave it behind.
# pymqi stays in the complete lock, but uv must pass it by: it cannot be built without IBM's SDK,
# and pymqi_layer brings it in one way or the other. pyspark-client is a part of pyspark, and would
# write over its files. Builds take their tools from the lock, too.
$(READY): requirements-dev.lock pyproject.toml embedded_mq/pyproject.toml $(UV) | java
	@printf 'pymqi\npyspark-client\n' > .venv/excluded.txt
# Before pyspark is upgraded, which brings the files back that both have.
	@$(UV) pip uninstall --quiet --python $(BIN)/python pyspark-client 2>/dev/null
	@echo "2 of 4: $$(grep -c '^[a-z].*==' requirements-dev.lock) packages, which uv downloads, installs and compiles"
	@{ $(UV) pip install --compile-bytecode --python $(BIN)/python --require-hashes --no-deps \
	  --build-constraints requirements-dev.lock --excludes .venv/excluded.txt -r requirements-dev.lock 2>&1; \
	  echo $$? >.venv/exit-code; } | sed -u '/^ [+-] /d; s/^/  /'; \
	  exit "$$(cat .venv/exit-code)"
	@echo "3 of 4: this project"
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable ./embedded_mq
	@$(BIN)/python deploy/pymqi_layer.py requirements-dev.lock
	@touch $@

# Spark's classes as the JVM reads them fastest: small jobs start in half the time. Optional.
$(CLASSES): $(READY)
	@echo "4 of 4: storing Spark's classes for a faster start, once: half a minute or more"
	@$(BIN)/python -m mqdlq.local.class_archive
	@touch $@
