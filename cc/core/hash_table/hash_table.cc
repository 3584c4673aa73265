#include "cc/core/hash_table/hash_table.h"

namespace tf_booster {

Status HashTable::Import(const std::vector<ContentsIn>& contents, ParallelFor& pf) {
  std::vector<ContentsSource> sources;
  for (const ContentsIn& in : contents) {
    const auto whole_and_end = [&in, given = false](ContentsIn* piece) mutable {
      if (!given) *piece = in;
      given = true;
      return Status();
    };
    sources.push_back({in.field, in.rows, in.pending, in.step, in.seed, whole_and_end});
  }
  return ImportPieces(sources, pf);
}

}  // namespace tf_booster
