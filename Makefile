# make demo, make test: everything, from a bare machine. make help lists the rest.
.DEFAULT_GOAL := help
PYTHON ?= $(firstword $(wildcard .venv/bin/python) python3)
JOBS ?= $(shell nproc)

# One build at a time: the lock is held for the whole of it.
NATIVE = +@mkdir -p build && flock build/.lock $(MAKE) --no-print-directory -f cc/native.mk PYTHON=$(PYTHON) \
  $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))

.PHONY: help lib test-cc
help:
	@sed -n 's/^## //p' Makefile

## make lib         the native library (incremental); -k goes on past sources that do not compile
lib:
	$(NATIVE) lib

## make test-cc     builds and runs the C++ tests
test-cc:
	$(NATIVE) test
