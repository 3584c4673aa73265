# Builds the native library and the C++ tests. Called by the Makefile and by setup.py, from the repository's root:
#
#   make -f cc/native.mk lib                  tf_booster/libtf_booster_ops.so
#   make -f cc/native.mk test                 builds and runs every cc/**/*_test.cc
#   make -f cc/native.mk test SANITIZE=thread the same for cc/core, under a sanitizer
#
# Sources are found by globs: a new file needs no line here. With -k, a source that does not compile leaves its last good
# object in place, the library is linked from what there is, and make fails at the end.
PYTHON ?= python3
BUILD ?= build/native$(if $(SANITIZE),-$(SANITIZE))
LIB ?= tf_booster/libtf_booster_ops.so
CXX ?= g++
ifeq ($(origin CXX),default)
CXX := g++
endif

.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

find = $(sort $(shell find $(1) -name '$(2)' -not -path '*/fuzz/*' 2>/dev/null))
NOT_LIB := %_test.cc %_bench.cc
CORE_SOURCES := $(filter-out $(NOT_LIB),$(call find,cc/core,*.cc))
TF_SOURCES := $(filter-out $(NOT_LIB),$(call find,cc/tf,*.cc))
ALL_CUDA := $(call find,cc,*.cu)
CUDA_SOURCES := $(filter-out %_test.cu %_bench.cu,$(ALL_CUDA))
PTX_MACHINE_SOURCES := $(filter-out %_test.cc,$(call find,cc/ptx_machine,*.cc))
PTX_RUNTIME_SOURCES := $(call find,cc/ptx_machine/cuda,*.cc)
TEST_SOURCES := $(call find,$(if $(SANITIZE),cc/core,cc),*_test.cc)
ifeq ($(SANITIZE),thread)
TEST_SOURCES := $(shell grep -liE 'thread|parallel' $(TEST_SOURCES))  # The others have one thread.
endif
BENCH_SOURCES := $(call find,cc/core,*_bench.cc)

# TensorFlow: asked once, kept in a file. A sanitizer build is of cc/core only and needs none; nor do the CUDA tests
# (NO_TENSORFLOW=1, with a BUILD of its own).
ifeq ($(SANITIZE)$(NO_TENSORFLOW),)
ifneq ($(filter-out clean,$(or $(MAKECMDGOALS),lib)),)
TF_ERROR := $(shell $(PYTHON) cc/tf/find_tensorflow.py $(BUILD)/tensorflow.mk 2>&1 || echo failed)
ifneq ($(TF_ERROR),)
$(error $(patsubst %failed,%,$(TF_ERROR)))
endif
include $(BUILD)/tensorflow.mk
endif
endif

# CXX="ccache g++" has nvcc's objects out of the compiler's cache, too.
CCACHE := $(filter %ccache,$(firstword $(CXX)))

# CUDA 12 or later makes both cards' code and PTX for later ones; without nvcc, or without CUDA sources, nothing changes.
NVCC ?= $(firstword $(wildcard $(addsuffix /bin/nvcc,$(CUDA_HOME) /usr/local/cuda)) $(shell command -v nvcc 2>/dev/null))
ifneq ($(ALL_CUDA),)
CUDA_VERSION := $(shell $(or $(NVCC),false) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
ifeq ($(shell test $(firstword $(subst ., ,$(CUDA_VERSION) 0)) -ge 12 && echo yes),yes)
CUDA_OBJECTS := $(CUDA_SOURCES:%=$(BUILD)/%.o)
ifneq ($(CUDA_OBJECTS),)
CUDA_LDFLAGS := -L$(abspath $(dir $(realpath $(NVCC)))/../lib64) -L/usr/local/cuda/lib64 -lcudart_static -ldl -lrt -lpthread
CUDA_DEFINES := -DTF_BOOSTER_CUDA=1
endif
endif
endif
CUDA_TARGETS ?= -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90]
NVCCFLAGS := -std=c++17 -O3 -Xcompiler=-fPIC,-mavx,-ffp-contract=off,-fno-math-errno --fmad=false --expt-relaxed-constexpr $(CUDA_TARGETS)

# -mavx, which TensorFlow's wheels need too. No contraction to fused multiply-add: updates must equal TensorFlow's own within
# 4 ulp and themselves on every compiler. -g1: a sanitizer tells lines, and compiles a third faster than with -g. -DNDEBUG as TensorFlow was built. -fno-semantic-interposition lets gcc inline across functions in spite of -fPIC.
OPTIMIZE ?= -O3 -DNDEBUG
CXXFLAGS := -std=c++17 $(OPTIMIZE) -mavx -ffp-contract=off -fno-math-errno -fPIC -fno-semantic-interposition -pthread -Wall \
  $(if $(SANITIZE),-g1 -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all)  $(or $(TF_DEFINES),-D_GLIBCXX_USE_CXX11_ABI=1)
TF_CXXFLAGS := $(addprefix -isystem ,$(TF_INCLUDES)) -Wno-sign-compare -Wno-deprecated-declarations

CORE_OBJECTS := $(CORE_SOURCES:%=$(BUILD)/%.o)
TF_OBJECTS := $(TF_SOURCES:%=$(BUILD)/%.o)
# For tests: of an archive a program has only what it uses, and stays the same when other sources change.
CORE_ARCHIVE := $(BUILD)/core.a
OBJECTS := $(CORE_OBJECTS) $(TF_OBJECTS) $(CUDA_OBJECTS) $(BUILD)/build_info.o
# Kernels that start CUDA code. All other sources are compiled alike with nvcc and without.
GPU_KERNEL_OBJECTS := $(filter %_gpu_ops.cc.o,$(TF_OBJECTS))
PRECOMPILED := $(BUILD)/precompiled.h
TESTS := $(TEST_SOURCES:%.cc=$(BUILD)/%)
CUDA_TESTS := $(patsubst %.cu,$(BUILD)/%_cuda,$(filter %_test.cu,$(ALL_CUDA)))
CUDA_BENCHES := $(patsubst %.cu,$(BUILD)/%_cuda,$(filter %_bench.cu,$(ALL_CUDA)))
BENCHES := $(BENCH_SOURCES:%.cc=$(BUILD)/%)
# The CUDA tests without a card: their PTX, run by cc/ptx_machine.
PTX_OBJECTS := $(CUDA_SOURCES:%=$(BUILD)/ptx/%.o)
PTX_ARCHIVE := $(BUILD)/ptx/kernels.a
PTX_TESTS := $(patsubst %.cu,$(BUILD)/ptx/%,$(filter %_test.cu,$(ALL_CUDA)))
PTX_BENCHES := $(patsubst %.cu,$(BUILD)/ptx/%,$(filter %_bench.cu,$(ALL_CUDA)))
PTX_MACHINE_OBJECTS := $(PTX_MACHINE_SOURCES:%=$(BUILD)/%.o)
PTX_RUNTIME_OBJECTS := $(PTX_RUNTIME_SOURCES:%=$(BUILD)/%.o)
# A GPU of the PTX machine for TensorFlow (cc/ptx_card), and the library with the PTX of its kernels.
CARD := $(BUILD)/card
CARD_SOURCES := $(filter-out $(NOT_LIB),$(call find,cc/ptx_card,*.cc))
CARD_OBJECTS := $(CARD_SOURCES:%=$(BUILD)/%.o)
KEEP_GOING := $(findstring k,$(firstword -$(MAKEFLAGS)))

.PHONY: lib tests test benches cuda cuda-programs test-cuda ptx-programs ptx-benches test-ptx card force
lib: $(LIB)
	$(if $(KEEP_GOING),@test ! -s $(BUILD)/failed || { echo "not compiled:"; sort -u $(BUILD)/failed; exit 1; })
tests: $(TESTS)
benches: $(BENCHES)
cuda: $(CUDA_OBJECTS) $(CUDA_BENCHES:%_cuda=%.cu.o)
cuda-programs: $(CUDA_TESTS) $(CUDA_BENCHES)
test-cuda: $(CUDA_TESTS)
	@cc/run_tests.sh $^
ptx-programs: $(PTX_TESTS)
ptx-benches: $(PTX_BENCHES)
# PTX_SKIP: a pattern of programs that are left out.
test-ptx: $(filter-out $(PTX_SKIP),$(PTX_TESTS))
	@cc/run_tests.sh $^

card: $(CARD)/libtf_booster_ops.so

# Objects depend on what they were built with, the library on which objects there are.
kept = mkdir -p $(@D) && printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
$(BUILD)/flags: force
	@$(call kept,$(CXX) $(CXXFLAGS) $(TF_CXXFLAGS) $(TF_VERSION) $(CUDA_VERSION))
	@: > $(BUILD)/failed
$(BUILD)/objects: force
	@$(call kept,$(OBJECTS))

# $(1): the command without its output. The object appears whole or not at all.
compile = @mkdir -p $(@D); echo "$(notdir $(firstword $(1))) $<"; $(1) -c $< -o $@.new && mv -f $@.new $@ $(if $(KEEP_GOING),|| echo '  $<' >> $(BUILD)/failed)
$(CORE_OBJECTS): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CXX) $(CXXFLAGS) -I. -MMD -MP -MF $@.d -MT $@)
$(GPU_KERNEL_OBJECTS): private CXXFLAGS += $(CUDA_DEFINES)
$(TF_OBJECTS): private CXXFLAGS += -include $(PRECOMPILED)
$(TF_OBJECTS): $(PRECOMPILED).gch
$(TF_OBJECTS): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CXX) $(CXXFLAGS) $(TF_CXXFLAGS) -I. -MMD -MP -MF $@.d -MT $@)
$(PRECOMPILED).gch: cc/tf/precompiled.h $(BUILD)/flags
	@mkdir -p $(@D) && cp $< $(PRECOMPILED) && echo "$(CXX) $<"
	@$(CXX) $(CXXFLAGS) $(TF_CXXFLAGS) -x c++-header $(PRECOMPILED) -o $@
$(ALL_CUDA:%=$(BUILD)/%.o): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CCACHE) $(NVCC) $(NVCCFLAGS) $(CUDA_DEFINES) -I. -MMD -MP -MF $@.d -MT $@)

$(CUDA_TESTS) $(CUDA_BENCHES): $(BUILD)/%_cuda: $(BUILD)/%.cu.o $(CUDA_OBJECTS) $(CORE_OBJECTS)
	@$(NVCC) $^ -o $@

# PTX for the oldest of the cards, in plain text. CUDA's runtime is cc/ptx_machine/cuda.
$(BUILD)/ptx/%.cu.o: private NVCCFLAGS := $(filter-out $(CUDA_TARGETS),$(NVCCFLAGS)) -gencode=arch=compute_80,code=compute_80 --no-compress
$(PTX_TESTS:%=%.cu.o) $(PTX_BENCHES:%=%.cu.o) $(PTX_OBJECTS): $(BUILD)/ptx/%.o: % $(BUILD)/flags
	$(call compile,$(CCACHE) $(NVCC) $(NVCCFLAGS) $(CUDA_DEFINES) -I. -MMD -MP -MF $@.d -MT $@)
$(PTX_RUNTIME_OBJECTS) $(CARD_OBJECTS): private CXXFLAGS += -isystem $(abspath $(dir $(realpath $(NVCC)))/../include)
$(PTX_MACHINE_OBJECTS): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CXX) $(CXXFLAGS) -I. -MMD -MP -MF $@.d -MT $@)
$(PTX_TESTS) $(PTX_BENCHES): %: %.cu.o $(PTX_ARCHIVE) $(CORE_ARCHIVE) $(PTX_MACHINE_OBJECTS)
	@$(CXX) $(CXXFLAGS) $(TEST_LINKER) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@
$(PTX_ARCHIVE): $(PTX_OBJECTS)
$(CORE_ARCHIVE): $(CORE_OBJECTS)
$(PTX_ARCHIVE) $(CORE_ARCHIVE):
	@rm -f $@ && ar rcsT $@ $^

$(CARD)/libptx_card.so: $(CARD_OBJECTS) $(PTX_MACHINE_OBJECTS)
	@mkdir -p $(@D) && $(CXX) -shared -pthread -o $@.new $^ $(TF_LDFLAGS) -Wl,-soname,$(@F),--no-undefined && mv -f $@.new $@
$(CARD)/libtf_booster_ops.so: $(filter-out $(CUDA_OBJECTS),$(OBJECTS)) $(PTX_OBJECTS) $(CARD)/libptx_card.so
	@$(CXX) -shared -pthread -o $@.new $^ $(TF_LDFLAGS) '-Wl,-rpath,$$ORIGIN,--as-needed,--no-undefined' && mv -f $@.new $@

# What the library was built for, as text inside it: tf_booster/_native.py reads it before it loads the library.
$(BUILD)/build_info.o: $(BUILD)/flags $(BUILD)/objects
	@printf 'extern "C" { extern const char tf_booster_build_info[]; const char tf_booster_build_info[] = "tf_booster_build_info:tensorflow=%s;cuda=%s;"; }\n' \
	  '$(TF_VERSION)' '$(if $(CUDA_OBJECTS),$(CUDA_VERSION))' > $(BUILD)/build_info.cc
	@$(CXX) -fPIC -c $(BUILD)/build_info.cc -o $@

# Replaced by rename, so that processes that have the old one loaded keep it.
$(LIB): $(OBJECTS) $(BUILD)/objects
	@echo "link $@"
	@$(CXX) -shared -pthread -o $@.new $(if $(KEEP_GOING),$$(ls $(OBJECTS) 2>/dev/null),$(OBJECTS)) $(CUDA_LDFLAGS) $(TF_LDFLAGS) \
	  -Wl,--as-needed -Wl,--no-undefined && mv -f $@.new $@

# Tests and benchmarks are compiled apart from being linked: a change in the library only links them again.
# gold takes a quarter of ld's time for a test of cc/tf (0.8 s of 3), half of it for one of cc/core.
TEST_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
PROGRAMS := $(TESTS) $(BENCHES)
CORE_PROGRAMS := $(filter $(BUILD)/cc/core/%,$(PROGRAMS))
TF_PROGRAMS := $(filter $(BUILD)/cc/tf/%,$(PROGRAMS))
PTX_MACHINE_TESTS := $(filter $(BUILD)/cc/ptx_machine/%,$(PROGRAMS))
.SECONDARY: $(PROGRAMS:=.cc.o)
$(CORE_PROGRAMS:=.cc.o) $(PTX_MACHINE_TESTS:=.cc.o): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CXX) $(CXXFLAGS) -I. -MMD -MP -MF $@.d -MT $@)
$(TF_PROGRAMS:=.cc.o) $(CARD_OBJECTS): $(BUILD)/%.o: % $(BUILD)/flags
	$(call compile,$(CXX) $(CXXFLAGS) $(TF_CXXFLAGS) -I. -MMD -MP -MF $@.d -MT $@)
# Tests of cc/core link cc/core alone, which proves that it needs no TensorFlow.
$(CORE_PROGRAMS): %: %.cc.o $(CORE_ARCHIVE)
	@$(CXX) $(CXXFLAGS) $(TEST_LINKER) $^ -o $@
$(PTX_MACHINE_TESTS): %: %.cc.o $(filter-out $(PTX_RUNTIME_OBJECTS),$(PTX_MACHINE_OBJECTS))
	@$(CXX) $(CXXFLAGS) $(TEST_LINKER) $^ -o $@
$(TF_PROGRAMS): %: %.cc.o $(OBJECTS)
	@$(CXX) $(CXXFLAGS) $(TEST_LINKER) $@.cc.o $(OBJECTS) $(CUDA_LDFLAGS) $(TF_LDFLAGS) -Wl,-rpath,$(TF_DIR) -o $@

test: $(TESTS)
	@cc/run_tests.sh $(TESTS)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
