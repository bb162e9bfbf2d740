# One list of commands, shared by people and CI. Every target sets up .venv first, if that is due.
PYTHON_IN_VENV := .venv/bin/python
BENCH_ARGS ?=
N ?= 100
SEED ?= 7
DEMO_OUTPUT ?= .tidemark/demo
DEMO_ARGS ?= --parallelism 2

.DEFAULT_GOAL := help
.PHONY: help setup run frontend demo test test-slow chaos e2e lint fmt bench

# what the page is built from: everything in frontend/ but what tools put there
FRONTEND_SOURCES := $(shell find frontend \( -name node_modules -o -name dist -o -name .vite \) -prune \
	-o -type f ! -name '*.tsbuildinfo' -print 2>/dev/null)

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-10s %s\n' "$$name" "$$text"; done

.venv/.setup-done: requirements.txt requirements-dev.txt scripts/setup.sh
	@scripts/setup.sh

setup: .venv/.setup-done ## Make .venv with the pinned packages; check for Java
	@# a venv lives where it was made: a tree that was moved or copied with it is set up anew
	@$(PYTHON_IN_VENV) -c 'import runtime' >/dev/null 2>&1 || scripts/setup.sh

run: setup frontend ## Start a session cluster with its page and the flights demo; Ctrl-C ends it (TIDEMARK_PORT=8000)
	@exec $(PYTHON_IN_VENV) -m backend.supervisor

frontend: setup frontend/dist/index.html ## Build the page if its sources have changed

frontend/dist/index.html: $(FRONTEND_SOURCES) scripts/frontend.sh
	@scripts/frontend.sh

demo: setup ## Run the flights job on Spark with progress; print the worst hours of the year
	@$(PYTHON_IN_VENV) examples/flight_delays.py --output $(DEMO_OUTPUT) --progress $(DEMO_ARGS)
	@$(PYTHON_IN_VENV) examples/worst_hours.py $(DEMO_OUTPUT)

test: setup ## Run all tests but the slow ones and those with a browser
	@scripts/frontend.sh test
	$(PYTHON_IN_VENV) -m pytest -q -n 2 --dist loadfile -m "not slow and not e2e"

test-slow: setup ## Run the slow tests
	$(PYTHON_IN_VENV) -m pytest -q -m slow

chaos: setup ## A job on Spark under N random faults drawn from SEED (N=100 SEED=7); its last line is violations=0
	@$(PYTHON_IN_VENV) -m tests.chaos --faults $(N) --seed $(SEED)

e2e: setup frontend ## Run the journeys through the page, with headless Chromium on the whole stack
	$(PYTHON_IN_VENV) -m pytest -q -m e2e tests/e2e

lint: setup ## Check style, format, types and import contracts, of Python and of the page
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	@scripts/frontend.sh lint

fmt: setup ## Format the code and mend what can be mended
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench: setup ## Measure beside reference loops, 20 minutes (BENCH_ARGS="--quick", "ndjson --repeats 3", "--list", "--peers")
	$(PYTHON_IN_VENV) -m benchmarks $(BENCH_ARGS)
