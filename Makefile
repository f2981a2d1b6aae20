# Everything runs in the project's own virtual environment; only Python 3.11+, git and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

UV := uv==0.13.9

# Tests start hundreds of processes: without compiled modules, each start compiles them again.
unexport PYTHONDONTWRITEBYTECODE
LOCK := requirements/dev.txt

.PHONY: demo docs test lint style types imports collect serve bench shards crash chaos power mutants proofs busy jitter mutate extras image package lowest lock clean studio studio-check studio-test react18 typing browser times pictures

# The exact versions of the lock, on every machine; a file that differs from its hash is not installed.
$(READY): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wfcore needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement $(LOCK)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python examples/release_notes/demo.py

serve: $(READY)
	@$(BIN)/wfcore serve

# The documentation as a site in `.site/html`; a warning is an error.
docs: $(READY)
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d .site/doctrees docs .site/html
	@echo "open .site/html/index.html"

lint: style types imports

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# Imports all tests as `make test` does: with new files this takes half a minute, which each of its processes saves.
collect: $(READY)
	@MEASURE=.coverage $(BIN)/pytest --collect-only -qqq > $(VENV)/collected.txt || (cat $(VENV)/collected.txt && false)

# All tests, two processes a core as many tests wait: each takes the next file when it has run one, so that what the tests
# of a file share is set up once. Then the branch coverage of each package: it fails below the floors of
# tests/coverage_floors.py.
test: browser
	@$(MAKE) --no-print-directory --jobs=2 lint collect
	@rm -rf .coverage
	MEASURE=.coverage $(BIN)/pytest -n $$($(BIN)/python -c 'import os; print(2 * os.cpu_count())') --dist loadfile
	$(BIN)/python tests/coverage_floors.py

# With QUICK=1 it only tests that each row runs: the suite does so with some.
bench: $(READY)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

# The contracts of storage, journal and dispatcher over three PostgreSQL databases, of which `make test` has a part.
shards: $(READY)
	$(BIN)/pytest -n auto tests/contracts/postgres_shards.py

# Kills real processes at every point: STORE=postgres or aiosqlite, SECONDS=600 for as many as that allows. STORM=300 adds a storm: at
# random, processes are killed and suspended, clocks step, and the store is locked or restarted. With STORE=replica,
# STORE=async-replica or STORE=patroni (etcd and HAProxy too, of Debian) a storm has failovers of PostgreSQL. HISTORIES=60 checks that what two processes do at the same
# time to the same runs and workflows is linearizable. With NATS=3 a cluster of NATS dispatches the runs of a storm, whose
# servers are killed, suspended and cut off from each other, and get a slow disk (by strace, where it may trace); NATS=1
# is a single server. With TEMPORAL=1 a server of Temporal does.
STORE ?= sqlite
SECONDS ?= 0
STORM ?= 0
HISTORIES ?= 0
NATS ?= 0

crash: $(READY)
	$(BIN)/python tests/crash --store $(STORE) --seconds $(SECONDS) --storm $(STORM) \
		--histories $(HISTORIES) --nats $(NATS) $(if $(TEMPORAL),--temporal)

# A storm of CHAOS seconds: PostgreSQL with a replica that takes over again and again, 3 servers of NATS, 3 servers and 4
# workers of wfcore. DATABASE=patroni lets Patroni decide when the replica takes over. DATABASES=3 are the shards of three
# organizations, which are moved between them meanwhile.
CHAOS ?= 1800
DATABASE ?= replica
DATABASES ?= 1

chaos: $(READY)
	$(BIN)/python tests/crash --store $(DATABASE) --scenario none --storm $(CHAOS) --nats 3 --servers 3 --workers 4 \
		--databases $(DATABASES)

# Cuts the power at IMAGES moments of a recorded workload on a SQLite file, with `synchronous` FULL and NORMAL; minutes.
IMAGES ?= 10000

power: $(READY)
	$(BIN)/python tests/crash/disk/power_cuts.py --images $(IMAGES)

# Plants known faults one by one, and prints which of them the tests catch: ONLY="clock approval" for some of them.
ONLY ?=

mutants: $(READY)
	$(BIN)/python tests/mutants $(ONLY)

# All cases of the slow proofs, of which `make test` has a slice; minutes.
proofs: $(READY)
	EVERY_CASE=1 $(BIN)/pytest -n auto $$(grep -rl --include='test_*.py' 'from slices import' tests)

# Runs all tests RUNS times beside LOAD busy processes, and prints what failed in each: TESTS="tests/http" for some; hours.
RUNS ?= 10
LOAD ?= 16
TESTS ?=

busy: $(READY)
	$(BIN)/python tests/busy.py --runs $(RUNS) --load $(LOAD) $(TESTS)

# Runs the tests of the pages with timers and answers that come late, in another order for each of SEEDS: a race fails.
# TESTS="tests/unit/runtime" runs those, with stores that answer late.
SEEDS ?= 1 2 3

jitter: browser
	for seed in $(SEEDS); do JITTER=$$seed $(BIN)/pytest -n 2 --dist loadfile $(or $(TESTS),tests/studio) || exit; done

# Changes the rules of the domain one by one and prints which changes no test notices: MODULES="access graph"; minutes.
MODULES ?=

mutate: $(READY)
	$(BIN)/python tests/mutate $(MODULES)

# Installs the built wheel with each extra alone into an environment of its own, and uses it there; minutes.
extras: $(READY)
	$(BIN)/python tests/project/install_extras.py

# Does the steps of deploy/Dockerfile without a container engine, and serves what they made; a minute.
image: $(READY)
	$(BIN)/python tests/project/image_steps.py

# Builds what is published into dist/, checks it with twine, and tries both in empty environments. WFCORE_REPOSITORY is the
# address of the repository, for the URLs and the links of the README.
TWINE := twine==6.2.0

package: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/uv tool run --quiet --from $(TWINE) twine check --strict dist/*
	$(BIN)/python tests/project/install_extras.py core sdist

# The contracts, the domain and the command line with the lowest versions that pyproject.toml allows; minutes.
LOWEST := .venv-lowest

lowest: $(READY)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--requirement pyproject.toml --all-extras --group dev
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation-package wfcore --editable .
	$(LOWEST)/bin/python -m pytest -n auto tests/contracts tests/unit/domain tests/project/packages/test_extras.py tests/project/programs/test_cli.py

# The pages of `studio/`: built with the Node of a Python wheel; the output is committed, so nothing else needs Node.
STUDIO := .venv-studio
STUDIO_READY := $(STUDIO)/.ready
STUDIO_ENV := PATH="$(CURDIR)/$(STUDIO)/bin:$$PATH"

$(STUDIO_READY): requirements/studio.txt tests/studio/node.py | $(READY)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(STUDIO)
	@$(BIN)/uv pip install --quiet --python $(STUDIO)/bin/python --require-hashes --requirement requirements/studio.txt
	@$(STUDIO)/bin/python tests/studio/node.py
	@touch $@

studio/node_modules/.package-lock.json: $(STUDIO_READY) studio/package-lock.json
	cd studio && $(STUDIO_ENV) npm ci --no-fund --no-audit
	@touch $@

studio: studio/node_modules/.package-lock.json
	cd studio && $(STUDIO_ENV) npm run --silent build

# The page of a product that bundles its own React 18, for the tests: built with the tools of the studio, and committed.
react18: studio/node_modules/.package-lock.json
	cd tests/studio/react18 && $(STUDIO_ENV) npm ci && $(STUDIO_ENV) ../../../studio/node_modules/.bin/vite build --logLevel warn

# Builds anew and compares with the committed output, byte for byte.
studio-check: studio
	$(BIN)/python tests/studio/compare.py

studio-test: studio/node_modules/.package-lock.json browser
	cd studio && $(STUDIO_ENV) npm test
	$(BIN)/pytest tests/studio

# Measures the pages in a real browser, with bounds that depend on the machine; two minutes.
times: browser
	$(BIN)/pytest -s tests/studio/page_times.py

# The pictures of the pages in the documentation, from `wfcore dev`.
pictures: browser
	$(BIN)/python tests/studio/pictures.py

# Code of users under mypy and pyright, both strict, and the generated TypeScript client: compiled, and run on a server.
# `make test` runs these tests too, once the Node and the packages are there.
PYRIGHT := tests/typing/node_modules/.package-lock.json

$(PYRIGHT): tests/typing/package-lock.json $(STUDIO_READY)
	cd tests/typing && PATH="$(CURDIR)/$(STUDIO)/bin:$$PATH" npm ci --no-fund --no-audit
	@touch $@

typing: $(PYRIGHT) studio/node_modules/.package-lock.json
	$(BIN)/pytest tests/typing

# A Chromium for the tests: the one of the system, of Debian, or of an npm package.
browser: $(READY)
	@$(BIN)/python tests/studio/browser.py

# Renews the lock: the newest versions that pyproject.toml allows. `make lock UPGRADE=` keeps those that still fit.
UPGRADE := --upgrade

lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --quiet --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(UPGRADE) --output-file $(LOCK)

clean:
	rm -rf $(VENV) $(LOWEST) $(STUDIO) studio/node_modules tests/typing/node_modules .coverage .mypy_cache .ruff_cache .hypothesis .import_linter_cache .demo .site dist
