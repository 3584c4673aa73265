# make demo, make test: everything, from a bare machine with Python 3.9 to 3.11, g++ and make. `make help` lists the rest.
.DEFAULT_GOAL := help
VENV := .venv/bin/python
# For `lib` and `test-cc` alone; any Python that has a TensorFlow serves.
PYTHON ?= $(firstword $(wildcard $(VENV)) python3)
JOBS ?= $(shell nproc)

# One build at a time; tests run without the lock.
NATIVE_MAKE = $(MAKE) --no-print-directory -f cc/native.mk PYTHON=$(PYTHON) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
NATIVE = +@mkdir -p build && flock build/.lock$(SANITIZE) $(NATIVE_MAKE)
IN_VENV = +@$(MAKE) --no-print-directory PYTHON=$(VENV)

.PHONY: help venv build lib test test-cc test-py test-asan test-tsan fuzz demo bench bench-cc cuda test-cuda card test-card gpu-estimates lint format clean
help:
	@sed -n 's/^## //p' Makefile

## make build       .venv with pinned TensorFlow, Horovod and this package; the native library; BASE_PYTHON=python3.10 chooses
build: venv
	$(IN_VENV) lib
venv:
	@mkdir -p build && flock build/.venv.lock tools/make_venv.sh

## make demo        trains a DeepFM plain and boosted, and writes demo/report.html
demo: build
	@$(VENV) examples/demo.py $(ARGS)

## make test        all tests, C++ and Python
test: build
	$(IN_VENV) test-cc
	$(IN_VENV) test-py

## make bench       all benchmarks, or BENCH=name; build/benchmarks.html has their charts
bench: build
	@$(VENV) -m benchmarks $(BENCH) $(ARGS)

## make lib         the native library alone (incremental); -k goes on past sources that do not compile
lib:
	$(NATIVE) lib

## make test-cc     builds and runs the C++ tests
test-cc:
	$(NATIVE) tests
	+@$(NATIVE_MAKE) test

## make bench-cc    builds the C++ benchmarks, build/native/cc/**/*_bench
## make cuda        compiles the CUDA sources; test-cuda: runs the CUDA tests, on a card; test-ptx: without one, slowly
## make gpu-estimates   what kernels would take on a card, by a model: build/gpu_estimates.md; needs nvcc, no card
bench-cc:
	$(NATIVE) benches
gpu-estimates:
	@$(PYTHON) tools/gpu_estimates.py $(ARGS)
cuda test-cuda test-ptx card:
	$(NATIVE) $@

## make card        a GPU for TensorFlow where there is none, for tools/with_ptx_card.sh COMMAND; needs nvcc. test-card: tests/gpu on it
test-card: card
	@tools/with_ptx_card.sh $(PYTHON) -m pytest -o addopts= -o python_files='*_card.py' -m gpu -n 2 $(or $(ARGS),tests/gpu)

## make test-py     runs the Python tests, all of them in parallel; ARGS="-k name" chooses
# xdist itself would leave files of few tests for the end, and they are the long ones; tests/conftest.py has an order. Of a process that
# dies it tells the test; with a new one in its place it would run that test again, and in this order wait for ever (3.8).
test-py:
	@$(PYTHON) -m pytest $(or $(ARGS),-n $(shell nproc | awk '{ print $$1 < 4 ? $$1 : 4 }') --dist loadfile --no-loadscope-reorder --max-worker-restart 0)

## make test-asan   C++ tests of cc/core under AddressSanitizer and UndefinedBehaviorSanitizer; test-tsan: ThreadSanitizer
test-asan: SANITIZE := address,undefined
test-asan:
	$(NATIVE) tests SANITIZE=$(SANITIZE) OPTIMIZE=-O1
	+@$(NATIVE_MAKE) test SANITIZE=$(SANITIZE) OPTIMIZE=-O1
test-tsan: SANITIZE := thread
test-tsan:
	$(NATIVE) tests SANITIZE=$(SANITIZE) OPTIMIZE=-O1
	+@$(NATIVE_MAKE) test SANITIZE=$(SANITIZE) OPTIMIZE=-O1

## make fuzz        fuzzes for FUZZ_SECONDS=20 a target, with clang
fuzz:
	+@mkdir -p build && flock build/.lockfuzz $(MAKE) --no-print-directory -f cc/fuzz.mk $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))

CC_FILES = $(shell find cc -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
## make lint        checks the format of C++ (clang-format) and Python (ruff), and Python's lint
lint:
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(dir $(PYTHON))clang-format --dry-run -Werror $(CC_FILES)

## make format      formats C++ and Python
format:
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .
	@$(dir $(PYTHON))clang-format -i $(CC_FILES)

clean:
	rm -rf build tf_booster/*.so demo
