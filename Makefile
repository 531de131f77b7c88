# Each target sets up `.venv` first, once, from requirements.lock: on a machine with Python 3.11 to
# 3.13, bash and coreutils, `make demo` or `make test` is all it takes. `make PYTHON=...` names a Python.
export PYTHON
PY := .venv/bin/python
TESTS ?=
WORKERS ?= auto
SECONDS ?= 60
PYTEST = $(PY) -m pytest -n $(WORKERS)
# What differs on a machine with nothing on it: programs that are found, Java, the home, an empty cache, the network.
SMOKE := README.md tests/unit/test_readme.py tests/unit/test_layout.py tests/unit/test_doctor.py tests/unit/test_java.py \
	tests/unit/test_jars.py tests/unit/test_command_line.py tests/unit/test_command_output.py \
	tests/unit/test_notebooks.py tests/unit/test_maintainer.py \
	tests/properties/test_discover.py::test_the_reported_set_is_that_of_the_definition \
	tests/state/test_stores.py tests/state/test_places.py tests/state/test_snapshots.py tests/security/test_places.py \
	tests/recovery/test_pipeline.py::test_a_run_leaves_tables_that_say_what_holds tests/dashboard/test_serving.py \
	tests/spark/test_session.py tests/spark/test_run_files.py tests/spark/test_run_processes.py \
	tests/kafka/test_round_trip.py

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kafka test test-deep test-long test-bounds smoke mutants check docs audit fuzz bench fresh lock clean

help:
	@echo 'make demo    a whole pipeline, start to end, within a minute'
	@echo 'make demo-kafka   the same through a real Kafka broker, which it starts and stops'
	@echo 'make test    all tests and doctests (TESTS="tests/unit -k name" for some, WORKERS=4 side by side)'
	@echo 'make test-deep   the tests that take long (test-long: histories of starts that are killed, a packed environment)'
	@echo '                 and the laws with every access of an array checked (test-bounds)'
	@echo 'make mutants     small defects in copies of the core, one by one: which do the tests find? (takes hours)'
	@echo 'make smoke   the tests that a machine may fail, in two minutes'
	@echo 'make check   style, types, layers, the lock against pyproject.toml, licences'
	@echo 'make docs    the documentation as a site, in build/docs/index.html'
	@echo 'make audit   known vulnerabilities of all dependencies (asks PyPI)'
	@echo 'make fuzz    every reader with inputs that nobody would write (SECONDS=60 each)'
	@echo 'make bench   the benchmarks (takes long)'
	@echo 'make fresh   demo and smoke in a clean clone, as on a fresh machine (WHAT="demo test": all tests)'
	@echo 'make setup   .venv only'
	@echo 'make lock    pins the dependencies anew (UPGRADE=1: at their latest)'
	@echo 'make clean   removes .venv and everything made from the sources'

setup:
	@command -v bash >/dev/null || { echo 'bash is missing: install it' >&2; exit 1; }
	@bash .ci/setup

demo: setup
	@.venv/bin/holdfast demo

demo-kafka: setup
	@.venv/bin/holdfast demo --kafka

# The archive of Java's classes is made once, beside the first tests. Where all tests are run, kernels whose sources
# changed are compiled before: else every worker would compile them.
test: setup
	@$(PY) -m tests.short_lives & $(if $(TESTS),,$(PY) -m holdfast.jobs.warming && )$(PYTEST) $(TESTS)

test-deep: test-long test-bounds

test-long: setup
	@$(PY) -m tests.short_lives & $(PYTEST) -m deep $(TESTS)

# Kernels are compiled once before: with an empty cache every worker would compile them.
smoke: setup
	@$(PY) -m holdfast.jobs.warming && $(PYTEST) $(SMOKE)

# Compiled with checks into a folder of its own: code without checks is neither used nor replaced.
test-bounds: export NUMBA_BOUNDSCHECK = 1
test-bounds: export NUMBA_CACHE_DIR = $(CURDIR)/build/checked-kernels
test-bounds: setup
	@$(PYTEST) tests/properties

mutants: setup
	@$(PY) -m tests.mutation --output build/mutants.jsonl

check: setup
	$(PY) -m ruff check --quiet .
	$(PY) -m ruff format --check --quiet .
	$(PY) -m mypy --strict -p holdfast -p tests -p benchmarks -p docs.site
	@.venv/bin/lint-imports --no-logo --no-cache
	@$(PY) .ci/lock.py check
	@$(PY) .ci/audit.py

docs: setup
	@$(PY) -m sphinx -c docs/site docs build/docs --quiet --fresh-env --write-all \
		--fail-on-warning --keep-going --doctree-dir build/doctrees
	@echo 'build/docs/index.html'

audit: setup
	@$(PY) .ci/audit.py vulnerabilities

fuzz: setup
	@$(PY) -m tests.fuzz --all --seconds $(SECONDS)

bench: setup
	@$(PY) -m benchmarks

fresh:
	@bash .ci/fresh $(WHAT)

lock: setup
	@$(PY) .ci/lock.py write $(if $(UPGRADE),--upgrade)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
