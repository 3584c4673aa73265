// The CPU table under the contract suite.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/changes.h"
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/policies.h"

namespace tf_booster::contract {

CONTRACT(RandomOperations, CpuTables)
CONTRACT(RandomOperationsWithPolicies, CpuTables)
CONTRACT(GrowsOneByOne, CpuTables)
CONTRACT(GrowsInOneBatch, CpuTables)
CONTRACT(ErasesAndInsertsForever, CpuTables)
CONTRACT(LastOfDuplicatesWins, CpuTables)
CONTRACT(ThreadsLeaveNoTrace, CpuTables)
CONTRACT(HandlesAreNeverWrong, CpuTables)
CONTRACT(GatherRefusesUnknownCodes, CpuTables)
CONTRACT(EmptyBatches, CpuTables)

CONTRACT(AdmitsWithTheNthSighting, CpuTables)
CONTRACT(CountsFarUp, CpuTables)
CONTRACT(CountsOfAnySize, CpuTables)
CONTRACT(EvictsTheIdle, CpuTables)
CONTRACT(EvictsDownToMaxRows, CpuTables)
CONTRACT(EvictsAmongTies, CpuTables)
CONTRACT(EvictsByStepsToCome, CpuTables)
CONTRACT(EvictionForgetsErasedRows, CpuTables)
CONTRACT(ExportsAndImports, CpuTables)
CONTRACT(ImportFillsInWhatIsMissing, CpuTables)
CONTRACT(ImportIsAllOrNothing, CpuTables)
CONTRACT(ExportsInPieces, CpuTables)
CONTRACT(ImportsInPieces, CpuTables)
CONTRACT(AnImportThatEndsEarlyLeavesNothing, CpuTables)
CONTRACT(ExportPassesErrorsOn, CpuTables)
CONTRACT(ChangesLeadFromPictureToPicture, CpuTables)
CONTRACT(ChangesOfNothingAndOfAll, CpuTables)
CONTRACT(ListsOfLeftKeysEndAndGrow, CpuTables)
CONTRACT(ChangesRefuseAndPassErrorsOn, CpuTables)

CONTRACT(FieldsLiveAsTheyWouldAlone, CpuTables)

}  // namespace tf_booster::contract
