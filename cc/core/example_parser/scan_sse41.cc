#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cc/core/base/target.h"
#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/slice_state.h"
#include "cc/core/example_parser/wire.h"

TFB_BEGIN_TARGET("sse4.1")
namespace tf_booster::example_parser::sse41 {
namespace {

// In this order.
#include "cc/core/example_parser/levels/common.h"

#include "cc/core/example_parser/levels/pairs.h"

#include "cc/core/example_parser/levels/narrow.h"

#include "cc/core/example_parser/levels/sse41.h"

#include "cc/core/example_parser/levels/by_ends.h"

#include "cc/core/example_parser/scanner.h"

}  // namespace
}  // namespace tf_booster::example_parser::sse41
TFB_END_TARGET

namespace tf_booster::example_parser {

const ScanFunctions kSse41Scan = {sse41::ScanRecords, sse41::ScanFeatureLists, sse41::DecodeVarints};

}  // namespace tf_booster::example_parser
