// The card's update of a table, its kernels' bodies run by the host, against the host's table and its update: the same
// bits. Gradients are small whole numbers, so that sums do not depend on their order.
#include "cc/core/optimizer/table_apply_body.h"

#include <limits>
#include <map>
#include <memory>
#include <random>

#include "cc/core/gpu/host_queue.h"
#include "cc/core/hash_table/contract/table_checks.h"
#include "cc/core/hash_table/cpu_table.h"

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
    config.allocator = HostAllocator();
    EXPECT_OK(NewHostStandInTable(options, &card, config, threads));
  }

  // Rows in the same order: row numbers are given in the same order on both.
  void ExpectSame() {
    SerialFor pf;
    const contract::TableContents a = contract::ExportAll(*host, pf), b = contract::ExportAll(*card, pf);
    EXPECT_EQ(a.keys.size(), b.keys.size());
    EXPECT_TRUE(contract::RowsOf(a, a.dim) == contract::RowsOf(b, b.dim));
    EXPECT_EQ(a.pending_keys.size(), b.pending_keys.size());
    EXPECT_TRUE(a.steps == b.steps);
  }
};

// One step's probes and gradients, at addresses off a multiple of 16 bytes where `misaligned`.
struct Training {
  std::vector<std::vector<int64_t>> keys, counts, handles, codes;
  std::vector<std::vector<uint32_t>> fields;
  std::vector<std::vector<float>> grads;
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

template <class Step, class Options>
void ExpectSameSteps(const Options& options, const std::vector<float>& scalars, bool flag, int probes = 1,
                     const std::vector<int64_t>& dims = {1, 3, 4, 20, 64}) {
  std::mt19937_64 random(7);
  for (const int64_t dim : dims) {
    for (const bool misaligned : {false, true}) {
      TableOptions table_options = ThreeFields(dim, Step::kSlots);
      table_options.fields[1].min_frequency = 2;
      table_options.fields[2].eviction = {0, 60, EvictionOrder::kLru};
      Tables tables(table_options, dim == 20 ? 3 : 1);
      HostQueue queue(dim == 20 ? 3 : 1);
      SerialFor pf;
      StepInputs<float> inputs = {};
      for (size_t i = 0; i < scalars.size(); ++i) inputs.scalars[i] = &scalars[i];
      inputs.flag = flag;
      for (int step = 0; step < 3; ++step) {
        const Training training(*tables.host, probes, 700, 150, misaligned, random);
        Training same = training;
        for (int p = 0; p < probes; ++p) {
          const ProbeRef& probe = training.batch.probes[p];
          EXPECT_OK(tables.card->FindHandles({probe.keys, probe.fields, probe.size}, same.handles[p].data(), pf));
          same.batch.probes[p].handles = same.handles[p].data();
        }
        EXPECT_OK(SparseApply(*tables.host, training.batch, *MakeRowOptimizer(options), pf));
        EXPECT_OK(TableApply<HostQueue>(queue, *tables.card, same.batch, HostAllocator()).template Run<Step>(inputs));
        tables.ExpectSame();
      }
    }
  }
}

TEST(StepsAreTheHosts) {
  ExpectSameSteps<table_step::GradientDescent>(GradientDescentOptions{0.5f}, {0.5f}, false);
  ExpectSameSteps<table_step::Momentum>(MomentumOptions{0.5f, 0.75f, true}, {0.5f, 0.75f}, true);
  ExpectSameSteps<table_step::KerasMomentum>(KerasMomentumOptions{0.5f, 0.75f, true}, {0.5f, 0.75f}, true);
  ExpectSameSteps<table_step::Adagrad>(AdagradOptions{0.1f, true}, {0.1f}, true);
  ExpectSameSteps<table_step::AdagradV2>(AdagradV2Options{0.1f, 1e-4f, true}, {0.1f, 1e-4f}, true);
  ExpectSameSteps<table_step::Adam>(AdamOptions{0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f, false},
                                    {0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f}, false);
  ExpectSameSteps<table_step::Ftrl>(FtrlOptions{0.1f, 0.01f, 0.02f, 0.03f, -0.5f, false},
                                    {0.1f, 0.01f, 0.02f, 0.03f, -0.5f}, false);
  ExpectSameSteps<table_step::RMSProp>(RMSPropOptions{0.1f, 0.9f, 0.5f, 1e-3f, true}, {0.1f, 0.9f, 0.5f, 1e-3f}, true);
  ExpectSameSteps<table_step::CenteredRMSProp>(CenteredRMSPropOptions{0.01f, 0.9f, 0.5f, 1.0f, false},
                                               {0.01f, 0.9f, 0.5f, 1.0f}, false);
}

TEST(LongRows) {
  ExpectSameSteps<table_step::Adam>(AdamOptions{0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f, false},
                                    {0.81f, 0.998f, 0.1f, 0.9f, 0.999f, 1e-6f}, false, 1, {130, 513, 1023, 1024});
}

TEST(SeveralProbesAreOneStep) { ExpectSameSteps<table_step::Adagrad>(AdagradOptions{0.1f, true}, {0.1f}, true, 3); }

// A key that the whole batch has: its sum is made of pieces.
TEST(ManyGradientsOfOneKey) {
  Tables tables(OneField(4, 0));
  std::mt19937_64 random(3);
  SerialFor pf;
  HostQueue queue(3);
  const float lr = 0.25f;
  const Training training(*tables.host, 1, 5000, 2, false, random);
  EXPECT_OK(SparseApply(*tables.host, training.batch, *MakeRowOptimizer(GradientDescentOptions{lr}), pf));
  StepInputs<float> inputs = {{&lr}, false};
  EXPECT_OK(TableApply<HostQueue>(queue, *tables.card, training.batch, HostAllocator())
                .Run<table_step::GradientDescent>(inputs));
  tables.ExpectSame();
}

TEST(PaddedKeysAreNone) {
  Tables tables(OneField(4, 0));
  SerialFor pf;
  HostQueue queue;
  const float lr = 1.0f;
  const std::vector<int64_t> keys = {5, 6, 0, 0}, counts = {1, 2, 0, 0}, codes = {1, 2, 2};
  const std::vector<uint32_t> fields = {0, 0, kNoField, kNoField};
  const std::vector<float> grads(12, 1.0f);
  SparseApplyBatch batch;
  batch.probes = {{keys.data(), fields.data(), counts.data(), nullptr, 4}};
  batch.gradients = {{codes.data(), grads.data(), 3}};
  batch.grad_dim = 4;
  StepInputs<float> inputs = {{&lr}, false};
  EXPECT_OK(
      TableApply<HostQueue>(queue, *tables.card, batch, HostAllocator()).Run<table_step::GradientDescent>(inputs));
  batch.probes[0].size = 2;
  EXPECT_OK(SparseApply(*tables.host, batch, *MakeRowOptimizer(GradientDescentOptions{lr}), pf));
  tables.ExpectSame();
  EXPECT_EQ(tables.card->Stats().rows, 2);
}

TEST(NumbersThatAreNoneAreRefused) {
  Tables tables(OneField(4, 0));
  HostQueue queue;
  const float lr = 1.0f;
  StepInputs<float> inputs = {{&lr}, false};
  std::mt19937_64 random(3);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Training training(*tables.card, 1, 50, 20, false, random);
    training.grads[0][4 * 7 + 2] = bad;
    training.batch.check_numerics = true;
    const Status status = TableApply<HostQueue>(queue, *tables.card, training.batch, HostAllocator())
                              .Run<table_step::GradientDescent>(inputs);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
    EXPECT_TRUE(status.message().find("row 7 of all gradients, column 2") != std::string::npos);
    EXPECT_EQ(tables.card->Stats().rows, 0);
    EXPECT_EQ(tables.card->Stats().step, 0);
  }
}

}  // namespace
}  // namespace tf_booster::gpu
