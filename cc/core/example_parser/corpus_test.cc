// Every input that the fuzzer was started with or found, at every level. Runs in the repository's root; under Bazel its
// data.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/fuzz/one_input.h"
#include "cc/core/example_parser/fuzz/one_sequence.h"

using tf_booster::example_parser::fuzz::RunOneInput;
using tf_booster::example_parser::fuzz::RunOneSequence;

namespace {

void Replay(const std::string& corpus, std::string (*run)(const uint8_t*, size_t)) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator("cc/core/example_parser/fuzz/" + corpus)) {
    paths.push_back(file.path());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_TRUE(paths.size() > 50);
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string difference = run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    if (!difference.empty()) std::printf("  %s\n", path.c_str());
    EXPECT_EQ(difference, "");
  }
}

}  // namespace

TEST(TheFuzzersCorpus) { Replay("corpus", RunOneInput); }

TEST(TheFuzzersCorpusOfSequences) { Replay("sequence_example_corpus", RunOneSequence); }
