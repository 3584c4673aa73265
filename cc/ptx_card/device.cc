// A GPU for TensorFlow that is none: its memory, copies and events are the PTX machine's, behind the calls of CUDA's
// runtime. TensorFlow takes it as a pluggable device of type GPU, so that kernels of this library for GPUs run under
// TensorFlow's placement, allocators, copies and executors where there is no card.
//
// No BFC allocator: each tensor is an allocation of its own, whose ends are checked, and what is freed is junk as soon
// as what was asked before is done. All streams are one, in the order of what is asked; a card's own could run apart.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/tf_status.h"

// What TensorFlow names and never looks into.
struct SP_Stream_st {};
struct SP_Event_st {
  cudaEvent_t event;
};
struct SP_Timer_st {};

namespace {

// TensorFlow asks the driver, whose answers are no errors of the runtime's: the next launch must not report them.
bool Fine(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

void Say(cudaError_t error, TF_Status* status) {
  const bool fine = Fine(error);
  TF_SetStatus(status, fine ? TF_OK : TF_INTERNAL, fine ? "" : cudaGetErrorString(error));
}

// --- Memory ---

void Allocate(const SP_Device*, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->ext = nullptr;
  memory->payload = 0;
  memory->size = size;
  if (!Fine(cudaMalloc(&memory->opaque, size))) memory->opaque = nullptr;
}
// After what was asked so far, as TensorFlow gives memory back while its last user still waits in the stream.
void Deallocate(const SP_Device*, SP_DeviceMemoryBase* memory) {
  if (memory->opaque != nullptr) cudaFreeAsync(memory->opaque, nullptr);
  memory->opaque = nullptr;
}
void* AllocateHost(const SP_Device*, uint64_t size) {
  void* memory = nullptr;
  return Fine(cudaMallocHost(&memory, size)) ? memory : nullptr;
}
void DeallocateHost(const SP_Device*, void* memory) { cudaFreeHost(memory); }
TF_Bool AllocatorStats(const SP_Device*, SP_AllocatorStats*) { return false; }
TF_Bool MemoryUsage(const SP_Device*, int64_t* free, int64_t* total) {
  size_t free_bytes = 0, total_bytes = 0;
  if (!Fine(cudaMemGetInfo(&free_bytes, &total_bytes))) return false;
  *free = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(total_bytes);
  return true;
}

// --- Streams and events ---

void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status* status) {
  *stream = new SP_Stream_st;
  Say(cudaSuccess, status);
}
void DestroyStream(const SP_Device*, SP_Stream stream) { delete stream; }
void StreamWaitsForStream(const SP_Device*, SP_Stream, SP_Stream, TF_Status* status) { Say(cudaSuccess, status); }
void StreamStatus(const SP_Device*, SP_Stream, TF_Status* status) { Say(cudaSuccess, status); }

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Say(cudaEventCreateWithFlags(&(*event)->event, cudaEventDisableTiming), status);
}
void DestroyEvent(const SP_Device*, SP_Event event) {
  cudaEventDestroy(event->event);
  delete event;
}
SE_EventStatus EventStatus(const SP_Device*, SP_Event event) {
  return Fine(cudaEventQuery(event->event)) ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}
void RecordEvent(const SP_Device*, SP_Stream, SP_Event event, TF_Status* status) {
  Say(cudaEventRecord(event->event, nullptr), status);
}
void StreamWaitsForEvent(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { Say(cudaSuccess, status); }
void WaitForEvent(const SP_Device*, SP_Event event, TF_Status* status) {
  Say(cudaEventSynchronize(event->event), status);
}
void WaitForStream(const SP_Device*, SP_Stream, TF_Status* status) { Say(cudaDeviceSynchronize(), status); }
void WaitForAll(const SP_Device*, TF_Status* status) { Say(cudaDeviceSynchronize(), status); }
TF_Bool CallHost(const SP_Device*, SP_Stream, SE_StatusCallbackFn callback, void* argument) {
  cudaDeviceSynchronize();
  TF_Status* status = TF_NewStatus();
  callback(argument, status);
  TF_DeleteStatus(status);
  return true;
}

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Say(cudaSuccess, status);
}
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void StartOrStopTimer(const SP_Device*, SP_Stream, SP_Timer, TF_Status* status) { Say(cudaSuccess, status); }
uint64_t Nanoseconds(SP_Timer) { return 1; }  // There is no time here.

// --- Copies ---

void CopyToHost(const SP_Device*, SP_Stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                TF_Status* status) {
  Say(cudaMemcpyAsync(to, from->opaque, size, cudaMemcpyDeviceToHost, nullptr), status);
}
void CopyToCard(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                TF_Status* status) {
  Say(cudaMemcpyAsync(to->opaque, from, size, cudaMemcpyHostToDevice, nullptr), status);
}
void CopyOnCard(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
                TF_Status* status) {
  Say(cudaMemcpyAsync(to->opaque, from->opaque, size, cudaMemcpyDeviceToDevice, nullptr), status);
}
void CopyToHostNow(const SP_Device*, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  Say(cudaMemcpy(to, from->opaque, size, cudaMemcpyDeviceToHost), status);
}
void CopyToCardNow(const SP_Device*, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status* status) {
  Say(cudaMemcpy(to->opaque, from, size, cudaMemcpyHostToDevice), status);
}
void CopyOnCardNow(const SP_Device*, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
                   TF_Status* status) {
  Say(cudaMemcpy(to->opaque, from->opaque, size, cudaMemcpyDeviceToDevice), status);
}
void SetBytes(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size, TF_Status* status) {
  Say(cudaMemsetAsync(at->opaque, pattern, size, nullptr), status);
}
void SetZero(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* at, uint64_t size, TF_Status* status) {
  SetBytes(device, stream, at, 0, size, status);
}
void SetWords(const SP_Device*, SP_Stream, SP_DeviceMemoryBase*, uint32_t, uint64_t, TF_Status* status) {
  TF_SetStatus(status, TF_UNIMPLEMENTED, "ptx_card: words of 32 bits are set by nobody here");
}

// --- The platform ---

void CountDevices(const SP_Platform*, int* count, TF_Status* status) {
  *count = 1;
  Say(cudaSuccess, status);
}
void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
  params->device->device_handle = nullptr;
  params->device->hardware_name = "PTX machine";
  params->device->device_vendor = "tf_booster";
  params->device->pci_bus_id = "0000:00:00.0";
  Say(cudaSuccess, status);
}
void DestroyDevice(const SP_Platform*, SP_Device*) {}
int32_t NumaNode(const SP_Device*) { return -1; }
int64_t Bandwidth(const SP_Device*) { return -1; }
double Gflops(const SP_Device*) { return -1; }
void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  *params->device_fns = {SP_DEVICE_FNS_STRUCT_SIZE, nullptr, NumaNode, Bandwidth, Gflops};
  Say(cudaSuccess, status);
}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}
void CreateExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* status) {
  SP_StreamExecutor* executor = params->stream_executor;
  executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  executor->allocate = Allocate;
  executor->deallocate = Deallocate;
  executor->host_memory_allocate = AllocateHost;
  executor->host_memory_deallocate = DeallocateHost;
  executor->get_allocator_stats = AllocatorStats;
  executor->device_memory_usage = MemoryUsage;
  executor->create_stream = CreateStream;
  executor->destroy_stream = DestroyStream;
  executor->create_stream_dependency = StreamWaitsForStream;
  executor->get_stream_status = StreamStatus;
  executor->create_event = CreateEvent;
  executor->destroy_event = DestroyEvent;
  executor->get_event_status = EventStatus;
  executor->record_event = RecordEvent;
  executor->wait_for_event = StreamWaitsForEvent;
  executor->create_timer = CreateTimer;
  executor->destroy_timer = DestroyTimer;
  executor->start_timer = StartOrStopTimer;
  executor->stop_timer = StartOrStopTimer;
  executor->memcpy_dtoh = CopyToHost;
  executor->memcpy_htod = CopyToCard;
  executor->memcpy_dtod = CopyOnCard;
  executor->sync_memcpy_dtoh = CopyToHostNow;
  executor->sync_memcpy_htod = CopyToCardNow;
  executor->sync_memcpy_dtod = CopyOnCardNow;
  executor->block_host_for_event = WaitForEvent;
  executor->block_host_until_done = WaitForStream;
  executor->synchronize_all_activity = WaitForAll;
  executor->mem_zero = SetZero;
  executor->memset = SetBytes;
  executor->memset32 = SetWords;
  executor->host_callback = CallHost;
  Say(cudaSuccess, status);
}
void DestroyExecutor(const SP_Platform*, SP_StreamExecutor*) {}
void CreateTimerFns(const SP_Platform*, SP_TimerFns* timer, TF_Status* status) {
  *timer = {SP_TIMER_FNS_STRUCT_SIZE, nullptr, Nanoseconds};
  Say(cudaSuccess, status);
}
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}
void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

}  // namespace

extern "C" {

// Called by TensorFlow when it loads a pluggable device.
void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  SP_Platform* platform = params->platform;
  platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  platform->name = "PTX_MACHINE";
  platform->type = "GPU";
  platform->supports_unified_memory = false;
  platform->use_bfc_allocator = false;
  platform->force_memory_growth = true;
  SP_PlatformFns* functions = params->platform_fns;
  functions->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  functions->get_device_count = CountDevices;
  functions->create_device = CreateDevice;
  functions->destroy_device = DestroyDevice;
  functions->create_device_fns = CreateDeviceFns;
  functions->destroy_device_fns = DestroyDeviceFns;
  functions->create_stream_executor = CreateExecutor;
  functions->destroy_stream_executor = DestroyExecutor;
  functions->create_timer_fns = CreateTimerFns;
  functions->destroy_timer_fns = DestroyTimerFns;
  params->destroy_platform = DestroyPlatform;
  params->destroy_platform_fns = DestroyPlatformFns;
  Say(cudaSuccess, status);
}

}  // extern "C"
