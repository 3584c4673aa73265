// Marks functions that host and device share. Formulas, hashes and initial values are written once, with this.
#ifndef TF_BOOSTER_CC_CORE_BASE_HOST_DEVICE_H_
#define TF_BOOSTER_CC_CORE_BASE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define TFB_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TFB_HOST_DEVICE inline
#endif

#endif  // TF_BOOSTER_CC_CORE_BASE_HOST_DEVICE_H_
