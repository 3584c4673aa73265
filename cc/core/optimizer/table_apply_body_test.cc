// The card's update of a table, its kernels' bodies run by the host, under nvcc on a card, against the host's table and
// its update: the same bits. Gradients are small whole numbers, so that sums do not depend on their order.
#include "cc/core/optimizer/table_apply_body.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "cc/core/gpu/card_or_host.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/gpu/testing/duplicates.h"
#include "cc/core/hash_table/contract/table_checks.h"
#include "cc/core/hash_table/cpu_table.h"

#if defined(__CUDACC__)
#include "cc/core/gpu/cuda_allocator.cuh"
#endif

namespace tf_booster::gpu {
namespace {

using contract::OneField;
using contract::ThreeFields;

struct Tables {
  std::unique_ptr<HashTable> host;
  std::unique_ptr<GpuTable> card;

  explicit Tables(const TableOptions& options, int threads = 1) {
    EXPECT_OK(NewCpuTable(options, &host));
    GpuTableConfig config;
#if defined(__CUDACC__)
    (void)threads;
    config.allocator = CudaAllocator();
    EXPECT_OK(NewGpuTable(options, &card, config));
#else
    config.allocator = HostAllocator();
    EXPECT_OK(NewHostStandInTable(options, &card, config, threads));
#endif
  }

  // Rows in the same order: row numbers are given in the same order on both.
  void ExpectSame(float tolerance = 0) {
    SerialFor pf;
    const contract::TableContents a = contract::ExportAll(*host, pf), b = contract::ExportAll(*card, pf);
    EXPECT_EQ(a.keys.size(), b.keys.size());
    auto want = contract::RowsOf(a, a.dim), rows = contract::RowsOf(b, b.dim);
    if (tolerance > 0) {
      for (auto& [key, row] : rows) {
        const std::vector<float>& values = want[key].values;
        for (size_t i = 0; i < row.values.size() && i < values.size(); ++i) {
          if (std::abs(row.values[i] - values[i]) <= tolerance) row.values[i] = values[i];
        }
      }
    }
    EXPECT_TRUE(want == rows);
    EXPECT_EQ(a.pending_keys.size(), b.pending_keys.size());
    EXPECT_TRUE(a.steps == b.steps);
  }
};

template <class Step>
Status Apply(GpuTable& table, const SparseApplyBatch& batch, const StepInputs<float>& inputs, int threads = 1) {
#if defined(__CUDACC__)
  (void)threads;
  const Status status = TableApplyAsync<Step>(table, batch, inputs, CudaAllocator(), nullptr);
  WaitForCard();
  return status;
#else
  HostQueue queue(threads);
  return TableApply<HostQueue>(queue, table, batch, HostAllocator()).template Run<Step>(inputs);
#endif
}

// One step's probes and gradients, at addresses off a multiple of 16 bytes where `misaligned`.
struct Training {
  std::vector<Array<int64_t>> keys, counts, handles, codes;
  std::vector<Array<uint32_t>> fields;
  std::vector<Array<float>> grads;
  SparseApplyBatch batch;

  Training(const HashTable& table, int probes, int64_t ids, int64_t range, bool misaligned, std::mt19937_64& random) {
    const int64_t dim = table.options().dim, num_fields = static_cast<int64_t>(table.options().fields.size());
    SerialFor pf;
    for (int p = 0; p < probes; ++p) {
      std::map<contract::FieldKey, int64_t> places;
      keys.emplace_back();
      fields.emplace_back();
      counts.emplace_back();
      codes.emplace_back();
      for (int64_t i = 0; i < ids; ++i) {
        const contract::FieldKey key = {static_cast<uint32_t>(random() % num_fields),
                                        static_cast<int64_t>(std::min(random() % range, random() % range))};
        const auto [at, is_new] = places.try_emplace(key, static_cast<int64_t>(keys[p].size()));
        if (is_new) {
          keys[p].push_back(key.second);
          fields[p].push_back(key.first);
          counts[p].push_back(0);
        }
        ++counts[p][at->second];
        codes[p].push_back(i % 11 == 3 ? 0 : int64_t{p} << kCodePlaceBits | (at->second + 1));
      }
      grads.emplace_back(ids * dim + 1);
      for (float& grad : grads[p]) grad = static_cast<float>(static_cast<int64_t>(random() % 9)) - 4.0f;
      handles.emplace_back(keys[p].size());
      const KeyBatch ref = {keys[p].data(), fields[p].data(), static_cast<int64_t>(keys[p].size())};
      EXPECT_OK(table.FindHandles(ref, handles[p].data(), pf));
    }
    for (int p = 0; p < probes; ++p) {
      batch.probes.push_back({keys[p].data(), fields[p].data(), counts[p].data(), handles[p].data(),
                              static_cast<int64_t>(keys[p].size())});
      batch.gradients.push_back({codes[p].data(), grads[p].data() + (misaligned ? 1 : 0), ids});
    }
    batch.grad_dim = dim;
  }
};

#if defined(__CUDACC__)
// The PTX machine is slow, most of all with evictions.
constexpr int64_t kIds = 250;
const std::vector<int64_t> kDims = {1, 3, 4, 20}, kLongDims = {1024};
bool Evicts(int64_t dim) { return dim == 4; }
#else
constexpr int64_t kIds = 700;
const std::vector<int64_t> kDims = {1, 3, 4, 20, 64}, kLongDims = {130, 513, 1023, 1024};
bool Evicts(int64_t) { return true; }
#endif

template <class Step, class Options>
void ExpectSameSteps(const Options& options, const Array<float>& scalars, bool flag, int probes = 1,
                     const std::vector<int64_t>& dims = kDims, float tolerance = 0) {
  std::mt19937_64 random(7);
  for (const int64_t dim : dims) {
    for (const bool misaligned : {false, true}) {
      TableOptions table_options = ThreeFields(dim, Step::kSlots);
      table_options.fields[1].min_frequency = 2;
      if (Evicts(dim)) table_options.fields[2].eviction = {0, 60, EvictionOrder::kLru};
      const int threads = dim == 20 ? 3 : 1;
      Tables tables(table_options, threads);
      SerialFor pf;
      StepInputs<float> inputs = {};
      for (size_t i = 0; i < scalars.size(); ++i) inputs.scalars[i] = &scalars[i];
      inputs.flag = flag;
      for (int step = 0; step < 3; ++step) {
        const Training training(*tables.host, probes, kIds, 150, misaligned, random);
        Training same = training;
        for (int p = 0; p < probes; ++p) {
          const ProbeRef& probe = training.batch.probes[p];
          EXPECT_OK(tables.card->FindHandles({probe.keys, probe.fields, probe.size}, same.handles[p].data(), pf));
          same.batch.probes[p].handles = same.handles[p].data();
        }
        EXPECT_OK(SparseApply(*tables.host, training.batch, *MakeRowOptimizer(options), pf));
        EXPECT_OK(Apply<Step>(*tables.card, same.batch, inputs, threads));
        tables.ExpectSame(tolerance);
      }
    }
  }
}

// CUDA's pow is up to 4 units of the last place off, and where its square root stands for the host's pow, one: here
// those are of powers below 4, times values below 6, divided by no less than 0.1 and again by no less than 1, in each
// of three steps.
#if defined(__CUDACC__)
constexpr float kFtrlTolerance = 1e-4f;
#else
constexpr float kFtrlTolerance = 0;
#endif

TEST(StepsAreTheHosts) {
  ExpectSameSteps<table_step::GradientDescent>(GradientDescentOptions{0.5f}, {0.5f}, false);
  ExpectSameSteps<table_step::Momentum>(MomentumOptions{0.5f, 0.75f, true}, {0.5f, 0.75f}, true);
  ExpectSameSteps<table_step::KerasMomentum>(KerasMomentumOptions{0.5f, 0.75f, true}, {0.5f, 0.75f}, true);
  ExpectSameSteps<table_step::Adagrad>(AdagradOptions{0.1f, true}, {0.1f}, true);
  ExpectSameSteps<table_step::AdagradV2>(AdagradV2Options{0.1f, 1e-4f, true}, {0.1f, 1e-4f}, true);
  ExpectSameSteps<table_step::Adam>(AdamOptions{0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f, false},
                                    {0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f}, false);
  ExpectSameSteps<table_step::Ftrl>(FtrlOptions{0.1f, 0.01f, 0.02f, 0.03f, -0.5f, false},
                                    {0.1f, 0.01f, 0.02f, 0.03f, -0.5f}, false, 1, kDims, kFtrlTolerance);
  ExpectSameSteps<table_step::RMSProp>(RMSPropOptions{0.1f, 0.9f, 0.5f, 1e-3f, true}, {0.1f, 0.9f, 0.5f, 1e-3f}, true);
  ExpectSameSteps<table_step::CenteredRMSProp>(CenteredRMSPropOptions{0.01f, 0.9f, 0.5f, 1.0f, false},
                                               {0.01f, 0.9f, 0.5f, 1.0f}, false);
}

TEST(FtrlByPowers) {
  ExpectSameSteps<table_step::Ftrl>(FtrlOptions{1.0f, 0.01f, 0.02f, 0.03f, -0.25f, true},
                                    {1.0f, 0.01f, 0.02f, 0.03f, -0.25f}, true, 1, kDims, kFtrlTolerance);
}

TEST(LongRows) {
  ExpectSameSteps<table_step::Adam>(AdamOptions{0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f, false},
                                    {0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f}, false, 1, kLongDims);
}

TEST(SeveralProbesAreOneStep) { ExpectSameSteps<table_step::Adagrad>(AdagradOptions{0.1f, true}, {0.1f}, true, 3); }

// A key that the whole batch has: its sum is made of pieces.
TEST(ManyGradientsOfOneKey) {
  for (const bool misaligned : {false, true}) {
    Tables tables(OneField(4, 0));
    std::mt19937_64 random(3);
    SerialFor pf;
    const Array<float> lr = {0.25f};
    const Training training(*tables.host, 1, 5000, 2, misaligned, random);
    EXPECT_OK(SparseApply(*tables.host, training.batch, *MakeRowOptimizer(GradientDescentOptions{lr[0]}), pf));
    StepInputs<float> inputs = {{lr.data()}, false};
    EXPECT_OK(Apply<table_step::GradientDescent>(*tables.card, training.batch, inputs, 3));
    tables.ExpectSame();
  }
}

// Sums that have other bits in another order, against the step with the sum that row_groups.h promises. The last key's
// gradients are at the very end, behind them nothing, or those of no key.
void CheckSums(int64_t dim, bool misaligned, bool with_unknown, size_t first) {
  Tables tables(OneField(dim, 0), 3);
  SerialFor pf;
  const auto counts = testing::Rotated(testing::ManyDuplicates(), first);
  const int64_t num_keys = static_cast<int64_t>(counts.size());
  Array<int64_t> keys(num_keys), ones(num_keys, 1);
  const Array<uint32_t> fields(num_keys, 0);
  for (int64_t k = 0; k < num_keys; ++k) keys[k] = 100 + 7 * k;
  Array<int64_t> codes = testing::RowsWithDuplicates<Array<int64_t>>(counts, 5);
  for (int64_t& code : codes) ++code;
  if (with_unknown) codes.insert(codes.begin() + 3, {0, num_keys + 1, 0});
  std::mt19937 random(11);
  Array<float> grads(codes.size() * dim + 1);
  for (float& grad : grads) grad = testing::NumberOfAnySize<float>(&random);
  const float* const begin = grads.data() + (misaligned ? 1 : 0);
  const KeyBatch batch_keys = {keys.data(), fields.data(), num_keys};
  std::vector<float> before(num_keys * dim), after(num_keys * dim);
  EXPECT_OK(tables.card->FindOrInsert(batch_keys, before.data(), pf));

  const Array<float> lr = {0.25f};
  SparseApplyBatch batch;
  batch.probes = {{keys.data(), fields.data(), ones.data(), nullptr, num_keys}};
  batch.gradients = {{codes.data(), begin, static_cast<int64_t>(codes.size())}};
  batch.grad_dim = dim;
  EXPECT_OK(Apply<table_step::GradientDescent>(*tables.card, batch, {{lr.data()}, false}, 3));
  EXPECT_OK(tables.card->Find(batch_keys, after.data(), nullptr, pf));
  for (int64_t k = 0; k < num_keys; ++k) {
    for (int64_t c = 0; c < dim && counts[k] > 0; ++c) {
      std::vector<float> terms;
      for (size_t i = 0; i < codes.size(); ++i) {
        if (codes[i] == k + 1) terms.push_back(begin[static_cast<int64_t>(i) * dim + c]);
      }
      table_step::GradientDescent(lr.data(), false).Step(testing::SumInPieces(terms), &before[k * dim + c]);
    }
  }
  EXPECT_TRUE(before == after);
}

TEST(SumsHaveOneOrder) {
  for (size_t first = 0; first < testing::ManyDuplicates().size(); ++first) {
#if defined(__CUDACC__)
    if (first % 4 != 2) continue;  // The PTX machine is slow.
#endif
    for (const int64_t dim : {1, 3, 4, 20}) {
      for (const bool misaligned : {false, true}) CheckSums(dim, misaligned, first % 2 == 0, first);
    }
  }
}

TEST(PaddedKeysAreNone) {
  Tables tables(OneField(4, 0));
  SerialFor pf;
  const Array<int64_t> keys = {5, 6, 0, 0}, counts = {1, 2, 0, 0}, codes = {1, 2, 2};
  const Array<uint32_t> fields = {0, 0, kNoField, kNoField};
  const Array<float> grads(12, 1.0f), lr = {1.0f};
  SparseApplyBatch batch;
  batch.probes = {{keys.data(), fields.data(), counts.data(), nullptr, 4}};
  batch.gradients = {{codes.data(), grads.data(), 3}};
  batch.grad_dim = 4;
  StepInputs<float> inputs = {{lr.data()}, false};
  EXPECT_OK(Apply<table_step::GradientDescent>(*tables.card, batch, inputs));
  batch.probes[0].size = 2;
  EXPECT_OK(SparseApply(*tables.host, batch, *MakeRowOptimizer(GradientDescentOptions{lr[0]}), pf));
  tables.ExpectSame();
  EXPECT_EQ(tables.card->Stats().rows, 2);
}

TEST(NumbersThatAreNoneAreRefused) {
  Tables tables(OneField(4, 0));
  const Array<float> lr = {1.0f};
  StepInputs<float> inputs = {{lr.data()}, false};
  std::mt19937_64 random(3);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Training training(*tables.card, 1, 50, 20, false, random);
    training.grads[0][4 * 7 + 2] = bad;
    training.batch.check_numerics = true;
    const Status status = Apply<table_step::GradientDescent>(*tables.card, training.batch, inputs);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
    EXPECT_TRUE(status.message().find("row 7 of all gradients, column 2") != std::string::npos);
    EXPECT_EQ(tables.card->Stats().rows, 0);
    EXPECT_EQ(tables.card->Stats().step, 0);
  }
}

}  // namespace
}  // namespace tf_booster::gpu
