#include <cstdint>
#include <cstring>

#include "cc/core/example_parser/scan.h"
#include "cc/core/example_parser/slice_state.h"
#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser::scalar {
namespace {

// In this order.
#include "cc/core/example_parser/levels/common.h"

#include "cc/core/example_parser/levels/scalar.h"

#include "cc/core/example_parser/levels/by_ends.h"

#include "cc/core/example_parser/scanner.h"

}  // namespace
}  // namespace tf_booster::example_parser::scalar

namespace tf_booster::example_parser {

const ScanFunctions kScalarScan = {scalar::ScanRecords, scalar::ScanFeatureLists, scalar::DecodeVarints};

}  // namespace tf_booster::example_parser
