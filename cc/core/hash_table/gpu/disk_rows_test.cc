// A table that has no room for most of its rows, neither on the card nor in the host's memory, under the contract
// suite, while rows swap places.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/changes.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

GPU_CONTRACT(RandomOperations, GpuTablesOnDisk)
GPU_CONTRACT(RandomOperationsWithPolicies, GpuTablesOnDisk)
GPU_CONTRACT(GrowsOneByOne, GpuTablesOnDisk)
GPU_CONTRACT(ErasesAndInsertsForever, GpuTablesOnDisk)
GPU_CONTRACT(LastOfDuplicatesWins, GpuTablesOnDisk)
GPU_CONTRACT(ThreadsLeaveNoTrace, GpuTablesOnDisk)
GPU_CONTRACT(HandlesAreNeverWrong, GpuTablesOnDisk)
GPU_CONTRACT(AdmitsWithTheNthSighting, GpuTablesOnDisk)
GPU_CONTRACT(CountsOfAnySize, GpuTablesOnDisk)
GPU_CONTRACT(EvictsTheIdle, GpuTablesOnDisk)
GPU_CONTRACT(EvictsDownToMaxRows, GpuTablesOnDisk)
GPU_CONTRACT(EvictsAmongTies, GpuTablesOnDisk)
GPU_CONTRACT(ExportsAndImports, GpuTablesOnDisk)
GPU_CONTRACT(ImportIsAllOrNothing, GpuTablesOnDisk)
GPU_CONTRACT(ExportsInPieces, GpuTablesOnDisk)
GPU_CONTRACT(ChangesLeadFromPictureToPicture, GpuTablesOnDisk)
GPU_CONTRACT(ChangesOfNothingAndOfAll, GpuTablesOnDisk)
GPU_CONTRACT(ImportsInPieces, GpuTablesOnDisk)
GPU_CONTRACT(AnImportThatEndsEarlyLeavesNothing, GpuTablesOnDisk)
GPU_CONTRACT(FieldsLiveAsTheyWouldAlone, GpuTablesOnDisk)
GPU_CONTRACT(StopsAtMaxRows, GpuTablesOnDisk)
GPU_CONTRACT(ReadersSeeWholeRows, GpuTablesOnDisk)
GPU_CONTRACT(NoUpdateIsLost, GpuTablesOnDisk)

}  // namespace tf_booster::contract
