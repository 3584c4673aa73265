// Which features to read from a tf.train.Example, and how. Made once, then immutable: any number of threads may share
// it.
#ifndef TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_PARSER_SPEC_H_
#define TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_PARSER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/example_parser/feature_index.h"

namespace tf_booster::example_parser {

enum class ValueType : uint8_t { kBytes = 1, kFloat = 2, kInt64 = 3 };  // The field numbers of tf.train.Feature.

enum class FeatureKind : uint8_t {
  kFixedDense,   // `elements` values in each record, or the default.
  kVarLenDense,  // Any multiple of `elements` values. Padding is left to the caller.
  kSparse,
  kRagged,
};

// A string inside somebody else's memory: the record's, or the spec's for a default.
struct BytesView {
  const char* data;
  size_t size;
  std::string_view view() const { return {data, size}; }
};

struct FeatureSpec {
  std::string name;
  ValueType type = ValueType::kInt64;
  FeatureKind kind = FeatureKind::kFixedDense;
  // kFixedDense: values per record, 0 or more. kVarLenDense: the stride, 1 or more; in kFeatureLists, the values of
  // each step. Otherwise ignored.
  size_t elements = 1;
  // kFixedDense: a record without this feature is an error. Otherwise the default stands in, `elements` values in the
  // vector of this feature's type. In kFeatureLists: a record without this list is not plain.
  bool required = true;
  std::vector<int64_t> default_int64;
  std::vector<float> default_float;
  std::vector<std::string> default_bytes;
};

// tf.io.parse_example and tf.io.parse_single_example differ in one case: a record that has a sparse or ragged feature
// twice, the last time with no kind set. In a batch that last entry wins, and the feature is empty; alone, it is passed
// over.
// The two maps of a tf.train.SequenceExample are parsed one after the other, each as a record (see sequence_example.h).
// TensorFlow reads odd ones by rules of their own; here only plain ones are read, any other is kNotPlain.
enum class Semantics : uint8_t {
  kBatch,
  kSingle,
  kContext,       // Of a SequenceExample. A dense feature with no kind set is not plain.
  kFeatureLists,  // Entries are FeatureLists: each step is a Feature. No kFixedDense features.
};

class ParserSpec {
 public:
  // Errors: InvalidArgument for two features of one name, a default of the wrong size, a stride of 0, a fixed length
  // among feature lists.
  static Status Make(std::vector<FeatureSpec> features, Semantics semantics, std::shared_ptr<const ParserSpec>* spec);

  const std::vector<FeatureSpec>& features() const { return features_; }
  Semantics semantics() const { return semantics_; }
  size_t size() const { return features_.size(); }

  const FeatureIndex& index() const { return index_; }

  // Views of features()[f].default_bytes.
  const BytesView* default_views(size_t f) const { return default_views_[f].data(); }

 private:
  ParserSpec() = default;

  std::vector<FeatureSpec> features_;
  Semantics semantics_ = Semantics::kBatch;
  std::vector<std::vector<BytesView>> default_views_;
  FeatureIndex index_;
};

}  // namespace tf_booster::example_parser

#endif  // TF_BOOSTER_CC_CORE_EXAMPLE_PARSER_PARSER_SPEC_H_
