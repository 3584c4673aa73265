// The card's table under the contract suite, its kernels' bodies run by the host.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/changes.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/gpu/contract_tables.h"

namespace tf_booster::contract {

GPU_CONTRACT(RandomOperations, GpuTables)
GPU_CONTRACT(RandomOperationsWithPolicies, GpuTables)
GPU_CONTRACT(GrowsOneByOne, GpuTables)
GPU_CONTRACT(GrowsInOneBatch, GpuTables)
GPU_CONTRACT(ErasesAndInsertsForever, GpuTables)
GPU_CONTRACT(LastOfDuplicatesWins, GpuTables)
GPU_CONTRACT(ThreadsLeaveNoTrace, GpuTables)
GPU_CONTRACT(HandlesAreNeverWrong, GpuTables)
GPU_CONTRACT(GatherRefusesUnknownCodes, GpuTables)
GPU_CONTRACT(EmptyBatches, GpuTables)

GPU_CONTRACT(AdmitsWithTheNthSighting, GpuTables)
GPU_CONTRACT(CountsFarUp, GpuTables)
GPU_CONTRACT(CountsOfAnySize, GpuTables)
GPU_CONTRACT(EvictsTheIdle, GpuTables)
GPU_CONTRACT(EvictsDownToMaxRows, GpuTables)
GPU_CONTRACT(EvictsAmongTies, GpuTables)
GPU_CONTRACT(EvictsByStepsToCome, GpuTables)
GPU_CONTRACT(EvictionForgetsErasedRows, GpuTables)
GPU_CONTRACT(ExportsAndImports, GpuTables)
GPU_CONTRACT(ImportFillsInWhatIsMissing, GpuTables)
GPU_CONTRACT(ImportIsAllOrNothing, GpuTables)
GPU_CONTRACT(ExportsInPieces, GpuTables)
GPU_CONTRACT(ImportsInPieces, GpuTables)
GPU_CONTRACT(AnImportThatEndsEarlyLeavesNothing, GpuTables)
GPU_CONTRACT(ExportPassesErrorsOn, GpuTables)
GPU_CONTRACT(ChangesLeadFromPictureToPicture, GpuTables)
GPU_CONTRACT(ChangesOfNothingAndOfAll, GpuTables)
GPU_CONTRACT(ListsOfLeftKeysEndAndGrow, GpuTables)
GPU_CONTRACT(ChangesRefuseAndPassErrorsOn, GpuTables)

GPU_CONTRACT(FieldsLiveAsTheyWouldAlone, GpuTables)

GPU_CONTRACT(StopsAtMaxRows, GpuTables)
GPU_CONTRACT(StopsWhereMemoryEnds, ScarceGpuTables)
GPU_CONTRACT(StopsAtAnyAllocation, ScarceGpuTables)
GPU_CONTRACT(RefusesBadBatches, GpuTables)
GPU_CONTRACT(ImportOfAFieldStopsAtAnyAllocation, ScarceGpuTables)

GPU_CONTRACT(ReadersSeeWholeRows, GpuTables)
GPU_CONTRACT(NoUpdateIsLost, GpuTables)
GPU_CONTRACT(ReadersSeeAFieldChangeAtOnce, GpuTables)

}  // namespace tf_booster::contract
