// What the whole process says about parsing: whether TensorFlow's parse ops are served by our parser, and with which
// instructions. Python sets both through the C functions below, by ctypes: no op, so no graph holds a trace of them.
#ifndef TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSER_SWITCH_H_
#define TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSER_SWITCH_H_

#include "cc/core/base/cpu_features.h"

namespace tf_booster {

// Off until tf_booster is enabled. Kernels ask at each step: TensorFlow keeps kernels of eager ops, sessions and
// datasets for as long as it likes, and a kernel that was made while the switch was on must be TensorFlow's own again
// when it is off.
bool FastParserEnabled();

// The level for parsers that are made from now on: the machine's best, unless a test forced another.
SimdLevel ParserSimdLevel();

}  // namespace tf_booster

extern "C" {
void tf_booster_set_fast_parser(int enabled);
int tf_booster_fast_parser();
// "scalar", "sse4.1", "avx2", "avx512", or "" for the best. 0: done; 1: no such level, or not on this machine.
int tf_booster_force_parser_simd(const char* level);
}

#endif  // TF_BOOSTER_CC_TF_EXAMPLE_PARSING_PARSER_SWITCH_H_
