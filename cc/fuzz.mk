# Builds the fuzz targets cc/core/*/fuzz/*_fuzz.cc with clang's libFuzzer, under AddressSanitizer and
# UndefinedBehaviorSanitizer, and runs each for a while. Called by the Makefile, from the repository's root:
#
#   make fuzz                       20 seconds each: what .ci/run does
#   make fuzz FUZZ_SECONDS=36000    by hand
#
# An input that fails ends the run and is left in build/fuzz; once the fault is found it belongs into the corpus beside the
# target, which the C++ tests replay. So do new inputs in build/fuzz/found, after clang's -merge=1.
FUZZ_SECONDS ?= 20
FUZZ_CXX ?= $(shell for c in clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do \
  command -v $$c && break; done)
CCACHE := $(filter %ccache,$(firstword $(CXX)))
BUILD := build/fuzz
MAKEFLAGS += --no-builtin-rules

FUZZ_SOURCES := $(sort $(wildcard cc/core/*/fuzz/*_fuzz.cc))
TARGETS := $(FUZZ_SOURCES:%.cc=$(BUILD)/%)
FLAGS := -std=c++17 -O1 -g -mavx -ffp-contract=off -pthread -Wall -fsanitize=address,undefined -fno-sanitize-recover=all -I.

# What a target tests: its folder's parent, and base. No tests, no benchmarks.
tested = $(filter-out %_test.cc %_bench.cc,$(wildcard cc/core/base/*.cc $(dir $(1))../*.cc))
objects = $(patsubst %.cc,$(BUILD)/%.o,$(foreach path,$(call tested,$(1)),$(patsubst $(CURDIR)/%,%,$(abspath $(path)))))

.PHONY: fuzz
ifeq ($(FUZZ_CXX),)
fuzz:
	@echo "no clang++ here: the fuzz targets are not built"
else
fuzz: $(TARGETS)
	@for target in $(TARGETS); do \
	  found=$(BUILD)/found/$$(basename $$target); \
	  corpus=$${target#$(BUILD)/}; corpus=$${corpus%_fuzz}_corpus; \
	  test -d $$corpus || corpus=$${corpus%/*}/corpus; \
	  mkdir -p $$found; \
	  echo "$$target: $(FUZZ_SECONDS) seconds"; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -max_len=2048 -timeout=20 -verbosity=0 -print_final_stats=1 \
	    -artifact_prefix=$(BUILD)/ $$found $$corpus || exit 1; \
	done
endif

.SECONDARY:
.SECONDEXPANSION:
$(TARGETS): $(BUILD)/%: $(BUILD)/%.o $$(call objects,%.cc)
	@$(FUZZ_CXX) $(FLAGS) -fsanitize=fuzzer $^ -o $@
$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	@$(CCACHE) $(FUZZ_CXX) $(FLAGS) -MMD -MP -fsanitize=fuzzer-no-link -c $< -o $@

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
