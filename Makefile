# SPDX-License-Identifier: Apache-2.0
# Every chore of the project. `make` lists them.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The tested PyTorch. It is installed first and alone, so that no other package chooses a build of it.
TORCH  ?= torch==2.13.0
# What ExecuTorch's own Cortex-M flow imports, in the version that executorch 1.5.1 asks for. It is installed without what it
# asks for itself: an older numpy and an older flatbuffers, of which the part that is used needs neither.
TOSA   ?= tosa-tools==2026.5.0
# PyTorch's own index has builds for CPUs alone; where it cannot be reached, pip's usual one has to do.
CPU_BUILDS  := https://download.pytorch.org/whl/cpu
TORCH_FLAGS ?= $(shell $(PYTHON) -c "from urllib.request import urlopen; urlopen('$(CPU_BUILDS)/torch/', timeout=5)" \
                 2>/dev/null && echo --extra-index-url $(CPU_BUILDS))
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup tools test-tools mutants demo test test-all test-near test-fast check format docs docs-site docs-serve bench example-digits golden size clean

help: ## list the chores
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(INSTALLED): pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH_FLAGS) $(TORCH)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps $(TOSA) || \
	    echo "$(TOSA) is not installed: tests that make programs with ExecuTorch's own flow are left out" >&2
	@touch $@

setup: $(INSTALLED) ## create .venv and install everything Python needs

tools: ## install the cross compiler and the emulator where they are missing (Debian, Ubuntu)
	@sh tools/install_system_tools.sh

test-tools:
	@sh tools/install_system_tools.sh --tests

demo: setup tools ## compile ds_cnn for the chip, run it on this computer and on an emulated board
	@$(BIN)/python tools/demo.py

test: setup test-tools ## the tests that must pass before a change goes in
	$(PYTEST)

test-all: setup test-tools ## the nightly tests too, and every row of every table
	$(PYTEST) --all

test-near: setup ## the tests of the parts that differ from BASE (default: main), and the changed tests
	$(BIN)/python tools/test_near.py $(BASE)

test-fast: setup ## what takes less than a minute
	$(PYTEST) -m "not slow and not qemu"

check: setup ## format, lint, types, generated docs
	$(BIN)/ruff format --check src tests tools benchmarks examples
	$(BIN)/ruff check src tests tools benchmarks examples
	$(BIN)/mypy
	$(BIN)/python tools/make_docs.py --check

format: setup ## put all Python into form
	$(BIN)/ruff format src tests tools benchmarks examples
	$(BIN)/ruff check --fix src tests tools benchmarks examples

docs: setup ## write the generated pages of docs/reference, and the files of examples/ into the tutorials
	$(BIN)/python tools/make_docs.py

docs-site: setup ## build the site of the docs into build/site, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html can be opened as it is; for the search: make docs-serve"

docs-serve: docs-site ## the same, shown at http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

mutants: setup test-tools ## plant random faults and see whether the tests of each part notice (an hour)
	nice -n 10 $(BIN)/python tools/mutants

bench: setup tools ## measure every model and write benchmarks/results.json
	$(BIN)/python benchmarks/bench.py

example-digits: setup tools ## train on real digits, quantize both ways, compile, compare (two minutes)
	$(BIN)/python examples/digits/digits.py

golden: setup ## renew the recorded texts that tests compare with
	$(BIN)/python -m pytest -q tests --update-golden

size: setup ## lines of code by part, and what is too long
	@$(BIN)/python tools/size.py

clean: ## remove what was built
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
