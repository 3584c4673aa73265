// N ranks in one process: messages are moved by hand, and what comes out is compared with one batch of all ranks' ids.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "cc/core/base/test.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/exchange/card_plans.h"
#include "cc/core/exchange/gradient_exchange.h"
#include "cc/core/exchange/row_terms_body.h"
#include "cc/core/gpu/host_queue.h"
#include "cc/core/unique/unique_by_field.h"

namespace tf_booster {
namespace {

using Ids = std::vector<std::vector<int64_t>>;  // Of each segment.
using Words = std::vector<int32_t>;

float ValueOf(int64_t key, uint32_t field, int64_t column) {
  return static_cast<float>(HashKey(key, field + static_cast<uint32_t>(column) * 1000) >> 40) * 1e-4f;
}

// What one rank keeps of one probe.
struct ProbeOfRank {
  std::vector<int64_t> keys, counts, slots, starts;
  std::vector<uint32_t> fields;
  std::vector<int32_t> sent;
  std::vector<std::vector<int64_t>> codes;  // Of each segment's ids.
  ReceivedIds::Merged merged;               // As owner.
  std::vector<int64_t> owner_codes;
  std::vector<int32_t> received;
};

struct Rank {
  std::vector<Ids> ids;  // By probe.
  float rows = 1;
  std::vector<ProbeOfRank> probes;
  Words out, in;
  std::vector<int32_t> splits, received_splits;
  std::vector<int64_t> reply_splits;
};

// What a collective does; `out` may be longer than its splits, as in a padded buffer.
void AllToAll(std::vector<Rank>* ranks) {
  const size_t n = ranks->size();
  for (size_t to = 0; to < n; ++to) {
    Rank& receiver = (*ranks)[to];
    receiver.in.clear();
    receiver.received_splits.clear();
    for (const Rank& sender : *ranks) {
      size_t start = 0;
      for (size_t r = 0; r < to; ++r) start += sender.splits[r];
      receiver.in.insert(receiver.in.end(), sender.out.begin() + start, sender.out.begin() + start + sender.splits[to]);
      receiver.received_splits.push_back(sender.splits[to]);
    }
  }
}

AllocateWords Into(Words* words, std::function<Status(int64_t, int32_t**)>* keep) {
  *keep = [words](int64_t n, int32_t** data) {
    words->assign(n, -77);
    *data = words->data();
    return Status();
  };
  return *keep;
}

int64_t FirstCode(size_t probe) { return (static_cast<int64_t>(probe) << 40) + 1; }

void Route(const ExchangeLayout& layout, Rank* rank, ParallelFor& pf) {
  const size_t num_probes = layout.probes.size();
  rank->probes.assign(num_probes, {});
  std::vector<RoutedProbe> routed;
  for (size_t p = 0; p < num_probes; ++p) {
    ProbeOfRank& probe = rank->probes[p];
    std::vector<FieldIds> arrays;
    probe.codes.resize(rank->ids[p].size());
    for (size_t s = 0; s < rank->ids[p].size(); ++s) {
      const std::vector<int64_t>& ids = rank->ids[p][s];
      probe.codes[s].resize(ids.size());
      arrays.push_back(
          {ids.data(), static_cast<int64_t>(ids.size()), layout.probes[p].fields[s], probe.codes[s].data()});
    }
    EXPECT_OK(UniqueByField(
        arrays, FirstCode(p), /*with_counts=*/true,
        [&](int64_t u, DistinctPairs* out) {
          probe.keys.resize(u), probe.fields.resize(u), probe.counts.resize(u), probe.slots.resize(u);
          *out = {probe.keys.data(), probe.fields.data(), probe.counts.data()};
          return Status();
        },
        pf));
    probe.sent.resize(layout.ranks * layout.probes[p].fields.size());
    routed.push_back({probe.keys.data(), probe.fields.data(), probe.counts.data(),
                      static_cast<int64_t>(probe.keys.size()), probe.slots.data(), probe.sent.data()});
  }
  std::function<Status(int64_t, int32_t**)> keep;
  std::vector<int64_t> starts(num_probes * layout.ranks);
  rank->splits.resize(layout.ranks);
  rank->reply_splits.resize(layout.ranks);
  EXPECT_OK(RouteIds(layout, rank->rows, routed, Into(&rank->out, &keep), rank->splits.data(), starts.data(),
                     rank->reply_splits.data(), pf));
  for (size_t p = 0; p < num_probes; ++p) {
    rank->probes[p].starts.assign(starts.begin() + p * layout.ranks, starts.begin() + (p + 1) * layout.ranks);
  }
}

void Serve(const ExchangeLayout& layout, Rank* rank, ParallelFor& pf) {
  ReceivedIds received;
  EXPECT_OK(received.Parse(layout, rank->in.data(), rank->in.size(), rank->received_splits.data()));
  int64_t total = 0;
  std::vector<std::vector<int64_t>> starts;
  EXPECT_OK(received.LayOutRows(rank->splits.data(), &total, &starts));
  rank->out.assign(total, 0);
  for (size_t p = 0; p < layout.probes.size(); ++p) {
    ProbeOfRank& probe = rank->probes[p];
    const int64_t dim = layout.probes[p].dim;
    probe.owner_codes.resize(received.size(p));
    probe.merged = {};
    EXPECT_OK(received.Merge(p, FirstCode(p), probe.owner_codes.data(), &probe.merged, pf));
    size_t i = 0;
    for (int32_t r = 0; r < layout.ranks; ++r) {
      float* to = reinterpret_cast<float*>(rank->out.data() + starts[p][r]);
      for (int64_t n = received.size(p, r); n > 0; --n, ++i, to += dim) {
        const size_t k = probe.owner_codes[i] - FirstCode(p);
        for (int64_t j = 0; j < dim; ++j) to[j] = ValueOf(probe.merged.keys[k], probe.merged.fields[k], j);
      }
    }
    probe.received.clear();
    for (int32_t r = 0; r < layout.ranks; ++r) {
      for (size_t s = 0; s < layout.probes[p].fields.size(); ++s) probe.received.push_back(received.size(p, r, s));
    }
    DropUncounted(FirstCode(p), received.size(p), probe.owner_codes.data(), &probe.merged);
    probe.received.insert(probe.received.end(), probe.merged.sizes.begin(), probe.merged.sizes.end());
  }
}

bool AllAligned(const GradientLayout& layout) {
  return std::all_of(layout.streams.begin(), layout.streams.end(),
                     [](const GradientStream& stream) { return stream.dim % 4 == 0; });
}

void SumOnCard(const gpu::TermsJob& job) {
  gpu::HostQueue queue(2);
  gpu::SumTermsOn(queue, {job});
}

// What a card expands is what the host does.
void ExpectExpandedOnCard(const std::vector<int64_t>& codes, const std::vector<float>& wanted, int64_t dim,
                          const Words& reply, const ProbeOfRank& probe, ParallelFor& pf) {
  std::vector<int32_t> places(codes.size(), 77);
  EXPECT_OK(PlanExpand({{codes.data(), static_cast<int64_t>(codes.size()), nullptr}}, dim, probe.slots.data(),
                       probe.slots.size(), probe.starts.data(), {places.data()}, pf));
  std::vector<float> values(wanted.size(), -1.0f);
  gpu::TermsJob job;
  job.from = reinterpret_cast<const float*>(reply.data());
  job.terms = places.data();
  job.to = values.data();
  job.rows = static_cast<int64_t>(codes.size());
  job.dim = dim;
  job.aligned = dim % 4 == 0;
  SumOnCard(job);
  EXPECT_TRUE(values == wanted);
}

// Routes, serves and expands; compares each id's row, and the owners' keys and counts with those of the joined batch.
void Forward(const ExchangeLayout& layout, std::vector<Rank>* ranks, ParallelFor& pf) {
  for (Rank& rank : *ranks) Route(layout, &rank, pf);
  AllToAll(ranks);
  for (Rank& rank : *ranks) Serve(layout, &rank, pf);
  AllToAll(ranks);
  for (Rank& rank : *ranks) {
    for (size_t r = 0; r < ranks->size(); ++r) EXPECT_EQ(rank.reply_splits[r], int64_t{rank.received_splits[r]});
    for (size_t p = 0; p < layout.probes.size(); ++p) {
      const ProbeOfRank& probe = rank.probes[p];
      const int64_t dim = layout.probes[p].dim;
      for (size_t s = 0; s < probe.codes.size(); ++s) {
        std::vector<int64_t> codes = probe.codes[s];
        codes.push_back(0);
        std::vector<float> values(codes.size() * dim, -1.0f);
        EXPECT_OK(ExpandRows({{codes.data(), static_cast<int64_t>(codes.size()), values.data()}}, dim, rank.in.data(),
                             probe.slots.data(), probe.slots.size(), probe.starts.data(), pf));
        for (size_t i = 0; i < codes.size(); ++i) {
          for (int64_t j = 0; j < dim; ++j) {
            const float wanted = codes[i] == 0 ? 0.0f : ValueOf(rank.ids[p][s][i], layout.probes[p].fields[s], j);
            if (values[i * dim + j] != wanted) EXPECT_EQ(values[i * dim + j], wanted);
          }
        }
        ExpectExpandedOnCard(codes, values, dim, rank.in, probe, pf);
      }
    }
  }
  for (size_t p = 0; p < layout.probes.size(); ++p) {
    std::map<std::pair<uint32_t, int64_t>, int64_t> joined, found;
    for (const Rank& rank : *ranks) {
      for (size_t s = 0; s < rank.ids[p].size(); ++s) {
        for (const int64_t id : rank.ids[p][s]) {
          if (rank.rows > 0) ++joined[{layout.probes[p].fields[s], id}];
        }
      }
    }
    if (!layout.probes[p].counted) continue;
    for (size_t r = 0; r < ranks->size(); ++r) {
      const ReceivedIds::Merged& merged = (*ranks)[r].probes[p].merged;
      for (size_t k = 0; k < merged.keys.size(); ++k) {
        EXPECT_EQ(OwnerOf(merged.keys[k], layout.ranks, layout.mode), static_cast<int32_t>(r));
        const bool is_new = found.emplace(std::make_pair(merged.fields[k], merged.keys[k]), merged.counts[k]).second;
        EXPECT_TRUE(is_new);
      }
    }
    EXPECT_TRUE(joined == found);
  }
}

struct Gradient {
  std::vector<int64_t> codes;
  std::vector<float> grads;
};

// The message that a card makes is the host's, `sent`, but for words between its parts that nobody writes.
void ExpectSentByCard(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                      const std::vector<LocalGradient>& local, const int64_t* notes, const Words& sent,
                      const std::vector<int32_t>& sent_splits, ParallelFor& pf) {
  SendPlan plan;
  std::vector<int32_t> splits(layout.ranks);
  EXPECT_OK(PlanSend(layout, probes, local, notes, splits.data(), &plan, pf));
  EXPECT_TRUE(splits == sent_splits);
  EXPECT_EQ(plan.words, static_cast<int64_t>(sent.size()));
  Words message(plan.words, -77);
  for (int32_t r = 0; r < layout.ranks; ++r) {
    std::copy(plan.heads.begin() + plan.head_begins[r], plan.heads.begin() + plan.head_begins[r + 1],
              message.begin() + plan.starts[r]);
  }
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    gpu::TermsJob job;
    job.from = local[t].grads;
    job.step = job.dim = layout.streams[t].dim;
    job.begins = plan.streams[t].begins.data();
    job.terms = plan.streams[t].terms.data();
    job.to = reinterpret_cast<float*>(message.data());
    job.to_at = plan.streams[t].to.data();
    job.rows = static_cast<int64_t>(plan.streams[t].to.size());
    job.aligned = AllAligned(layout);
    EXPECT_EQ(plan.streams[t].begins.size(), plan.streams[t].to.size() + 1);
    SumOnCard(job);
  }
  for (size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] != -77 && message[i] != sent[i]) EXPECT_EQ(message[i], sent[i]);
  }
}

Words BitsOf(const std::vector<float>& values) {
  Words bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

// What a card makes of a message of which the host sees the heads alone is what the host makes of it.
void ExpectReceivedByCard(const GradientLayout& layout, const std::vector<MergedProbe>& probes, const Rank& rank,
                          const float* scales, const std::vector<Gradient>& wanted) {
  HeadsToRead to_read;
  EXPECT_OK(FindHeads(layout, probes, rank.in.size(), rank.received_splits.data(), &to_read));
  const std::vector<int64_t>&begins = to_read.begins, &words = to_read.words;
  std::vector<Words> copies;
  std::vector<const int32_t*> heads;
  for (int32_t r = 0; r < layout.ranks; ++r) {
    copies.emplace_back(rank.in.begin() + begins[r], rank.in.begin() + begins[r] + words[r]);
  }
  for (const Words& copy : copies) heads.push_back(copy.data());
  ReceivedGradients received;
  EXPECT_OK(received.ParseHeads(layout, probes, heads, words, begins, rank.received_splits.data(), scales));
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    const int64_t dim = layout.streams[t].dim;
    EXPECT_EQ(received.size(t), static_cast<int64_t>(wanted[t].codes.size()));
    Gradient sums = {std::vector<int64_t>(received.size(t)), std::vector<float>(received.size(t) * dim, -7.0f)};
    RowTerms terms;
    std::vector<float> of_terms;
    received.PlanSum(t, sums.codes.data(), &terms, &of_terms);
    gpu::TermsJob job;
    job.from = reinterpret_cast<const float*>(rank.in.data());
    job.begins = terms.begins.data();
    job.terms = terms.terms.data();
    job.scales = of_terms.data();
    job.to = sums.grads.data();
    job.rows = received.size(t);
    job.dim = dim;
    job.aligned = AllAligned(layout);
    SumOnCard(job);
    EXPECT_TRUE(sums.codes == wanted[t].codes);
    const Words bits = BitsOf(sums.grads), wanted_bits = BitsOf(wanted[t].grads);
    EXPECT_TRUE(bits == wanted_bits);
  }
}

// gradients[rank][stream]. Compares, per stream, the owners' sums with sums over all ranks; of streams by row, the
// rows.
void Backward(const GradientLayout& layout, const ExchangeLayout& exchange, std::vector<Rank>* ranks,
              const std::vector<std::vector<Gradient>>& gradients, const std::vector<float>& scales, ParallelFor& pf) {
  for (size_t r = 0; r < ranks->size(); ++r) {
    Rank& rank = (*ranks)[r];
    std::vector<SentProbe> probes;
    for (const ProbeOfRank& probe : rank.probes) {
      probes.push_back({probe.slots.data(), static_cast<int64_t>(probe.slots.size()), probe.sent.data()});
    }
    std::vector<LocalGradient> local;
    for (const Gradient& gradient : gradients[r]) {
      local.push_back({gradient.codes.data(), gradient.grads.data(), static_cast<int64_t>(gradient.codes.size())});
    }
    std::function<Status(int64_t, int32_t**)> keep;
    const std::vector<int64_t> notes(layout.num_notes, 100 + static_cast<int64_t>(r));
    EXPECT_OK(SendGradients(layout, probes, local, notes.data(), Into(&rank.out, &keep), rank.splits.data(), pf));
    ExpectSentByCard(layout, probes, local, notes.data(), rank.out, rank.splits, pf);
    rank.out.resize(rank.out.size() + 64);  // A padded buffer is sent up to its splits.
  }
  AllToAll(ranks);
  using Key = std::pair<uint32_t, int64_t>;
  std::vector<std::map<Key, std::vector<std::vector<double>>>> wanted(layout.streams.size()), found(wanted);
  const auto add = [](std::vector<std::vector<double>>* rows, const float* row, double scale, int64_t dim,
                      bool by_row) {
    if (rows->empty() || by_row) rows->push_back(std::vector<double>(dim, 0.0));
    for (int64_t j = 0; j < dim; ++j) rows->back()[j] += scale * static_cast<double>(row[j]);
  };
  for (size_t r = 0; r < ranks->size(); ++r) {
    const Rank& rank = (*ranks)[r];
    std::vector<MergedProbe> probes;
    for (const ProbeOfRank& probe : rank.probes) {
      probes.push_back(
          {probe.owner_codes.data(), static_cast<int64_t>(probe.owner_codes.size()), probe.received.data()});
    }
    ReceivedGradients received;
    EXPECT_OK(
        received.Parse(layout, probes, rank.in.data(), rank.in.size(), rank.received_splits.data(), scales.data()));
    std::vector<Gradient> sums(layout.streams.size());
    std::vector<ReceivedGradients::Out> out;
    for (size_t t = 0; t < layout.streams.size(); ++t) {
      sums[t].codes.resize(received.size(t));
      sums[t].grads.resize(received.size(t) * layout.streams[t].dim);
      out.push_back({sums[t].codes.data(), sums[t].grads.data()});
    }
    received.Sum(out, pf);
    ExpectReceivedByCard(layout, probes, rank, scales.data(), sums);
    for (size_t from = 0; layout.num_notes > 0 && from < ranks->size(); ++from) {
      EXPECT_EQ(received.notes(static_cast<int32_t>(from))[layout.num_notes - 1], 100 + static_cast<int64_t>(from));
    }
    for (size_t t = 0; t < layout.streams.size(); ++t) {
      const GradientStream& stream = layout.streams[t];
      for (int64_t i = 0; i < received.size(t); ++i) {
        const size_t probe = sums[t].codes[i] >> 40;
        const ReceivedIds::Merged& merged = rank.probes[probe].merged;
        const size_t place = (sums[t].codes[i] & ((int64_t{1} << 40) - 1)) - 1;
        EXPECT_TRUE(place < merged.keys.size());
        add(&found[t][{merged.fields[place], merged.keys[place]}], &sums[t].grads[i * stream.dim], 1.0, stream.dim,
            stream.by_row);
      }
      const Gradient& local = gradients[r][t];
      for (size_t i = 0; i < local.codes.size(); ++i) {
        if (local.codes[i] == 0 || scales[r] == 0) continue;
        const ProbeOfRank& probe = rank.probes[local.codes[i] >> 40];
        const size_t place = (local.codes[i] & ((int64_t{1} << 40) - 1)) - 1;
        add(&wanted[t][{probe.fields[place], probe.keys[place]}], &local.grads[i * stream.dim],
            static_cast<double>(scales[r]), stream.dim, stream.by_row);
      }
    }
  }
  for (size_t t = 0; t < layout.streams.size(); ++t) {
    EXPECT_EQ(found[t].size(), wanted[t].size());
    for (auto& [key, rows] : wanted[t]) {
      std::vector<std::vector<double>>& got = found[t][key];
      EXPECT_EQ(got.size(), rows.size());
      std::sort(got.begin(), got.end());
      std::sort(rows.begin(), rows.end());
      for (size_t i = 0; i < std::min(got.size(), rows.size()); ++i) {
        for (size_t j = 0; j < rows[i].size(); ++j) EXPECT_TRUE(std::abs(got[i][j] - rows[i][j]) < 1e-4);
      }
    }
  }
}

std::vector<Rank> RandomRanks(const ExchangeLayout& layout, int64_t ids, int64_t vocabulary, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Rank> ranks(layout.ranks);
  for (Rank& rank : ranks) {
    for (const ExchangeProbe& probe : layout.probes) {
      rank.ids.emplace_back(probe.fields.size());
      for (std::vector<int64_t>& segment : rank.ids.back()) {
        const int64_t n = static_cast<int64_t>(random() % (ids + 1));
        for (int64_t i = 0; i < n; ++i) {
          const int64_t id = static_cast<int64_t>(random() % vocabulary) - vocabulary / 2;
          segment.push_back(random() % 50 == 0 ? (id % 2 ? INT64_MIN : INT64_MAX) : id);
        }
      }
    }
  }
  return ranks;
}

// Gradients of some of the ids of each stream's lanes, with zeros as codes in between.
std::vector<std::vector<Gradient>> RandomGradients(const GradientLayout& layout, const std::vector<Rank>& ranks,
                                                   int keep_of_10, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<Gradient>> all;
  for (const Rank& rank : ranks) {
    all.emplace_back();
    for (const GradientStream& stream : layout.streams) {
      Gradient gradient;
      for (const GradientStream::Lane& lane : stream.lanes) {
        for (const int64_t code : rank.probes[lane.probe].codes[lane.segment]) {
          if (static_cast<int>(random() % 10) >= keep_of_10) continue;
          gradient.codes.push_back(random() % 20 == 0 ? 0 : code);
          for (int64_t j = 0; j < stream.dim; ++j) {
            gradient.grads.push_back(static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) * 1e-3f);
          }
        }
      }
      all.back().push_back(std::move(gradient));
    }
  }
  return all;
}

ExchangeLayout TwoTables(int32_t ranks, PartitionMode mode) {
  return {ranks, mode, {{16, {0, 2, 1}, true}, {5, {0}, true}, {1, {3, 0}, false}}};
}

// One stream a segment, one over two segments of different probes, one by row.
GradientLayout Streams(int32_t ranks) {
  return {ranks,
          2,
          {0, 1, 2},
          {3, 1, 2},
          {{16, false, {{0, 0}}}, {16, true, {{0, 1}}}, {16, false, {{0, 2}}}, {5, false, {{1, 0}}}}};
}

TEST(EqualsTheJoinedBatch) {
  for (const PartitionMode mode : {PartitionMode::kHash, PartitionMode::kMod}) {
    for (const int32_t n : {1, 2, 3, 8}) {
      for (const int keep : {10, 7, 0}) {
        const ExchangeLayout exchange = TwoTables(n, mode);
        std::vector<Rank> ranks = RandomRanks(exchange, 300, 200, n * 10 + keep);
        ThreadFor threads(keep == 7 ? 3 : 1);
        Forward(exchange, &ranks, threads);
        const GradientLayout layout = Streams(n);
        Backward(layout, exchange, &ranks, RandomGradients(layout, ranks, keep, 5), std::vector<float>(n, 1.0f / n),
                 threads);
      }
    }
  }
}

TEST(SixRowsOnEightRanks) {
  const ExchangeLayout exchange = TwoTables(8, PartitionMode::kMod);
  std::vector<Rank> ranks = RandomRanks(exchange, 40, 6, 3);
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const GradientLayout layout = Streams(8);
  Backward(layout, exchange, &ranks, RandomGradients(layout, ranks, 10, 5), std::vector<float>(8, 0.125f), serial);
}

TEST(NoIdsAtAll) {
  const ExchangeLayout exchange = TwoTables(4, PartitionMode::kHash);
  std::vector<Rank> ranks = RandomRanks(exchange, 0, 6, 3);
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const GradientLayout layout = Streams(4);
  Backward(layout, exchange, &ranks, RandomGradients(layout, ranks, 10, 5), std::vector<float>(4, 0.25f), serial);
}

TEST(AllOwnedByOneRankAndSentByAnother) {
  const ExchangeLayout exchange = TwoTables(4, PartitionMode::kMod);
  std::vector<Rank> ranks = RandomRanks(exchange, 0, 6, 3);
  for (Ids& probe : ranks[1].ids) {
    for (std::vector<int64_t>& segment : probe) segment = {3, -1, INT64_MAX, 3, 7};
  }
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(ranks[r].probes[0].merged.keys.size(), r == 3 ? size_t{12} : size_t{0});
  const GradientLayout layout = Streams(4);
  Backward(layout, exchange, &ranks, RandomGradients(layout, ranks, 10, 5), std::vector<float>(4, 0.25f), serial);
}

// A rank whose rows are 0 gets its rows, and nothing of it counts, NaN neither.
TEST(ARankWithoutRowsDoesNotCount) {
  const ExchangeLayout exchange = TwoTables(3, PartitionMode::kHash);
  std::vector<Rank> ranks = RandomRanks(exchange, 100, 60, 8);
  ranks[1].rows = 0;
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const GradientLayout layout = Streams(3);
  std::vector<std::vector<Gradient>> gradients = RandomGradients(layout, ranks, 10, 5);
  for (Gradient& gradient : gradients[1]) std::fill(gradient.grads.begin(), gradient.grads.end(), NAN);
  Backward(layout, exchange, &ranks, gradients, {0.75f, 0.0f, 0.25f}, serial);
}

// Two lookups of one table whose gradients are kept apart share a segment.
TEST(TwoStreamsOfOneSegment) {
  const ExchangeLayout exchange = {2, PartitionMode::kHash, {{4, {0}, true}}};
  std::vector<Rank> ranks = RandomRanks(exchange, 100, 60, 8);
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const GradientLayout layout = {2, 0, {0}, {1}, {{4, false, {{0, 0}}}, {4, false, {{0, 0}}}}};
  Backward(layout, exchange, &ranks, RandomGradients(layout, ranks, 6, 5), {0.5f, 0.5f}, serial);
}

// The sum over ranks is in the order of ranks: (a + b) + c, whatever else is sent.
TEST(SumsInTheOrderOfRanks) {
  const ExchangeLayout exchange = {3, PartitionMode::kMod, {{1, {0}, true}}};
  std::vector<Rank> ranks(3);
  for (Rank& rank : ranks) rank.ids = {{{6}}};
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const GradientLayout layout = {3, 0, {0}, {1}, {{1, false, {{0, 0}}}}};
  const float grads[] = {1e8f, -1e8f, 1.0f};
  for (size_t r = 0; r < 3; ++r) {
    std::function<Status(int64_t, int32_t**)> keep;
    const ProbeOfRank& probe = ranks[r].probes[0];
    EXPECT_OK(SendGradients(layout, {{probe.slots.data(), 1, probe.sent.data()}},
                            {{probe.codes[0].data(), grads + r, 1}}, nullptr, Into(&ranks[r].out, &keep),
                            ranks[r].splits.data(), serial));
  }
  AllToAll(&ranks);
  const Rank& owner = ranks[0];
  const ProbeOfRank& probe = owner.probes[0];
  ReceivedGradients received;
  const std::vector<float> scales(3, 1.0f);
  EXPECT_OK(received.Parse(layout, {{probe.owner_codes.data(), 3, probe.received.data()}}, owner.in.data(),
                           owner.in.size(), owner.received_splits.data(), scales.data()));
  int64_t code = 0;
  float sum = 0;
  EXPECT_EQ(received.size(0), int64_t{1});
  received.Sum({{&code, &sum}}, serial);
  EXPECT_EQ(code, int64_t{1});
  EXPECT_EQ(sum, 1.0f);  // 1e8 + 1 is 1e8 in float32, so another order gives 0.
}

TEST(OtherGraphsAreNoticed) {
  const ExchangeLayout exchange = TwoTables(2, PartitionMode::kHash);
  ExchangeLayout other = exchange;
  other.probes[0].dim = 8;
  std::vector<Rank> ranks = RandomRanks(exchange, 20, 60, 8);
  SerialFor serial;
  Route(exchange, &ranks[0], serial);
  Route(other, &ranks[1], serial);
  AllToAll(&ranks);
  ReceivedIds received;
  const Status status =
      received.Parse(exchange, ranks[0].in.data(), ranks[0].in.size(), ranks[0].received_splits.data());
  EXPECT_TRUE(status.message().find("rank 1: its tables or features differ") != std::string::npos);
}

TEST(AWrongCodeIsRefused) {
  const ExchangeLayout exchange = {2, PartitionMode::kHash, {{1, {0}, true}}};
  std::vector<Rank> ranks(2);
  for (Rank& rank : ranks) rank.ids = {{{6, 8}}};
  SerialFor serial;
  Forward(exchange, &ranks, serial);
  const ProbeOfRank& probe = ranks[0].probes[0];
  const int64_t code = 3;
  float value = 1;
  EXPECT_FALSE(
      ExpandRows({{&code, 1, &value}}, 1, ranks[0].in.data(), probe.slots.data(), 2, probe.starts.data(), serial).ok());
  EXPECT_EQ(value, 0.0f);
  const GradientLayout layout = {2, 0, {0}, {1}, {{1, false, {{0, 0}}}}};
  std::function<Status(int64_t, int32_t**)> keep;
  const Status status = SendGradients(layout, {{probe.slots.data(), 2, probe.sent.data()}}, {{&code, &value, 1}},
                                      nullptr, Into(&ranks[0].out, &keep), ranks[0].splits.data(), serial);
  EXPECT_TRUE(status.message().find("codes[0][0] is 3") != std::string::npos);
}

}  // namespace
}  // namespace tf_booster
