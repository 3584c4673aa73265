// What every table refuses, whatever it runs on: the checks of options and arguments, and the words for it.
#ifndef TF_BOOSTER_CC_CORE_HASH_TABLE_ARGUMENT_CHECKS_H_
#define TF_BOOSTER_CC_CORE_HASH_TABLE_ARGUMENT_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/hash_table/hash_table.h"
#include "cc/core/hash_table/table_options.h"

namespace tf_booster {

inline uint32_t FieldOf(const KeyBatch& keys, int64_t i) {
  return keys.fields == nullptr ? keys.field : keys.fields[i];
}

// InvalidArgument, with the table's name.
Status CheckOptions(const TableOptions& options);
// That rows can go to a disk there; empty: they need not.
Status CheckDiskFolder(const TableOptions& options, const std::string& folder);
// That the keys' fields are fields of the table.
Status CheckFields(const TableOptions& options, const KeyBatch& keys);
// That each is a field of the table, and none occurs twice.
Status CheckDistinct(const TableOptions& options, const std::vector<uint32_t>& fields, const char* method);
// That every key's field steps. After CheckFields.
Status CheckStepping(const TableOptions& options, const UpdateBatch& batch);
// `sightings`, if not null, gets the sum of the counts, each up to CountPool::kPooled.
Status CheckCounts(const TableOptions& options, const UpdateBatch& batch, int64_t* sightings = nullptr);
// The next piece of a field of the table, which gets `source`'s field and step: sizes, and numbers that must not be
// negative.
Status NextPiece(const TableOptions& options, const ContentsSource& source, ContentsIn* piece);

// The errors that take a look at the keys.
Status LimitReached(const TableOptions& options, const FieldOptions& field, int64_t rows, int64_t new_rows);
Status OccursTwice(const TableOptions& options, int64_t key);

// Where a new table's epochs start: apart for each table, so that a handle of one does not pass for one of another.
uint32_t FirstEpoch();

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_HASH_TABLE_ARGUMENT_CHECKS_H_
