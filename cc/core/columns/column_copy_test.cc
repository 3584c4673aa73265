#include "cc/core/columns/column_copy.h"

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"

namespace tf_booster {
namespace {

char Value(size_t part, int64_t place) { return static_cast<char>(part * 131 + place * 7 + place / 256); }

// Joins parts of these widths and splits them again; each byte is checked in between and after.
void Check(const std::vector<int64_t>& widths, int64_t rows) {
  std::vector<std::string> values, copies;
  int64_t row_bytes = 0;
  for (size_t p = 0; p < widths.size(); ++p) {
    row_bytes += widths[p];
    values.emplace_back(rows * widths[p], 0);
    for (int64_t i = 0; i < rows * widths[p]; ++i) values[p][i] = Value(p, i);
    copies.emplace_back(rows * widths[p] + 1, '!');
  }
  std::vector<Columns<const char>> parts;
  std::vector<Columns<char>> back;
  for (size_t p = 0; p < widths.size(); ++p) {
    parts.push_back({values[p].data(), widths[p]});
    back.push_back({copies[p].data(), widths[p]});
  }
  ThreadFor threads(3);
  std::string wide(rows * row_bytes + 1, '!');
  JoinColumns(parts, rows, wide.data(), threads);
  std::string want;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t p = 0; p < widths.size(); ++p) want += values[p].substr(row * widths[p], widths[p]);
  }
  EXPECT_TRUE(wide == want + "!");
  SplitColumns(wide.data(), rows, back, threads);
  for (size_t p = 0; p < widths.size(); ++p) EXPECT_TRUE(copies[p] == values[p] + "!");
}

TEST(EveryWidth) {
  std::vector<int64_t> widths;
  for (int64_t width = 0; width < 300; ++width) widths.push_back(width);
  for (const int64_t rows : {0, 1, 2, 37}) Check(widths, rows);
}

TEST(FewColumnsAndManyRows) {
  Check({32}, 5000);
  Check({0, 0}, 10);
  Check({4, 32, 64, 12, 128, 16}, 3001);
  Check({1 << 16, 8}, 5);
}

TEST(SomeColumnsOfSomeRows) {
  const std::string part = "aaaabbbbccccdddd";
  std::string wide(4 * 7, '.');
  PutColumns({part.data(), 4}, 1, 3, wide.data() + 2, 7);
  EXPECT_TRUE(wide == ".........bbbb...cccc........");
}

}  // namespace
}  // namespace tf_booster
