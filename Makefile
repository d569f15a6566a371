# Needs Python 3.9 to 3.13 with venv, g++ and make. Everything else comes from PyPI, into .venv.
#
#   make demo     train on real digits on the simulated IPU
#   make test     all tests (make test PYTEST_ARGS="tests/configs -k flags")
#   make native   build the native library again, after changes to native/; with SANITIZE=address,
#                 thread or undefined an instrumented one, beside it (see CONTRIBUTING.md)
#   make test-newest      all tests with the newest TensorFlow, on the newest Python at hand
#   make test-sanitized   tests of the native library under the three sanitizers
#   make test-killed      kill -9 at ten random points of trainings of each kind (KILLS=10 SEED=0)
#   make lint     check style, types and who imports whom; make format mends what it can
#   make map      every package and module, with its subject: make map PACKAGE=planner
#   make stress   replicas against one replica, many times; `make test` has a short form
#   make fuzz     generated programs, feeds, options, files: make fuzz N=20000 SEED=7
#   make nightly  what takes hours: test-sanitized, test-killed, stress, and fuzz with N=100000
#   make bench    all benchmarks
#   make wheel    dist/tensorflow_ipu-*.whl, which needs no compiler to install
#   make docs     the documentation site: build/site/index.html, which needs no network
#   make docs-links   the addresses of other sites that pages name, and which of them answer
#   make stubs    write stubs/packages/ anew, after changes to the tables of names or options
#   make matrix   builds, installs and tests a wheel for each TensorFlow and Python at hand, and puts a
#                 table into docs/versions.md (MATRIX_ROWS="2.18-py3.12 2.2*" MATRIX_ARGS=tests)
#   make clean    remove what was built, but not .venv
#
# TensorFlow is 2.15 for Python 3.9 to 3.11 and the newest that fits for others. For another one:
#
#   make test TENSORFLOW=2.18 PYTHON3=python3.12 VENV=build/tf2.18

# The first of these that is there and not too old or new.
PYTHON3 ?= $(shell for name in python3 python3.11 python3.12 python3.13 python3.10 python3.9; do \
	$$name -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 13))' 2> /dev/null \
	&& echo $$name && break; done)
TENSORFLOW ?=
VENV ?= .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check
JOBS ?= $(shell nproc)
PYTEST_ARGS ?=
# Cases of `make fuzz`; points of `make test-killed`; the seed that chooses both.
N ?= 10000
KILLS ?= 10
SEED ?= 0
SANITIZE ?=
# The package that `make map` prints; all without one.
PACKAGE ?=

# Files that decide what an installation is made of. Changed Python needs no new installation.
REQUIREMENTS := tensorflow_ipu/import_hook/versions/releases.py build_backend/requirements.py
INSTALLATION := setup.py pyproject.toml build_backend/tensorflow_ipu_build.py $(REQUIREMENTS)
CPP_SOURCES = $(shell find native -name '*.cc' -o -name '*.h' -o -name '*.hpp')

# Tests of what is in native/, above all of what runs on several threads.
SANITIZED_TESTS := tests/native tests/plugin tests/runtime tests/api/data tests/feeds \
	tests/end_to_end/whole_programs/test_numerics.py tests/ops/test_host_embeddings.py \
	tests/ops/test_nn_ops.py tests/ops/test_rnn_ops.py tests/ops/test_all_to_all_op.py \
	tests/ops/test_cross_replica_ops.py tests/ops/test_ctc_ops.py tests/ops/test_custom_ops.py \
	tests/ops/test_internal_ops.py tests/ops/test_reduce_scatter_op.py \
	tests/ops/test_replication_ops.py tests/serving/test_embedded_runtime.py \
	tests/frontends/poplar

# ThreadSanitizer keeps a signal back until the thread makes a call that it watches. A thread that
# waits in TensorFlow makes none.
NOT_WITH_thread := --ignore=tests/runtime/test_interpreter.py \
	--ignore=tests/runtime/test_end_of_process.py

.PHONY: demo wheel matrix test test-newest test-sanitized test-killed stress fuzz nightly native lint map format \
	bench docs docs-links stubs clean
# Installing and `native` build into the same folder. The compilers do run in parallel.
.NOTPARALLEL:

demo: $(VENV)/.with-examples native
	$(PYTHON) examples/digits.py --reports build/reports

# Bytecode is kept even where the environment says otherwise: hundreds of processes import the package,
# and each worker compiles all tests.
test: $(VENV)/.with-test $(VENV)/.with-docs native
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

stress: $(VENV)/.with-test native
	$(VENV)/bin/pytest tests/stress --large --stress-fits 20 --stress-iterations 5000 --stress-programs 200 $(PYTEST_ARGS)

fuzz: $(VENV)/.with-test native
	$(VENV)/bin/pytest -n $(JOBS) tests/fuzz --fuzz-cases $(N) --fuzz-seed $(SEED) $(PYTEST_ARGS)

test-sanitized: $(VENV)/.with-test
	status=0; for sanitizer in $(or $(SANITIZE),address thread undefined); do \
		$(MAKE) --no-print-directory native SANITIZE=$$sanitizer && \
		$(SANITIZED) $$sanitizer -m pytest -p no:xdist $(SANITIZED_TESTS) \
			$$([ $$sanitizer = thread ] && echo "$(NOT_WITH_thread)") || status=1; \
	done; exit $$status

test-killed: $(VENV)/.with-test native
	$(PYTHON) -m tests.support.programs.kills --points $(KILLS) --seed $(SEED)

# What takes too long for each change. With `make -k` one that fails does not stop the others.
nightly: N = 100000
nightly: test-sanitized test-killed stress fuzz

bench: $(VENV)/.with-examples native
	set -e; for benchmark in benchmarks/*.py; do $(PYTHON) $$benchmark; done

# The tag of the platform follows from what the library needs of glibc and libstdc++. TensorFlow's
# own libraries are those of the TensorFlow that is installed.
wheel: $(VENV)/.with-release native
	rm -rf build/wheel
	$(PIP) wheel --no-deps -w build/wheel .
	PATH=$(abspath $(VENV))/bin:$$PATH $(VENV)/bin/auditwheel repair \
		--exclude 'libtensorflow_*' -w dist build/wheel/*.whl

# The device and each front end in one process, in about a minute; `MATRIX_ARGS=tests` is all.
MATRIX_ROWS ?=
MATRIX_ARGS ?= -m "not process" tests/import_hook/versions tests/plugin tests/feeds tests/api/test_loops.py \
	tests/keras_layers/models/test_fit.py tests/frontends/popart/test_session.py \
	tests/frontends/popxl/test_session.py \
	tests/end_to_end/whole_programs/test_results_equal_tensorflow.py
matrix:
	$(PYTHON3) -m tests.matrix --rows '$(MATRIX_ROWS)' $(MATRIX_ARGS)

# An environment of its own, so that .venv stays as it is.
NEWEST = $(shell $(PYTHON3) -c "from tests.matrix.rows import newest; print(*newest())")
test-newest:
	set -- $(NEWEST); BUILD=$(abspath build/newest/native) $(MAKE) --no-print-directory test \
		TENSORFLOW=$$1 PYTHON3=$$2 VENV=build/newest/venv

# Before and after the package is installed: pip shows nothing of the minutes that compiling takes, so
# this compiles, and pip finds the objects made. Later, it renews the library where sources changed.
native: $(VENV)/.requirements
	$(MAKE) --no-print-directory -C native -j$(JOBS) PYTHON=$(abspath $(PYTHON)) \
		SANITIZE=$(SANITIZE) OUT=$$($(PACKAGES))/tensorflow-plugins
	$(MAKE) --no-print-directory -C native/poplar -j$(JOBS) PYTHON=$(abspath $(PYTHON)) \
		SANITIZE=$(SANITIZE) OUT=$$($(PACKAGES))/tensorflow_ipu_sdk

SANITIZED := $(PYTHON) native/sanitizers/run.py
# Prints the folder that has our folders of native libraries.
ifeq ($(SANITIZE),)
PACKAGES := $(PYTHON) -c "import sysconfig; print(sysconfig.get_path('platlib'))"
else
PACKAGES := $(SANITIZED) $(SANITIZE) --prepare
endif

lint: $(VENV)/.with-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache
	$(PYTHON) lint/house.py
	$(VENV)/bin/clang-format --dry-run -Werror $(CPP_SOURCES)

map:
	@$(PYTHON3) lint/map.py $(PACKAGE)

format: $(VENV)/.with-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CPP_SOURCES)

clean:
	rm -rf build dist *.egg-info

# TensorFlow comes first, so that the build of the package finds it and downloads no second one.
$(VENV)/.requirements: $(REQUIREMENTS)
	@test -x $(PYTHON) || test -n "$(PYTHON3)" || \
		{ echo "There is no Python 3.9 to 3.13 here. Install one, or name it: make PYTHON3=/path/python3.12"; exit 1; }
	test -x $(PYTHON) || { mkdir -p $(dir $(VENV)) && $(PYTHON3) -m venv $(VENV); }
	$(PYTHON) build_backend/requirements.py $(TENSORFLOW) > $@.txt
	$(PIP) install -r $@.txt
	touch $@

$(VENV)/.with-%: $(VENV)/.requirements $(INSTALLATION) | native
	$(PIP) install -e '.[$*]'
	touch $@

# A warning of Sphinx is an error. Pages of the API reference are written to docs/api/ first.
# What an interrupted build leaves has no index for the search, and would be taken for whole.
docs: $(VENV)/.with-docs native
	test -e build/site/searchindex.js || rm -rf build/doctrees
	$(VENV)/bin/sphinx-build -W --keep-going -q -j $(JOBS) -d build/doctrees docs build/site

docs-links: $(VENV)/.with-docs native
	$(VENV)/bin/sphinx-build -q -b linkcheck -d build/doctrees docs build/links
	cat build/links/output.txt

# What they know of names that no file stands for, and of options.
stubs: $(VENV)/.with-dev native
	$(PYTHON) stubs/make_stubs.py
