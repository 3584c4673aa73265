// The card's memory and what else kernels may reach. The host cannot use a pointer to the card's memory by mistake: it
// is marked, and no address of this machine.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_MEMORY_H_
#define TF_BOOSTER_CC_PTX_MACHINE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace tf_booster::ptx {

inline constexpr uint64_t kDeviceMark = uint64_t{8} << 56;

class Memory {
 public:
  // A card with so much memory.
  explicit Memory(uint64_t bytes) : limit_(bytes) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Filled with what nobody expects; null if it is too much.
  void* AllocateDevice(size_t bytes);
  // Both reach it: pinned, or managed.
  void* AllocateShared(size_t bytes);
  // False if `pointer` was not allocated here.
  bool Free(void* pointer);

  // Memory of the host program that kernels may use, such as a module's variables.
  void Lend(void* pointer, size_t bytes);

  // Where the bytes are for the host; null unless all of them are in one allocation.
  char* Find(uint64_t address, uint64_t bytes);

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_; }

 private:
  struct Piece {
    uint64_t bytes;
    char* host;
    bool own;
  };
  void* Allocate(size_t bytes, uint64_t mark);

  std::map<uint64_t, Piece> pieces_;  // By address.
  std::map<uint64_t, Piece>::iterator last_ = pieces_.end();
  uint64_t limit_, used_ = 0;
};

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_MEMORY_H_
