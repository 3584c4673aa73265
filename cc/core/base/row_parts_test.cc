#include "cc/core/base/row_parts.h"

#include <algorithm>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

// As the Python code of tf.nn.embedding_lookup has it, with its "div" that has two divisors.
RowParts::Row ByTheBook(int64_t id, int64_t parts, int64_t rows, bool mod) {
  if (mod) return {id % parts, id / parts};
  const int64_t per_part = rows / parts, extras = rows % parts;
  const int64_t part = per_part == 0 ? id : std::max(id / (per_part + 1), (id - extras) / per_part);
  return {part, part < extras ? id % (per_part + 1) : (id - extras) % per_part};
}

TEST(EveryIdIsWhereTensorFlowPutsIt) {
  for (int64_t rows = 0; rows < 60; ++rows) {
    for (int64_t parts = 1; parts < 12; ++parts) {
      for (const bool mod : {false, true}) {
        const RowParts table = {parts, rows, mod};
        std::vector<int> seen(rows, 0);
        int64_t end = 0;
        for (int64_t p = 0; p < parts; ++p) {
          EXPECT_EQ(table.Begin(p), end);
          end += table.Size(p);
        }
        EXPECT_EQ(end, rows);
        for (int64_t id = 0; id < rows; ++id) {
          const RowParts::Row at = table.RowOf(id), want = ByTheBook(id, parts, rows, mod);
          EXPECT_EQ(at.part, want.part);
          EXPECT_EQ(at.row, want.row);
          EXPECT_TRUE(at.row < table.Size(at.part));
          const int64_t place = table.PlaceOf(id);
          EXPECT_EQ(place, table.Begin(at.part) + at.row);
          const RowParts::Row again = table.RowAt(place);
          EXPECT_TRUE(again.part == at.part && again.row == at.row);
          ++seen[place];
        }
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
      }
    }
  }
}

}  // namespace
}  // namespace tf_booster
