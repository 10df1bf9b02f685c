# Runyard. `make` alone lists the targets.
# Everything is done by programs in .venv, which the first command makes; nothing is installed elsewhere.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
SHELL := /bin/sh
PY := .venv/bin/python
SETUP := scripts/setup
# Python keeps what it compiled: without that each of the many processes of a stack or a test compiles all again.
unexport PYTHONDONTWRITEBYTECODE
# Two processes more than there are processors, because many tests wait; each starts a stack and a browser, so not more than six.
PYTEST_WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((cores > 4 ? 6 : cores + 2)))
# Tests of one file run in one process, files in the order of tests/support/order.py.
PYTEST := $(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder
# pytest uses only the last of two -m options, so both are one.
NOT_SLOW := -m 'not slow$(if $(MARK), and ($(MARK)))'

.PHONY: help setup setup-lint setup-test up down status env mail dashboard reset migrate migration test test-all check lint format unit faults bench mutants engines docs screenshots \
  wheels worker-binary version release-check lock clean

help: ## Show this help
	@echo "Runyard runs Terraform, OpenTofu and Pulumi on runners that you own, and shows the fleet live."
	@echo
	@echo "  Start here:    make up      then open the address it prints"
	@echo "  Check a change: make test"
	@echo
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  RUNYARD_PORT_OFFSET=100 make up    a second one beside the first (with its own RUNYARD_HOME or clone)"
	@echo "  DEMO=0 make up                     start without the demo organisation and its runners"
	@echo "  RUNYARD_HOME=folder make up        keep database, secrets and logs there instead of in .runyard/"
	@echo "  RUNYARD_PG_BIN=folder make up      another PostgreSQL, 15 or later, by its bin folder"
	@echo "  make test ARGS='-k name'           only some tests"
	@echo "  make test MARK=browser             only tests that need a browser; also engine, docker, kubernetes, gitea, aws"

setup: ## Create or update .venv (the other targets do it automatically)
	@$(SETUP) run

setup-lint:
	@$(SETUP) lint

setup-test:
	@$(SETUP) test

up: setup ## Start everything and print the address and the sign-in; Ctrl-C stops it
	@exec $(PY) -m cli up $(if $(filter 0 no false,$(DEMO)),--no-demo) $(ARGS)

down: setup ## Stop what `make up` started, from any terminal
	@$(PY) -m cli down

status: setup ## Show addresses, keys and the health of each part
	@$(PY) -m cli status

env: ## Print SUPABASE_URL and the keys as shell exports: eval "$(make env)"
	@$(SETUP) run >&2
	@$(PY) -m cli env

mail: setup ## Show the mails that the local stack kept instead of sending, newest first, with their links
	@$(PY) -m cli mail

dashboard: setup ## Serve the dashboard alone, for the project that SUPABASE_URL names
	@exec $(PY) -m cli dashboard

migrate: setup ## Apply new migrations to the local database
	@$(PY) -m cli migrate

migration: setup-test ## Write the migration of a changed schema: NAME=what_it_does; DROPS=1 if it may drop; INITIAL=1 before the first release
	@$(PY) -m scripts.migration $(if $(INITIAL),--initial,$(NAME)) $(if $(DROPS),--allow-drops)

reset: setup ## Delete the local database, secrets and logs, after asking
	@$(PY) -m cli reset $(ARGS)

test: setup-test ## Run what a push needs: every check, and every test that is not slow
	@$(MAKE) lint-only
	@$(PYTEST) $(NOT_SLOW) $(ARGS)

test-all: setup-test ## Run everything: slow tests too, every case of what `test` samples, longer faults
	@$(MAKE) lint-only
	@RUNYARD_TEST_ALL=1 RUNYARD_FAULT_ROUNDS=$${RUNYARD_FAULT_ROUNDS:-4} $(PYTEST) $(ARGS)

lint: setup-lint ## Run the checks only: ruff, mypy, import contracts, unused packages and code, docs, prose, edge functions
	@$(MAKE) lint-only

# The longest first, so that the others fit beside it.
LINTS := lint-mypy lint-deno lint-docs lint-vulture lint-deptry lint-ruff lint-imports lint-prose

.PHONY: lint-only $(LINTS)
lint-only:
	@$(MAKE) -j 2 $(LINTS)

lint-mypy:
	@echo "==> mypy" && $(PY) -m mypy --explicit-package-bases app worker stack cli wire benchmarks scripts rxconfig.py

lint-deno:
	@echo "==> deno" && .venv/bin/deno lint --quiet stack/edge supabase/functions \
	  && .venv/bin/deno check --quiet --config supabase/functions/deno.json stack/edge/router.ts supabase/functions/*/index.ts

lint-docs:
	@echo "==> docs" && { $(PY) -m zensical build --strict >.venv/docs.log 2>&1 || { cat .venv/docs.log; exit 1; }; }

# It ends with 3 when it found something; everything else is a failure of its own.
lint-vulture:
	@echo "==> vulture" && { $(PY) -m vulture >.venv/vulture.log || test $$? -eq 3; } \
	  && ! grep -v "unused \(variable\|attribute\) " .venv/vulture.log

lint-deptry:
	@echo "==> deptry" && $(PY) -m deptry worker wire --config packaging/runyard-worker/pyproject.toml --no-ansi >.venv/deptry.log 2>&1 \
	  && $(PY) -m deptry app cli stack wire worker --config .deptry.toml --no-ansi >.venv/deptry.log 2>&1 || { cat .venv/deptry.log; exit 1; }

lint-ruff:
	@echo "==> ruff" && $(PY) -m ruff check . && $(PY) -m ruff format --check --quiet .

lint-imports:
	@echo "==> import contracts" && { .venv/bin/lint-imports >.venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }; }

lint-prose:
	@echo "==> prose" && $(PY) -m scripts.prose

format: setup-lint ## Format, and fix what ruff can fix
	@$(PY) -m ruff check --fix-only --quiet . ; $(PY) -m ruff format .

check: setup-test ## Run ruff, mypy, import contracts and the quick tests of what this branch changes: the inner loop
	@$(MAKE) -j 2 lint-ruff lint-imports lint-mypy
	@tests="$$($(PY) -m tests.support.changes)"; test -z "$$tests" || $(PYTEST) $$tests $(NOT_SLOW) $(ARGS)

unit: setup-test ## Run the quick tests only
	@$(PYTEST) tests/unit tests/db $(NOT_SLOW) $(ARGS)

faults: setup-test ## Run the fault tests: kill, partition, restart
	@RUNYARD_FAULT_ROUNDS=$${RUNYARD_FAULT_ROUNDS:-4} $(PY) -m pytest -s tests/faults $(ARGS)

bench: setup-test ## Measure, and write JSON and a table to benchmarks/results/
	@$(PY) -m benchmarks $(ARGS)

engines: setup ## Build or fetch OpenTofu, Terraform and Pulumi into the cache (takes a while)
	@$(PY) -m cli engines ensure all

mutants: setup-test ## Break rules one at a time in a copy, and count how many the tests notice: ARGS="--count 20 --area worker/logs"
	@$(PY) -m scripts.mutants $(ARGS)

docs: setup-lint ## Build the documentation site into site/
	@$(PY) -m zensical build --strict

screenshots: setup-test ## Take the pictures of README and docs from a running `make up`
	@$(PY) scripts/screenshots.py

wheels: setup-lint ## Build the wheels of the command line and of the runner into dist/
	@$(PY) scripts/wheels.py

worker-binary: setup-lint ## Build the runner as one file for this platform into dist/
	@$(PY) scripts/worker_binary.py

version: setup-lint ## Print the version in each of its places; V=1.4.0 writes another one into them
	@$(PY) scripts/versions.py $(V)

release-check: setup-lint ## Check and build what a release offers, as the release's first job does
	@$(PY) scripts/release_check.py $(ARGS)

lock: setup-lint ## Pin the newest allowed versions of requirements*.in
	@$(PY) -m uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 requirements.in -o requirements.txt
	@$(PY) -m uv pip compile --quiet --universal --no-header --no-annotate --python-version 3.11 requirements-dev.in -o requirements-dev.txt

clean: ## Remove .venv and what was built; keep .runyard/
	@rm -rf .venv .venv.lock .web .mypy_cache .ruff_cache .pytest_cache site dist build
