// A table that has no room on the card for most of its rows, under the contract suite, while rows swap places.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/changes.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

GPU_CONTRACT(RandomOperations, GpuTablesWithHostRows)
GPU_CONTRACT(RandomOperationsWithPolicies, GpuTablesWithHostRows)
GPU_CONTRACT(GrowsOneByOne, GpuTablesWithHostRows)
GPU_CONTRACT(ErasesAndInsertsForever, GpuTablesWithHostRows)
GPU_CONTRACT(LastOfDuplicatesWins, GpuTablesWithHostRows)
GPU_CONTRACT(ThreadsLeaveNoTrace, GpuTablesWithHostRows)
GPU_CONTRACT(HandlesAreNeverWrong, GpuTablesWithHostRows)
GPU_CONTRACT(AdmitsWithTheNthSighting, GpuTablesWithHostRows)
GPU_CONTRACT(CountsOfAnySize, GpuTablesWithHostRows)
GPU_CONTRACT(EvictsTheIdle, GpuTablesWithHostRows)
GPU_CONTRACT(EvictsDownToMaxRows, GpuTablesWithHostRows)
GPU_CONTRACT(EvictsAmongTies, GpuTablesWithHostRows)
GPU_CONTRACT(ExportsAndImports, GpuTablesWithHostRows)
GPU_CONTRACT(ImportIsAllOrNothing, GpuTablesWithHostRows)
GPU_CONTRACT(ExportsInPieces, GpuTablesWithHostRows)
GPU_CONTRACT(ChangesLeadFromPictureToPicture, GpuTablesWithHostRows)
GPU_CONTRACT(ChangesOfNothingAndOfAll, GpuTablesWithHostRows)
GPU_CONTRACT(ImportsInPieces, GpuTablesWithHostRows)
GPU_CONTRACT(AnImportThatEndsEarlyLeavesNothing, GpuTablesWithHostRows)
GPU_CONTRACT(FieldsLiveAsTheyWouldAlone, GpuTablesWithHostRows)
GPU_CONTRACT(StopsAtMaxRows, GpuTablesWithHostRows)
GPU_CONTRACT(ReadersSeeWholeRows, GpuTablesWithHostRows)
GPU_CONTRACT(NoUpdateIsLost, GpuTablesWithHostRows)

}  // namespace tf_booster::contract
