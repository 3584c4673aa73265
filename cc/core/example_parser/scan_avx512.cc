#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cc/core/base/target.h"
#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/slice_state.h"
#include "cc/core/example_parser/wire.h"

// gcc 12 takes the undefined vectors inside its own intrinsics for ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

TFB_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
namespace tf_booster::example_parser::avx512 {
namespace {

// In this order.
#include "cc/core/example_parser/levels/common.h"

#include "cc/core/example_parser/levels/avx512.h"

#include "cc/core/example_parser/scanner.h"

}  // namespace
}  // namespace tf_booster::example_parser::avx512
TFB_END_TARGET

namespace tf_booster::example_parser {

const ScanFunctions kAvx512Scan = {avx512::ScanRecords, avx512::ScanFeatureLists, avx512::DecodeVarints};

}  // namespace tf_booster::example_parser
