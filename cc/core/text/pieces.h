// The pieces of a text between delimiters, as tf.strings.split and the older tf.compat.v1.string_split make them.
#ifndef TF_BOOSTER_CC_CORE_TEXT_PIECES_H_
#define TF_BOOSTER_CC_CORE_TEXT_PIECES_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace tf_booster {

enum class EmptyPieces { kKept, kKeptInTexts /* But an empty text has none. */, kSkipped };

struct Splitting {
  char delimiter = ' ';
  bool blanks = false;  // At spaces, tabs and line ends, any number of them, in place of the delimiter.
  EmptyPieces empty = EmptyPieces::kSkipped;
};

// Appends the first `most` pieces of `text`, which they lie in.
void SplitPieces(std::string_view text, const Splitting& how, size_t most, std::vector<std::string_view>* pieces);

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_TEXT_PIECES_H_
