// Compiles what stands between the two macros for an instruction set that the machine may lack. All headers come
// before: an inline function of theirs, compiled in between, could be the copy that the linker keeps for everyone.
#ifndef TF_BOOSTER_CC_CORE_BASE_TARGET_H_
#define TF_BOOSTER_CC_CORE_BASE_TARGET_H_

#define TFB_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define TFB_BEGIN_TARGET(features) \
  TFB_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define TFB_END_TARGET TFB_PRAGMA(clang attribute pop)
#else
#define TFB_BEGIN_TARGET(features) TFB_PRAGMA(GCC push_options) TFB_PRAGMA(GCC target(features))
#define TFB_END_TARGET TFB_PRAGMA(GCC pop_options)
#endif

#endif  // TF_BOOSTER_CC_CORE_BASE_TARGET_H_
