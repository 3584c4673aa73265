#include "cc/tf/kernels/listed_tables.h"

#include <algorithm>
#include <numeric>

#include "cc/tf/kernels/table_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {

tensorflow::Status ReadListedTables(tensorflow::OpKernelConstruction* ctx, std::vector<ListedTable>* tables) {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  std::vector<uint32_t> fields;
  int inputs = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr("checkpoint_names", &names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("sizes", &sizes));
  TF_RETURN_IF_ERROR(ReadFields(ctx, "fields", &fields));
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &inputs));
  const size_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const bool fits = static_cast<int>(sizes.size()) == inputs && sum == fields.size() && sum == names.size() &&
                    std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
  if (!fits) {
    return tensorflow::errors::InvalidArgument(ctx->def().op().substr(sizeof("TfBooster") - 1), ": of ", inputs,
                                               " tables there are ", sizes.size(), " sizes with the sum ", sum,
                                               ", and ", names.size(), " checkpoint_names and ", fields.size(),
                                               " fields; give each table its size, and each of its fields a name");
  }
  int64_t first = 0;
  for (const int64_t size : sizes) {
    const auto field = fields.begin() + first;
    const auto name = names.begin() + first;
    tables->push_back({{field, field + size}, {name, name + size}, first});
    first += size;
  }
  return tensorflow::OkStatus();
}

}  // namespace tf_booster
