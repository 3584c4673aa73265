#include "cc/core/hash_table/row_handle.h"

#include <limits>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

// By the parts of a handle, one after another.
uint32_t RowOf(RowHandle handle, uint32_t epoch, uint64_t end) {
  if (handle < 0 || handle >> 31 != int64_t{epoch}) return 0;
  const uint32_t row = static_cast<uint32_t>(handle & kMaxRow);
  return row >= kFirstRow && row < end ? row : 0;
}

TEST(OneComparisonTellsWhatThePartsSay) {
  const uint32_t epochs[] = {0, 1, 2, 77, 0x7fffffff, 0x80000000u, 0xfffffffeu, 0xffffffffu};
  const uint32_t rows[] = {0, 1, kFirstRow - 1, kFirstRow, kFirstRow + 1, 1000, kMaxRow - 1, kMaxRow};
  const uint64_t ends[] = {kFirstRow, kFirstRow + 1, 1000, 1001, kMaxRow, uint64_t{kMaxRow} + 1};
  for (const uint32_t epoch : epochs) {
    for (const uint64_t end : ends) {
      const FreshRows fresh_row(epoch, end);
      const auto check = [&](RowHandle handle) { EXPECT_EQ(fresh_row(handle), RowOf(handle, epoch, end)); };
      for (const uint32_t row : rows) {
        for (const uint32_t other : epochs) {
          const RowHandle handle = HandleOf(row, other);
          check(handle);
          check(static_cast<RowHandle>(static_cast<uint64_t>(handle) | uint64_t{1} << 63));
        }
      }
      check(kNoRow);
      check(std::numeric_limits<RowHandle>::min());
      check(std::numeric_limits<RowHandle>::max());
    }
  }
}

}  // namespace
}  // namespace tf_booster
