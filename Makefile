# `make demo` shows the whole pipeline; `make test` tests it. Both create and use .venv.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP_ARGS ?=
# three files of tests at a time, the longest first (tests/conftest.py): a test keeps one core busy, or waits
# (four in `test-rest`, where some wait for jobs and nodes; together they keep two cores busy, in some 12 GB of memory)
PYTEST := -q --dist loadfile --no-loadscope-reorder -n 3

.PHONY: help setup demo test test-slow test-candidates test-cluster test-rest cluster-setup lint gpu-check gpu-wheels clean
GPU_NEEDS := apache-tvm-ffi landlock pyseccomp diskcache psutil pydantic rich google-re2

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup: $(VENV)/.installed ## create .venv and install kernelrl with what its tests need

$(VENV)/.installed: pyproject.toml constraints-cpu.txt
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer with venv is needed: apt-get install python3 python3-venv"; exit 2; }
	@echo "creating $(VENV) (some minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --constraint constraints-cpu.txt $(PIP_ARGS) --editable '.[dev]'
	@touch $@
	@echo "kernelrl is in $(BIN): try $(BIN)/kernelrl doctor"

demo: setup ## train a small model on this CPU, from nothing to a report (a quarter of an hour on two cores)
	@$(BIN)/kernelrl pipeline recipe=demo

test: setup ## the test suite, without what takes long: minutes
	$(BIN)/pytest $(PYTEST) -m "not slow and not exhaustive and not gpu and not cluster"

test-slow: setup ## the tests that take long, and a further tenth of the candidates
	$(BIN)/pytest $(PYTEST) -m "slow and not gpu and not cluster"

test-candidates: setup ## every candidate file of the executor's tests (half an hour on two cores)
	$(BIN)/pytest $(PYTEST) tests/test_executor.py -k "exploit or honest"

test-cluster: cluster-setup ## the same on a real Slurm and a real Ray, here (needs root, slurm-wlm, munge, iproute2)
	$(BIN)/pytest $(PYTEST) -n 2 -m cluster

test-rest: cluster-setup ## test-slow and test-cluster at once, which takes little longer than either
	$(BIN)/pytest $(PYTEST) -n 4 -m "(slow or cluster) and not gpu"

cluster-setup: setup
	@$(BIN)/pip install --quiet --constraint constraints-cpu.txt $(PIP_ARGS) --editable '.[dev,slurm,ray,gpu]'

lint: setup ## ruff, mypy and the layers of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports

gpu-check: ## try the executor on this machine's GPU, in the environment of `python3` (exit 3: there is none)
	@python3 -c 'import tvm_ffi, landlock, diskcache, psutil, pydantic, rich, re2' 2>/dev/null \
		|| python3 -m pip install --quiet --no-index --find-links .gpu-wheels $(GPU_NEEDS)
	@PYTHONPATH=src python3 benchmarks/gpu_check.py $(if $(AGAIN),--again)

gpu-wheels: ## fetch into .gpu-wheels what gpu-check needs beside torch and triton, for a machine without a network
	python3 -m pip download --quiet --dest .gpu-wheels --only-binary :all: --python-version 3.12 $(GPU_NEEDS)

clean: ## remove .venv and what the tools left; outputs/ stays
	rm -rf $(VENV) .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist build
