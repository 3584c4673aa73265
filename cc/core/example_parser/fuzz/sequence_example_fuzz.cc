// libFuzzer's entry: make fuzz. Inputs that found something are kept in sequence_example_corpus/, which corpus_test.cc
// replays.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cc/core/example_parser/fuzz/one_sequence.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string difference = tf_booster::example_parser::fuzz::RunOneSequence(data, size);
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
