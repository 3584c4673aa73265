// TfBoosterVocabularyIds on the CPU.
#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/base/job_ranges.h"
#include "cc/core/hash_table/hash.h"
#include "cc/core/vocabulary/known_ids.h"
#include "cc/tf/kernels/hash_buckets.h"
#include "cc/tf/kernels/tf_parallel_for.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using TablePtr = tensorflow::core::RefCountPtr<tensorflow::lookup::LookupInterface>;

// T: of the keys; Key: as KnownIds has them.
template <class T>
struct KeyOf {
  using Key = KeyIsHash;
  static Key Of(int64_t) { return {}; }
  static uint64_t Hash(int64_t key) { return Mix64(static_cast<uint64_t>(key)); }
  static int64_t Bucket(int64_t key, uint64_t, int64_t buckets) {
    int64_t bucket;
    HashToBuckets(&key, 1, buckets, false, &bucket);
    return bucket;
  }
};
template <>
struct KeyOf<tstring> {
  using Key = std::string_view;
  static Key Of(const tstring& text) { return {text.data(), text.size()}; }
  static uint64_t Hash(const tstring& text) { return Fingerprint(text); }
  static int64_t Bucket(const tstring&, uint64_t hash, int64_t buckets) {
    return static_cast<int64_t>(hash % static_cast<uint64_t>(buckets));
  }
};

// What is known of one table, with one id for keys that it has not. The table is held, so that no other comes to lie in
// its place.
template <class T>
struct Vocabulary {
  std::shared_mutex mutex;
  TablePtr table;
  int64_t default_id = 0;
  KnownIds<typename KeyOf<T>::Key> known;
};

template <class T>
class VocabularyIdsOp final : public tensorflow::OpKernel {
 public:
  explicit VocabularyIdsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("buckets", &buckets_));
    if (buckets_.empty()) buckets_.resize(n_);
    const bool fits = buckets_.size() == static_cast<size_t>(n_) &&
                      std::all_of(buckets_.begin(), buckets_.end(), [](int64_t n) { return n >= 0; });
    OP_REQUIRES(ctx, fits, Invalid("buckets wants ", n_, " numbers of at least 0"));
    for (int i = 0; i < n_; ++i) vocabularies_.push_back(std::make_unique<Vocabulary<T>>());
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Lookup> lookups(n_);
    for (int i = 0; i < n_; ++i) OP_REQUIRES_OK(ctx, Prepare(ctx, i, &lookups[i]));
    TfParallelFor pf(ctx);
    FindKnown(&lookups, pf);
    for (int i = 0; i < n_; ++i) {
      if (!lookups[i].unknown.empty()) OP_REQUIRES_OK(ctx, FindOthers(ctx, i, &lookups[i]));
    }
  }

 private:
  using Traits = KeyOf<T>;
  using Key = typename Traits::Key;
  using Known = KnownIds<Key>;
  using Answer = typename Known::Answer;

  static constexpr int64_t kAtOnce = 16;  // Slots under way to the caches.

  struct Lookup {
    TablePtr table;
    Vocabulary<T>* vocabulary = nullptr;
    const T* keys = nullptr;
    int64_t n = 0;
    int64_t default_id = 0;
    int64_t buckets = 0, first_bucket = 0;  // 0: keys that the table has not get the default.
    int64_t* ids = nullptr;
    std::mutex adding;
    std::vector<int64_t> unknown;  // Places of keys.

    int64_t OfAbsent(const T& key, uint64_t hash) const {
      return buckets > 0 ? first_bucket + Traits::Bucket(key, hash, buckets) : default_id;
    }
  };

  Status Prepare(OpKernelContext* ctx, int i, Lookup* lookup) {
    const Tensor &keys = ctx->input(n_ + i), &default_id = ctx->input(2 * n_ + i);
    if (!tensorflow::TensorShapeUtils::IsScalar(default_id.shape())) {
      return Invalid("default_ids[", i, "] has shape ", default_id.shape().DebugString(), ", wanted a scalar");
    }
    TF_RETURN_IF_ERROR(LookupResource(ctx, HandleFromInput(ctx, i), &lookup->table));
    const auto& table = *lookup->table;
    if (table.key_dtype() != tensorflow::DataTypeToEnum<T>::value || table.value_dtype() != tensorflow::DT_INT64 ||
        table.key_shape().dims() != 0 || table.value_shape().dims() != 0) {
      return Invalid("tables[", i, "] is from ", DataTypeString(table.key_dtype()), " to ",
                     DataTypeString(table.value_dtype()), ", wanted ",
                     DataTypeString(tensorflow::DataTypeToEnum<T>::value), " to int64, one by one");
    }
    Tensor* ids = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, keys.shape(), &ids));
    lookup->keys = keys.flat<T>().data();
    lookup->n = keys.NumElements();
    lookup->default_id = default_id.scalar<int64_t>()();
    lookup->ids = ids->flat<int64_t>().data();
    lookup->buckets = buckets_[i];
    if (lookup->buckets > 0) lookup->first_bucket = static_cast<int64_t>(table.size());
    lookup->vocabulary = vocabularies_[i].get();
    return tensorflow::OkStatus();
  }

  // The ids of keys that are known, all tables as one loop; the others' places to `unknown`.
  static void FindKnown(std::vector<Lookup>* lookups, ParallelFor& pf) {
    std::vector<int64_t> keys;
    int64_t ns = 0;
    for (const Lookup& lookup : *lookups) {
      keys.push_back(lookup.n);
      ns += 19 * lookup.n;
    }
    JobRanges(keys, ns).Run(pf, [&](size_t i, int64_t begin, int64_t end) { FindKnown(&(*lookups)[i], begin, end); });
  }

  static void FindKnown(Lookup* lookup, int64_t begin, int64_t end) {
    std::vector<int64_t> unknown;
    std::shared_lock<std::shared_mutex> reading(lookup->vocabulary->mutex);
    const bool is_known = IsOf(*lookup->vocabulary, *lookup);
    const Known& known = lookup->vocabulary->known;
    for (; begin < end; begin += kAtOnce) {
      const int64_t n = std::min(end - begin, kAtOnce);
      const T* keys = lookup->keys + begin;
      uint64_t hashes[kAtOnce];
      for (int64_t i = 0; i < n; ++i) {
        hashes[i] = Traits::Hash(keys[i]);
        known.Prefetch(hashes[i]);
      }
      for (int64_t i = 0; i < n; ++i) {
        int64_t* id = lookup->ids + begin + i;
        const Answer answer = is_known ? known.Find(hashes[i], Traits::Of(keys[i]), id) : Answer::kUnknown;
        if (answer == Answer::kAbsent) *id = lookup->OfAbsent(keys[i], hashes[i]);
        if (answer == Answer::kUnknown) unknown.push_back(begin + i);
      }
    }
    if (unknown.empty()) return;
    std::lock_guard<std::mutex> lock(lookup->adding);
    lookup->unknown.insert(lookup->unknown.end(), unknown.begin(), unknown.end());
  }

  // What TensorFlow's table says, and from now on is known, if the table cannot change.
  Status FindOthers(OpKernelContext* ctx, int i, Lookup* lookup) {
    const auto m = static_cast<int64_t>(lookup->unknown.size());
    Tensor keys, ids;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DataTypeToEnum<T>::value, {m}, &keys));
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_INT64, {m}, &ids));
    for (int64_t j = 0; j < m; ++j) keys.flat<T>()(j) = lookup->keys[lookup->unknown[j]];
    TF_RETURN_IF_ERROR(lookup->table->Find(ctx, keys, &ids, ctx->input(2 * n_ + i)));
    for (int64_t j = 0; j < m; ++j) {
      const int64_t id = ids.flat<int64_t>()(j);
      const T& key = keys.flat<T>()(j);
      const bool is_absent = lookup->buckets > 0 && id == lookup->default_id;
      lookup->ids[lookup->unknown[j]] = is_absent ? lookup->OfAbsent(key, Traits::Hash(key)) : id;
    }
    if (lookup->table->GetInitializableLookupTable() != nullptr) Remember(keys, ids, lookup);
    return tensorflow::OkStatus();
  }

  static void Remember(const Tensor& keys, const Tensor& ids, Lookup* lookup) {
    Vocabulary<T>& vocabulary = *lookup->vocabulary;
    std::unique_lock<std::shared_mutex> writing(vocabulary.mutex);
    if (!IsOf(vocabulary, *lookup)) {
      lookup->table->Ref();
      vocabulary.table.reset(lookup->table.get());
      vocabulary.default_id = lookup->default_id;
      vocabulary.known = Known();
    }
    for (int64_t j = 0; j < keys.NumElements(); ++j) {
      const T& key = keys.flat<T>()(j);
      const int64_t id = ids.flat<int64_t>()(j);
      if (id != lookup->default_id) {
        vocabulary.known.AddId(Traits::Hash(key), Traits::Of(key), id);
      } else {
        vocabulary.known.AddAbsent(Traits::Hash(key), Traits::Of(key));
      }
    }
  }

  static bool IsOf(const Vocabulary<T>& vocabulary, const Lookup& lookup) {
    return vocabulary.table.get() == lookup.table.get() && vocabulary.default_id == lookup.default_id;
  }

  template <class... Args>
  Status Invalid(const Args&... args) const {
    return tensorflow::errors::InvalidArgument("VocabularyIds '", name(), "': ", args...);
  }

  int n_ = 0;
  std::vector<int64_t> buckets_;
  std::vector<std::unique_ptr<Vocabulary<T>>> vocabularies_;
};

#define REGISTER(T)                                                                                             \
  REGISTER_KERNEL_BUILDER(Name("TfBoosterVocabularyIds").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          VocabularyIdsOp<T>)
REGISTER(int64_t);
REGISTER(tstring);
#undef REGISTER

}  // namespace
}  // namespace tf_booster
