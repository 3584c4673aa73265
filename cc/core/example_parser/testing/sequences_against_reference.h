// Parses SequenceExamples at every level that runs here, and compares all that comes out with the reference.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_SEQUENCES_AGAINST_REFERENCE_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_SEQUENCES_AGAINST_REFERENCE_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/example_parser/example_parser.h"
#include "cc/core/example_parser/reference/reference_sequences.h"
#include "cc/core/example_parser/sequence_example.h"
#include "cc/core/example_parser/testing/against_reference.h"

namespace tf_booster::example_parser::testing {

template <class T>
bool SameBits(const T* found, const std::vector<T>& wanted) {
  return wanted.empty() || std::memcmp(found, wanted.data(), wanted.size() * sizeof(T)) == 0;
}
inline bool SameBits(const BytesView* found, const std::vector<std::string>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (found[i].view() != wanted[i]) return false;
  }
  return true;
}

// Whether a feature's values from the `at`-th on are these, of its type; moves `at` behind them.
inline bool SameValues(const ParsedSlice& slice, const FeatureSpec& feature, size_t f, const reference::Values& wanted,
                       size_t* at) {
  const size_t from = *at;
  switch (feature.type) {
    case ValueType::kInt64:
      *at += wanted.int64s.size();
      return *at <= slice.int64s(f).size() && SameBits(slice.int64s(f).data() + from, wanted.int64s);
    case ValueType::kFloat:
      *at += wanted.floats.size();
      return *at <= slice.floats(f).size() && SameBits(slice.floats(f).data() + from, wanted.floats);
    default:
      *at += wanted.bytes.size();
      return *at <= slice.bytes(f).size() && SameBits(slice.bytes(f).data() + from, wanted.bytes);
  }
}

struct SequenceVerdict {
  bool plain = false;
  std::string difference;  // "" if none.
};

// Both parsers on a batch of records, against what the reference says of each.
inline SequenceVerdict CompareSequences(const ExampleParser& context_parser, const ExampleParser& list_parser,
                                        const std::vector<std::string>& serialized,
                                        const std::vector<reference::SequenceOutcome>& wanted,
                                        ParsedSlice* context_slice, ParsedSlice* list_slice) {
  const ParserSpec &context = context_parser.spec(), &lists = list_parser.spec();
  const size_t n = serialized.size();
  std::vector<ExactCopy> copies;
  std::vector<Record> contexts(n), list_records(n);
  for (const std::string& bytes : serialized) copies.emplace_back(bytes);
  for (size_t i = 0; i < n; ++i) {
    if (!SplitSequenceExample(copies[i].record(), &contexts[i], &list_records[i])) return {};
  }
  const FixedOutputs outputs(context, n);
  ParseError error;
  const bool plain = context_parser.Parse(contexts.data(), n, 0, outputs.pointers(), context_slice, &error) &&
                     list_parser.Parse(list_records.data(), n, 0, nullptr, list_slice, &error);
  if (!plain) return {false, error.kind == ParseErrorKind::kNotPlain ? "" : "an error of another kind"};

  SequenceVerdict verdict = {true, ""};
  for (size_t i = 0; i < n; ++i) {
    if (!wanted[i].accepted) return {true, "record " + std::to_string(i) + " should be refused"};
  }
  for (size_t f = 0; f < context.size(); ++f) {
    const FeatureSpec& feature = context.features()[f];
    const bool in_place = feature.kind == FeatureKind::kFixedDense && feature.type != ValueType::kBytes;
    if (!outputs.CanaryLives(f)) return {true, "written past the last row"};
    for (size_t i = 0, at = 0; i < n; ++i) {
      const reference::Values& values = wanted[i].context[f];
      const char* row = outputs.feature(f) + i * feature.elements * (feature.type == ValueType::kInt64 ? 8 : 4);
      const void* bits =
          feature.type == ValueType::kInt64 ? static_cast<const void*>(values.int64s.data()) : values.floats.data();
      const size_t bytes = feature.elements * (feature.type == ValueType::kInt64 ? 8 : 4);
      const bool same = in_place ? bytes == 0 || std::memcmp(row, bits, bytes) == 0
                                 : SameValues(*context_slice, feature, f, values, &at);
      if (!same) return {true, "context " + std::to_string(f) + " of record " + std::to_string(i)};
    }
  }
  for (size_t f = 0; f < lists.size(); ++f) {
    const FeatureSpec& feature = lists.features()[f];
    size_t at = 0, step = 0;
    for (size_t i = 0; i < n; ++i) {
      const std::string where = "list " + std::to_string(f) + " of record " + std::to_string(i);
      const std::vector<size_t>& steps = wanted[i].step_lengths[f];
      const size_t stride = feature.kind == FeatureKind::kVarLenDense ? feature.elements : 1;
      if (list_slice->lengths(f)[i] != steps.size() * stride) return {true, where + ": number of steps"};
      for (const size_t length : steps) {
        if (list_slice->step_lengths(f)[step++] != length) return {true, where + ": values of a step"};
      }
      if (!SameValues(*list_slice, feature, f, wanted[i].lists[f], &at)) return {true, where};
    }
    const size_t stored = feature.type == ValueType::kInt64   ? list_slice->int64s(f).size()
                          : feature.type == ValueType::kFloat ? list_slice->floats(f).size()
                                                              : list_slice->bytes(f).size();
    if (stored != at || list_slice->step_lengths(f).size() != step) return {true, "more is stored than there was"};
  }
  return verdict;
}

// The same at every level; all must find the same batches plain. Also whether hazards are seen where they are.
inline SequenceVerdict CompareSequenceLevels(const std::shared_ptr<const ParserSpec>& context,
                                             const std::shared_ptr<const ParserSpec>& lists,
                                             const std::vector<std::string>& serialized) {
  std::vector<reference::SequenceOutcome> wanted;
  for (size_t i = 0; i < serialized.size(); ++i) {
    wanted.push_back(reference::ParseSequence(*context, *lists, serialized[i]));
    const ExactCopy copy(serialized[i]);
    const SequenceHazard hazard = FindHazard(copy.record(), *context, *lists);
    if ((hazard.kind == SequenceHazard::Kind::kLongString) != wanted[i].long_string) {
      return {false, "record " + std::to_string(i) + ": hazard"};
    }
  }
  SequenceVerdict first;
  for (const SimdLevel level : RunnableSimdLevels()) {
    const ExampleParser context_parser(context, level), list_parser(lists, level);
    ParsedSlice context_slice, list_slice;
    // Twice: the second time the order of keys and the memory are those of the first.
    for (int time = 0; time < 2; ++time) {
      SequenceVerdict verdict =
          CompareSequences(context_parser, list_parser, serialized, wanted, &context_slice, &list_slice);
      if (level == RunnableSimdLevels().front() && time == 0) first = verdict;
      if (verdict.difference.empty() && verdict.plain != first.plain) verdict.difference = "plain or not";
      if (!verdict.difference.empty()) {
        verdict.difference = std::string(SimdLevelName(level)) + ": " + verdict.difference;
        return verdict;
      }
    }
  }
  return first;
}

}  // namespace tf_booster::example_parser::testing

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_TESTING_SEQUENCES_AGAINST_REFERENCE_H_
