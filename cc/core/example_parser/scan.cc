#include "cc/core/example_parser/scan.h"

#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {

size_t CountVarints(const uint8_t* p, size_t size) {
  size_t count = 0, i = 0;
  for (; i + 8 <= size; i += 8) {
    count += static_cast<size_t>(__builtin_popcountll(~Load64(p + i) & 0x8080808080808080));
  }
  for (; i < size; ++i) count += p[i] < 0x80;
  return count;
}

}  // namespace tf_booster::example_parser
