#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cc/core/base/target.h"
#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/slice_state.h"
#include "cc/core/example_parser/wire.h"

TFB_BEGIN_TARGET("avx2,bmi,lzcnt,popcnt")
namespace tf_booster::example_parser::avx2_no_bmi2 {
namespace {

// In this order.
#include "cc/core/example_parser/levels/common.h"

#include "cc/core/example_parser/levels/narrow.h"

#include "cc/core/example_parser/levels/no_bmi2.h"

#include "cc/core/example_parser/levels/avx2.h"

#include "cc/core/example_parser/levels/by_ends.h"

#include "cc/core/example_parser/scanner.h"

}  // namespace
}  // namespace tf_booster::example_parser::avx2_no_bmi2
TFB_END_TARGET

namespace tf_booster::example_parser {

const ScanFunctions kAvx2NoBmi2Scan = {avx2_no_bmi2::ScanRecords, avx2_no_bmi2::ScanFeatureLists,
                                       avx2_no_bmi2::DecodeVarints};

}  // namespace tf_booster::example_parser
