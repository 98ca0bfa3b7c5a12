# The whole developer interface. It needs a python3 of 3.11 or later with venv; the rest it brings itself.

PYTHON ?= python3
ARGS ?=
SEEDS ?= 10000

MEMBERS := events projections services client
PROJECTS := pyproject.toml $(MEMBERS:%=%/pyproject.toml)
BIN := .venv/bin
STAMP := .venv/installed
SERVERS := .venv/servers
TYPESCRIPT := .venv/typescript
AXE := .venv/axe
CONTRACTS := .venv/contracts
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help install run test test-quick test-long simulate check check-ruff check-mypy check-pyright check-imports check-contracts bench faults suppose soak docs pins clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) $(SERVERS)/installed $(TYPESCRIPT)/installed $(AXE)/installed ## make .venv from the pinned requirements

# pip brings uv, at the version and hash of the pins, and uv does the rest. The members are editable:
# their new files are seen at once, so only a change of pins or metadata installs again. The root is
# not: it holds no module, only the console script.
$(STAMP): requirements.txt requirements-uv.txt $(PROJECTS)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Turnlog needs Python 3.11 or later: make PYTHON=...")'
	@echo 'Installing the pinned requirements into .venv ...'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	@$(INSTALL) --require-hashes -r requirements.txt
	@$(INSTALL) --no-deps --no-build-isolation $(MEMBERS:%=-e ./%) .
	@touch $(STAMP)

# Written for node: a server of tools that tests speak to, the compiler of the TypeScript client, and axe,
# which examines the page.
# Where there is no npm, or it cannot be had, their tests skip; to try again, remove the folder.
$(SERVERS)/installed: tests/agent_programs/servers/package-lock.json | $(STAMP)
$(TYPESCRIPT)/installed: client/typescript/package-lock.json | $(STAMP)
$(AXE)/installed: tests/e2e/axe/package-lock.json | $(STAMP)
$(CONTRACTS)/installed: tests/docs/contracts/package-lock.json | $(STAMP)
$(SERVERS)/installed $(TYPESCRIPT)/installed $(AXE)/installed $(CONTRACTS)/installed:
	@mkdir -p $(@D) && cp $(<D)/package*.json $(@D)
	@! command -v npm >/dev/null || (cd $(@D) && npm ci --silent --ignore-scripts --no-audit --no-fund --fetch-retries=0 --fetch-timeout=60000) \
		|| echo 'npm could not install $(@D); the tests that need it skip'
	@touch $@

run: install ## start everything and play the demo (ARGS=--exit ends after the show)
	$(BIN)/turnlog demo $(ARGS)

# Seven processes, however many cores there are: each has servers of its own, and half of a test's time
# is waiting for a process to start. One more costs a second of processor time and its servers. They are forks of one that has imported the tests (forked_workers).
# --dist loadfile: the tests of one file share what the file starts.
# --no-loadscope-reorder: the slow files come first in the alphabet, after the simulation (tests/conftest.py), and no process waits
# for one at the end.
test: install $(CONTRACTS)/installed ## run the whole suite (ARGS=tests/events for a part of it)
	$(BIN)/python -m pytest -n 7 --dist loadfile --no-loadscope-reorder $(ARGS)

# Which tests are slow is said by their mark, with the reason.
test-quick: install $(CONTRACTS)/installed ## the tests that take less than two seconds each
	$(BIN)/python -m pytest -n 7 --dist loadfile --no-loadscope-reorder -m 'not slow' $(ARGS)

test-long: install $(CONTRACTS)/installed ## what repeats a finding with more seeds and rounds (about an hour)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	FAULTS=all $(BIN)/python -m pytest -n 0 tests/faults tests/services/gateway tests/properties/test_bounded_json.py \
		tests/docs/test_recipes.py tests/docs/test_back_up_page.py tests/e2e/consumers tests/e2e/tenants
	FAULTS=all $(BIN)/python -m pytest -n 4 --timeout 1800 --hypothesis-profile explore tests/properties \
		tests/projections/store/test_hour_sums.py tests/projections/store/test_same_rows.py tests/projections/store/test_source_uses.py \
		tests/services/projector/test_rebuild.py tests/services/projector/test_unreleased_rows.py \
		tests/layered_prompts/test_session_invariants.py tests/layered_prompts/test_erased_turns.py

simulate: install ## the protocol under simulated time, seed by seed (SEEDS=10000)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

# Two at a time: each is one process for most of its time. What each says stays together.
check: install ## ruff, mypy, pyright, the import contracts, and that of consumers
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target check-pyright check-ruff check-mypy check-imports check-contracts

check-ruff:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-mypy:
	$(BIN)/mypy

check-pyright:
	$(BIN)/pyright

check-imports:
	$(BIN)/lint-imports

check-contracts:
	$(BIN)/python -m docs.gate.released_contracts

bench: install ## take every figure (ARGS=--long goes further; ARGS=turn takes one family)
	$(BIN)/python -m benchmarks $(ARGS)

faults: install ## every fault there is, at every point (about three quarters of an hour)
	FAULTS=all $(BIN)/python -m pytest -n 0 tests/faults $(ARGS)

suppose: install ## what if, over a thousand recorded sessions (about five minutes)
	SESSIONS=1000 $(BIN)/python -m pytest -n 0 --timeout 900 tests/services/what_if/test_over_http.py $(ARGS)

soak: install ## attack a service at random (ARGS='--minutes 60 --seed 7')
	$(BIN)/python -m tests.faults.soak $(ARGS)

docs: install ## write the generated references again
	@for program in $(basename $(notdir $(wildcard docs/generate/*.py))); do \
		$(BIN)/python -m docs.generate.$$program || exit 1; done

# --universal: one file for every platform. Neither file may name the registry it was resolved against.
COMPILE := $(BIN)/uv pip compile --quiet --python $(BIN)/python --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	$(MEMBERS:%=--no-emit-package turnlog-%)

pins: install ## resolve the requirements again (ARGS=--upgrade takes newer releases)
	$(COMPILE) $(ARGS) --group dev --output-file requirements.txt pyproject.toml
	$(COMPILE) --constraints requirements.txt --output-file requirements-run.txt pyproject.toml
	echo uv | $(COMPILE) --constraints requirements.txt --output-file requirements-uv.txt -

clean: ## remove .venv and what building and testing left
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
