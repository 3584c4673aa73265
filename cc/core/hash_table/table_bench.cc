// Keys per second of the CPU table, beside a probe of the machine: copy bandwidth and random cache lines. One-thread
// figures are of CPU time, so that a busy neighbour matters less; two-thread ones of the clock.
//
//   table_bench [rows = 1000000] [dims = 16,64,128] [rounds = 9] [max_load_percent = 80]
//
// 1930000 rows are a load of 0.92 at 95 percent, and of 0.46 at 80.
#include <ctime>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/allocator.h"
#include "cc/core/base/thread_for.h"
#include "cc/core/hash_table/cpu_table.h"
#include "cc/core/hash_table/hash.h"

namespace tf_booster {
namespace {

constexpr int64_t kBatch = 1 << 17;

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Median seconds of a run of `body`; `prepare` is not timed.
double Median(int rounds, int threads, const std::function<void()>& prepare, const std::function<void()>& body) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> seconds;
  for (int r = 0; r < rounds; ++r) {
    prepare();
    const double start = Seconds(clock);
    body();
    seconds.push_back(Seconds(clock) - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void ProbeMachine(int rounds) {
  constexpr int64_t kBytes = 256 << 20, kLines = kBytes / 64, kReads = 1 << 20;
  char* from = static_cast<char*>(HostAllocator()->Allocate(kBytes));
  char* to = static_cast<char*>(HostAllocator()->Allocate(kBytes));
  std::fill_n(from, kBytes, 1);
  std::fill_n(to, kBytes, 2);
  const auto nothing = [] {};
  const double copy = Median(rounds, 1, nothing, [&] { std::copy_n(from, kBytes, to); });
  int64_t sum = 0;
  uint64_t round = 0;
  const double lines = Median(rounds, 1, nothing, [&] {
    constexpr int64_t kAhead = 24;
    ++round;
    const auto line = [&](int64_t i) { return from + Mix64(round << 32 | i) % kLines * 64; };
    for (int64_t i = 0; i < kReads; ++i) {
      __builtin_prefetch(line(i + kAhead));
      sum += *line(i);
    }
  });
  std::printf("machine: copy %.1f GB/s, overlapped random line %.1f ns (sum %ld)\n", kBytes / copy * 1e-9,
              lines / kReads * 1e9, static_cast<long>(sum));
  HostAllocator()->Free(from, kBytes);
  HostAllocator()->Free(to, kBytes);
}

// Key number `i` of a stream over `rows` keys: uniform, or Zipf with exponent 1.05 by inversion of its continuous form.
int64_t Draw(uint64_t i, int64_t rows, bool zipf) {
  const double u = (Mix64(i) >> 11) * 0x1p-53;
  if (!zipf) return static_cast<int64_t>(u * rows);
  const double top = 1 - std::pow(static_cast<double>(rows), -0.05);
  return std::min<int64_t>(rows - 1, static_cast<int64_t>(std::pow(1 - u * top, -20.0)) - 1);
}

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

std::unique_ptr<HashTable> MakeTable(int64_t dim, int max_load_percent) {
  TableOptions options;
  options.name = "bench";
  options.dim = dim;
  options.slot_initial_values = {};
  options.fields.resize(1);
  options.fields[0].name = "bench";
  options.fields[0].initializer = {InitializerKind::kTruncatedNormal, 0.0f, 0.1f};
  std::unique_ptr<HashTable> table;
  CpuTableConfig config;
  config.max_load_percent = max_load_percent;
  Check(NewCpuTable(options, &table, config));
  return table;
}

int64_t KeyOf(int64_t number) { return static_cast<int64_t>(Mix64(number + 12345)); }

void Fill(HashTable* table, int64_t rows, float* out) {
  SerialFor pf;
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < rows; ++i) {
    keys.push_back(KeyOf(i));
    if (static_cast<int64_t>(keys.size()) < kBatch && i + 1 < rows) continue;
    Check(table->FindOrInsert({keys.data(), nullptr, static_cast<int64_t>(keys.size())}, out, pf));
    keys.clear();
  }
}

void BenchDim(int64_t rows, int64_t dim, int rounds, int max_load_percent) {
  std::unique_ptr<HashTable> table = MakeTable(dim, max_load_percent);
  std::vector<float> out(kBatch * dim);
  Fill(table.get(), rows, out.data());
  const TableStats stats = table->Stats();
  const double bytes = static_cast<double>(stats.bytes) / stats.rows;
  std::printf("dim %ld: %ld rows, %.0f MB, %.1f bytes a row beyond row and key, load %.2f\n", static_cast<long>(dim),
              static_cast<long>(stats.rows), stats.bytes * 1e-6, bytes - (4 * dim + 8),
              static_cast<double>(stats.rows) / stats.index_capacity);
  std::vector<int64_t> keys(kBatch), codes(kBatch);
  std::vector<RowHandle> handles(kBatch);
  for (int64_t i = 0; i < kBatch; ++i) codes[i] = i + 1;
  uint64_t drawn = 0;
  int64_t fresh = rows;
  const KeyBatch batch = {keys.data(), nullptr, kBatch};
  for (const bool zipf : {false, true}) {
    const auto draw = [&] {
      for (int64_t& key : keys) key = KeyOf(Draw(++drawn, rows, zipf));
    };
    for (const int threads : {1, 2}) {
      ThreadFor pf(threads);
      const auto print = [&](const char* what, double seconds) {
        std::printf("  %-8s %d thread%s  %-25s %7.1f M keys/s\n", zipf ? "Zipf1.05" : "uniform", threads,
                    threads == 1 ? " " : "s", what, kBatch / seconds * 1e-6);
      };
      print("find", Median(rounds, threads, draw, [&] { Check(table->Find(batch, out.data(), nullptr, pf)); }));
      print("find handles",
            Median(rounds, threads, draw, [&] { Check(table->FindHandles(batch, handles.data(), pf)); }));
      print("gather", Median(
                          rounds, threads, [] {},
                          [&] {
                            Check(table->Gather(batch, handles.data(), {{codes.data(), kBatch, out.data()}}, pf));
                          }));
      print("find_or_insert, old keys",
            Median(rounds, threads, draw, [&] { Check(table->FindOrInsert(batch, out.data(), pf)); }));
      if (zipf) continue;
      const auto draw_new = [&] {
        draw();
        for (int64_t i = 0; i < kBatch; i += 10) keys[i] = KeyOf(++fresh);
      };
      print("find_or_insert, 10% new",
            Median(rounds, threads, draw_new, [&] { Check(table->FindOrInsert(batch, out.data(), pf)); }));
      print("find, 10% unknown",
            Median(rounds, threads, draw_new, [&] { Check(table->Find(batch, out.data(), nullptr, pf)); }));
      // Distinct keys, as updates have.
      const auto draw_distinct = [&] {
        const int64_t first = Draw(++drawn, rows - kBatch, false);
        for (int64_t i = 0; i < kBatch; ++i) keys[i] = KeyOf(first + i);
        for (int64_t i = kBatch - 1; i > 0; --i) std::swap(keys[i], keys[Mix64(drawn + i) % (i + 1)]);
      };
      const auto add = [&](const RowVisit& visit) {
        for (int64_t j = 0; j < visit.size; ++j) {
          for (int64_t c = 0; c < dim; ++c) visit.rows[j][c] += 1.0f;
        }
      };
      print("update (adds 1)", Median(rounds, threads, draw_distinct, [&] {
              Check(table->Update({batch, nullptr, nullptr}, add, pf));
            }));
      const auto draw_distinct_new = [&] {
        draw_distinct();
        for (int64_t i = 0; i < kBatch; i += 10) keys[i] = KeyOf(++fresh);
        Check(table->FindHandles(batch, handles.data(), pf));
      };
      print("update, 10% new", Median(rounds, threads, draw_distinct_new, [&] {
              Check(table->Update({batch, nullptr, handles.data()}, add, pf));
            }));
      print("insert_or_assign, 10% new",
            Median(rounds, threads, draw_new, [&] { Check(table->InsertOrAssign(batch, out.data(), pf)); }));
    }
  }
}

}  // namespace
}  // namespace tf_booster

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 1000000;
  const std::string dims = argc > 2 ? argv[2] : "16,64,128";
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 9;
  const int max_load_percent = argc > 4 ? std::atoi(argv[4]) : 80;
  tf_booster::ProbeMachine(rounds);
  for (size_t at = 0; at < dims.size();
       at = dims.find(',', at) == std::string::npos ? dims.size() : dims.find(',', at) + 1) {
    tf_booster::BenchDim(rows, std::atoll(dims.c_str() + at), rounds, max_load_percent);
  }
}
