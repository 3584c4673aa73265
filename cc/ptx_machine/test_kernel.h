// A kernel of a test, written by hand, and what it leaves in its data.
#ifndef TF_BOOSTER_CC_PTX_MACHINE_TEST_KERNEL_H_
#define TF_BOOSTER_CC_PTX_MACHINE_TEST_KERNEL_H_

#include <cstring>
#include <string>
#include <vector>

#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {

inline const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

// A kernel of one parameter, the address of its data.
inline std::string KernelText(const std::string& body) {
  return kHead + ".visible .entry kernel(\n .param .u64 data\n)\n.maxntid 256, 1, 1\n{\n" +
         ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .f64 "
         "%fd<9>;\n" +
         "ld.param.u64 %rd0, [data]; cvta.to.global.u64 %rd1, %rd0;\n" + body + "\nret;\n}\n";
}

// What the data are when the kernel has run, or the fault.
struct Outcome {
  std::vector<uint32_t> data;
  std::string fault;
};
// With a counter in lockstep.
inline Outcome Run(const std::string& text, const std::vector<uint32_t>& data, Size3 blocks, Size3 threads,
                   uint64_t seed = 1, Counter* counter = nullptr) {
  Outcome outcome;
  Memory memory(1 << 20);
  void* on_card = memory.AllocateDevice(data.size() * 4);
  const uint64_t address = reinterpret_cast<uint64_t>(on_card);
  char* host = memory.Find(address, data.size() * 4);
  std::memcpy(host, data.data(), data.size() * 4);
  try {
    Module module(text);
    std::vector<char> parameters(sizeof(address));
    std::memcpy(parameters.data(), &address, sizeof(address));
    Machine(&memory, seed, counter).Launch(*module.Find("kernel"), blocks, threads, 0, parameters);
  } catch (const Fault& fault) {
    outcome.fault = fault.what();
  }
  outcome.data.resize(data.size());
  std::memcpy(outcome.data.data(), host, data.size() * 4);
  return outcome;
}

}  // namespace tf_booster::ptx

#endif  // TF_BOOSTER_CC_PTX_MACHINE_TEST_KERNEL_H_
