# Everything a person does here. Needs Python >= 3.11 with venv; all else comes from the lock.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
FUZZ   := $(notdir $(wildcard fuzz/corpus/*))
SOAK_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help venv serve test fuzz fuzz-coverage lint format types check bench bench-quick load soak golden docs lock clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

venv: $(READY) ## Create the virtual environment from the hashed lock

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

serve: venv ## Verify the artifacts and serve them on 127.0.0.1:8000
	$(BIN)/tokenizer-service serve

test: venv ## Run the tests (under five minutes on two cores)
	$(BIN)/python -m pytest -n auto

fuzz: venv ## Compare with the reference libraries on ten times as many random texts
	FUZZ_EXAMPLES=20000 $(BIN)/python -m pytest --timeout 3600 tests/property

fuzz-coverage: $(VENV)-fuzz/.ready ## Fuzz each harness, guided by coverage (FUZZ_SECONDS=600)
	status=0; for name in $(FUZZ); do \
	  echo "== $$name"; $(VENV)-fuzz/bin/python -m fuzz $$name || status=1; done; exit $$status

$(VENV)-fuzz/.ready: requirements/runtime.txt requirements/fuzz.txt
	$(PYTHON) -m venv $(VENV)-fuzz
	$(VENV)-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  -r requirements/runtime.txt -r requirements/fuzz.txt
	@touch $@

lint: venv ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: venv ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

types: venv ## Check types with mypy and (based)pyright
	$(BIN)/mypy
	$(BIN)/basedpyright

check: lint types test ## Everything that CI runs

bench: venv ## Measure the service beside what people run instead; write docs/performance.md
	PYTHON=$(PYTHON) benchmarks/peers.sh
	$(BIN)/python benchmarks/run.py --write

bench-quick: venv ## The same in under two minutes: rough figures, printed
	$(BIN)/python benchmarks/run.py --quick

load: venv ## Load a local service for 30 seconds and check every answer
	$(BIN)/python loadtests/run.py

soak: venv ## Ten minutes of load, bad requests and killed workers (SOAK_SECONDS=600)
	$(BIN)/python loadtests/soak.py --seconds $(SOAK_SECONDS)

golden: venv ## Make the golden files anew with the reference libraries
	$(BIN)/python scripts/make_golden.py

docs: venv ## Write the generated tables of README.md
	$(BIN)/python scripts/readme.py

lock: ## Resolve requirements/*.in anew, with hashes and without index addresses
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet uv
	for name in runtime dev build fuzz; do $(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --python-version 3.11 \
	  $$([ $$name = dev ] && echo -c requirements/runtime.txt) \
	  $$([ $$name = build ] && echo -c requirements/dev.txt) \
	  $$([ $$name = fuzz ] && echo -c requirements/runtime.txt) \
	  requirements/$$name.in --output-file requirements/$$name.txt || exit 1; done
	rm -r $(VENV)-lock

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) $(VENV)-fuzz .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
