// Which rank a key lives on when several train together: a function of the key, the number of ranks and the mode alone,
// for every table, fused or not. So a checkpoint of any number of ranks restores at any other.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_PARTITION_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_PARTITION_H_

#include <cstdint>
#include <string_view>

#include "cc/core/base/host_device.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {

// kHash spreads any ids evenly. kMod is the id modulo the number of ranks, as users of other systems know it; it is
// uneven where ids have a common factor with that number.
enum class PartitionMode : int32_t { kHash = 0, kMod = 1 };

// The mode that the option `partition` names; false for a text that names none.
inline bool ParsePartition(std::string_view text, PartitionMode* mode) {
  if (text != "hash" && text != "mod") return false;
  *mode = text == "hash" ? PartitionMode::kHash : PartitionMode::kMod;
  return true;
}

// The rank, 0 to size - 1, of any int64. `size`, at least 1, is the number of ranks. A negative id under kMod has the
// rank of the positive one that differs by a multiple of size (floor modulo).
//
// The constant keeps the hash independent of the table's own (hash.h), which would leave a rank of a power of two
// only some of its buckets. 32 bits of it are divided: that is uneven by size / 2^32, and four times as fast as 64.
TFB_HOST_DEVICE int32_t OwnerOf(int64_t key, int32_t size, PartitionMode mode) {
  if (mode == PartitionMode::kHash) {
    const uint64_t hash = Mix64(static_cast<uint64_t>(key) + 0xD1342543DE82EF95ull);
    return static_cast<int32_t>(static_cast<uint32_t>(hash >> 32) % static_cast<uint32_t>(size));
  }
  const int64_t rest = key % size;
  return static_cast<int32_t>(rest < 0 ? rest + size : rest);
}

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_PARTITION_H_
