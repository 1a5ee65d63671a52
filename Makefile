# `make help` lists the targets. Only Python 3.11+ (with venv and pip) and make need to be on the machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
TOOLS := .tools
SAM := $(TOOLS)/sam/bin/sam
EMULATOR := $(TOOLS)/emulator/bin/ministack
FAST_TESTS := tests/unit tests/property
# the longest first, so that no core waits for them at the end
SIDE_BY_SIDE := tests/kills tests/integration tests/contract tests/migration
# these start processes of their own, and one stack for all
ONE_AFTER_ANOTHER := tests/storm tests/e2e
ALL_CORES := --numprocesses auto --dist loadfile
PYTEST := $(BIN)/python -m pytest
export SAM_CLI_TELEMETRY := 0

# $(call compile,lock,options): no index address is written, so that each machine uses its own.
compile = $(UV) pip compile --quiet --universal --generate-hashes \
	--python-version 3.11 --custom-compile-command "make lock" --output-file $(1) $(2)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup tools check rules test fmt bench migrate schema openapi fleet demo storm mutations privileges soak audit lock build validate clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | column -t -s "$$(printf '\t')" 2>/dev/null \
		|| sed -n 's/^\([a-z]*\):.*## /\1: /p' $(MAKEFILE_LIST)

## --- environments; a stamp is renewed when its lock or pyproject.toml is newer

setup: $(VENV)/.ready ## create .venv from the hashed locks and install the project into it, editable

$(VENV)/.uv: requirements-bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, $(PYTHON) is {sys.version}")'
	@echo "setup 1/3: virtual environment and uv"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-bootstrap.txt
	@touch $@

$(VENV)/.ready: $(VENV)/.uv requirements-dev.txt pyproject.toml
	@echo "setup 2/3: dependencies from requirements-dev.txt"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(UV) pip install --quiet --require-hashes -r requirements-bootstrap.txt -r requirements-dev.txt
	@echo "setup 3/3: the project itself, editable"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

tools: $(TOOLS)/.sam $(TOOLS)/.emulator ## install the SAM CLI and the AWS emulator, each into an environment of its own

$(TOOLS)/.%: requirements-%.txt | $(VENV)/.ready
	@echo "tools: $* (first time only)"
	@mkdir -p $(TOOLS)
	@$(UV) venv --quiet --clear --python $(BIN)/python $(TOOLS)/$*
	@$(UV) pip install --quiet --require-hashes --python $(TOOLS)/$*/bin/python -r $<
	@touch $@

lock: $(VENV)/.uv ## compile the hashed locks again from pyproject.toml
	$(call compile,requirements-bootstrap.txt,--group bootstrap)
	$(call compile,requirements-dev.txt,pyproject.toml --extra cli --group dev)
	$(call compile,layers/vendor/requirements.txt,pyproject.toml --constraint requirements-dev.txt)
	$(call compile,requirements-sam.txt,--group sam)
	$(call compile,requirements-emulator.txt,--group emulator)
	$(call compile,requirements-bench.txt,--group bench --constraint requirements-dev.txt)
	$(call compile,requirements-audit.txt,--group audit)

## --- the gate

check: setup ## format, lint, types, import contracts, unit and property tests: quick enough for every commit
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(ALL_CORES) $(FAST_TESTS)
	@if [ -f tests/rules.py ]; then $(BIN)/python -m tests.rules; fi

test: check tools ## everything: the gate, then integration, migration, contract, fault and end-to-end tests
	$(PYTEST) $(ALL_CORES) $(SIDE_BY_SIDE)
	$(PYTEST) $(ONE_AFTER_ANOTHER)

fmt: setup ## format, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: tools $(VENV)/.bench ## measure speed against the yardsticks in bench/, write docs/performance.md; PARTS="tick locks" renews these only
	$(BIN)/python -m bench $(PARTS)

$(VENV)/.bench: requirements-bench.txt | $(VENV)/.ready
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(UV) pip install --quiet --require-hashes -r $<
	@touch $@

## --- running it

migrate: setup ## bring the database that the settings point at up to date
	$(BIN)/blsflow migrate

schema: setup ## write docs/schema.sql anew from the migrations
	$(BIN)/python -m local.schema

openapi: setup ## write docs/openapi.json anew from the API's declarations
	$(BIN)/python -m local.openapi

fleet: setup ## put the sample fleet into an empty, migrated database, in shadow; MACHINES=200
	@$(BIN)/python -m local.fleet $(if $(MACHINES),--machines $(MACHINES))

demo: setup tools ## the whole product on this machine, until interrupted; ONCE=1 ends by itself
	$(BIN)/python -m local.demo $(if $(ONCE),--once)

audit: tools $(TOOLS)/.audit ## security: our code, the template, and known holes in what the layer carries (asks PyPI)
	$(BIN)/ruff check --select S layers functions cli
	$(PYTEST) tests/unit/test_template.py
	$(SAM) validate --lint
	$(TOOLS)/audit/bin/pip-audit --strict --disable-pip --require-hashes -r layers/vendor/requirements.txt

## --- at length, for every night

storm: setup ## 100,000 sequences of whatever may happen; SEQUENCES=n, or SEED=n to tell one again
	$(BIN)/python -m tests.storm $(if $(SEED),--seed $(SEED),--sequences $(or $(SEQUENCES),100000)) $(if $(EVENTS),--events $(EVENTS)) $(if $(RESULTS),--results $(RESULTS))

mutations: setup ## break the product in every known way and see the storm find it
	$(BIN)/python -m tests.storm --mutations

privileges: setup tools ## take every permission of every role away in turn and see what fails; writes docs/security.md. ROLES="TickRole" shows these only
	$(BIN)/python -m tests.privileges $(ROLES)

soak: setup ## the product at full rate for MINUTES=30; writes bench/results/soak.json and a plot of it
	$(BIN)/python -m local.soak --minutes $(or $(MINUTES),30)

## --- the template

validate: tools ## validate and lint the template
	$(SAM) validate --lint

build: tools ## build for AWS (arm64, the template's own Python); compiles if that Python is on the path
	PYTHON="$(CURDIR)/$(BIN)/python" $(SAM) build
	@python$(or $(BUILD_PYTHON_VERSION),3.13) -c '' 2>/dev/null \
		&& echo "built for $(or $(BUILD_ARCHITECTURE),arm64), and compiled ahead" \
		|| echo "built for $(or $(BUILD_ARCHITECTURE),arm64), NOT compiled ahead: no python$(or $(BUILD_PYTHON_VERSION),3.13) on the path, so cold starts take several times longer"
	@echo "(SAM's warnings on BuildArchitecture are about its own default: the layers have what their architecture needs)"

clean: ## remove the environments and everything built
	rm -rf $(VENV) $(TOOLS) .aws-sam build
