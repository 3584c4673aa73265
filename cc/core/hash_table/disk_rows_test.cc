// A table that has no memory for most of its rows, under the contract suite, while rows swap places.
#include "cc/core/hash_table/contract/basics.h"
#include "cc/core/hash_table/contract/changes.h"
#include "cc/core/hash_table/contract/cpu_tables.h"
#include "cc/core/hash_table/contract/fields.h"
#include "cc/core/hash_table/contract/new_keys.h"
#include "cc/core/hash_table/contract/policies.h"
#include "cc/core/hash_table/contract/threads.h"

namespace tf_booster::contract {

CONTRACT(RandomOperations, CpuTablesOnDisk)
CONTRACT(RandomOperationsWithPolicies, CpuTablesOnDisk)
CONTRACT(GrowsOneByOne, CpuTablesOnDisk)
CONTRACT(GrowsInOneBatch, CpuTablesOnDisk)
CONTRACT(ErasesAndInsertsForever, CpuTablesOnDisk)
CONTRACT(LastOfDuplicatesWins, CpuTablesOnDisk)
CONTRACT(ThreadsLeaveNoTrace, CpuTablesOnDisk)
CONTRACT(HandlesAreNeverWrong, CpuTablesOnDisk)
CONTRACT(AdmitsWithTheNthSighting, CpuTablesOnDisk)
CONTRACT(CountsOfAnySize, CpuTablesOnDisk)
CONTRACT(EvictsTheIdle, CpuTablesOnDisk)
CONTRACT(EvictsDownToMaxRows, CpuTablesOnDisk)
CONTRACT(EvictsAmongTies, CpuTablesOnDisk)
CONTRACT(ExportsAndImports, CpuTablesOnDisk)
CONTRACT(ImportIsAllOrNothing, CpuTablesOnDisk)
CONTRACT(ExportsInPieces, CpuTablesOnDisk)
CONTRACT(ChangesLeadFromPictureToPicture, CpuTablesOnDisk)
CONTRACT(ChangesOfNothingAndOfAll, CpuTablesOnDisk)
CONTRACT(ImportsInPieces, CpuTablesOnDisk)
CONTRACT(AnImportThatEndsEarlyLeavesNothing, CpuTablesOnDisk)
CONTRACT(FieldsLiveAsTheyWouldAlone, CpuTablesOnDisk)
CONTRACT(StopsAtMaxRows, CpuTablesOnDisk)
CONTRACT(FindOrInsertNumbersRowsInBatchOrder, CpuTablesOnDisk)
CONTRACT(TakesOutWhatDoesNotFit, CpuTablesOnDisk)
CONTRACT(ReadersSeeWholeRows, CpuTablesOnDisk)
CONTRACT(NoUpdateIsLost, CpuTablesOnDisk)

}  // namespace tf_booster::contract
