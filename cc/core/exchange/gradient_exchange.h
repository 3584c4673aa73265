// Gradients to the owners of their keys: the backward half of an exchange. Each rank sums its own gradients of a key,
// the owner adds up what the ranks sent, in the order of ranks, so that the bits do not depend on who was faster.
#ifndef TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_
#define TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/exchange/id_exchange.h"

namespace tf_booster {

// Row i is the sum of its terms begins[i] to before begins[i + 1], in their order.
struct RowTerms {
  std::vector<int32_t> begins;  // [rows + 1]
  std::vector<int32_t> terms;
};

// One gradient, as TensorFlow's IndexedSlices: codes and a matrix. Its codes are of the keys of these segments.
struct GradientStream {
  struct Lane {
    int64_t probe = 0;    // Among the gradients' probes.
    int64_t segment = 0;  // Of the probe.
  };
  int64_t dim = 0;
  bool by_row = false;  // Rows of one key travel one by one, because what follows is not linear in them.
  std::vector<Lane> lanes;
};

struct GradientLayout {
  int32_t ranks = 1;
  int64_t num_notes = 0;                // 64-bit words that each rank tells all others.
  std::vector<int64_t> groups;          // Of each probe: the high bits of its codes.
  std::vector<int64_t> num_segments;    // Of each probe.
  std::vector<GradientStream> streams;  // A segment is in one stream, or in several for lookups that are kept apart.

  int64_t num_lanes() const;
  int32_t Fingerprint() const;
};

// A probe as RouteIds left it.
struct SentProbe {
  const int64_t* slots = nullptr;
  int64_t size = 0;
  const int32_t* sent = nullptr;  // [ranks, segments]
};

struct LocalGradient {
  const int64_t* codes = nullptr;  // 0 is skipped.
  const float* grads = nullptr;    // [size, dim]
  int64_t size = 0;
};

// Sums gradients of equal keys, in the order of their occurrence, and writes the message for the owners.
// InvalidArgument: a code that is of none of its stream's segments; too many gradients for one message.
Status SendGradients(const GradientLayout& layout, const std::vector<SentProbe>& probes,
                     const std::vector<LocalGradient>& gradients, const int64_t* notes, AllocateWords allocate,
                     int32_t* splits, ParallelFor& pf);

// A probe as its owner merged it: codes of the keys that came, rank by rank and segment by segment, and how many came,
// with the distinct ones as the last row.
struct MergedProbe {
  const int64_t* codes = nullptr;
  int64_t size = 0;
  const int32_t* received = nullptr;  // [ranks + 1, segments]
};

class ReceivedGradients {
 public:
  // Borrows all arguments. scales [ranks]: what a rank's gradients are multiplied by; 0: they are not looked at.
  Status Parse(const GradientLayout& layout, const std::vector<MergedProbe>& probes, const int32_t* words, int64_t size,
               const int32_t* splits, const float* scales);
  // Of a message in a card's memory: heads [ranks] are copies of where the chunks begin, as FindHeads says.
  Status ParseHeads(const GradientLayout& layout, const std::vector<MergedProbe>& probes,
                    const std::vector<const int32_t*>& heads, const std::vector<int64_t>& head_words,
                    const std::vector<int64_t>& begins, const int32_t* splits, const float* scales);

  // Rows of the sum of a stream: its keys that got a gradient from any rank; of a stream by row all rows.
  int64_t size(int64_t stream) const { return sizes_[stream]; }
  const int64_t* notes(int32_t rank) const { return notes_[rank]; }

  // codes [size(stream)] and values [size(stream), dim] of each stream.
  struct Out {
    int64_t* codes = nullptr;
    float* values = nullptr;
  };
  void Sum(const std::vector<Out>& out, ParallelFor& pf) const;

  // In place of Sum, for one stream: its codes, and for each row where in the message its terms are, in words, and what
  // each is multiplied by.
  void PlanSum(int64_t stream, int64_t* codes, RowTerms* terms, std::vector<float>* scales) const;

 private:
  // What one rank sent of one lane.
  struct Part {
    const int32_t* places;  // Of rows, among the keys that the rank asked for; null: all of them.
    int64_t rows_at;        // In the message.
    int64_t size;
    const int64_t* codes;  // Of the keys that the rank asked for.
    int64_t first_row;     // Of a stream by row: where its rows go.

    int64_t CodeOf(int64_t row) const { return codes[places == nullptr ? row : places[row]]; }
  };
  struct Lane {
    int64_t stream;
    int64_t first_place;          // Of the segment's keys, among the probe's.
    int64_t first_row;            // Where the lane's rows go.
    std::vector<int32_t> row_of;  // Of each key of the segment, from first_row on; empty: key k is row k.
    std::vector<Part> parts;      // By rank.
  };
  Status CheckPlaces(const Part& part, int64_t num_keys, int32_t rank) const;
  void NumberRows(int64_t num_keys, Lane* lane, int64_t* size) const;
  // The row of its stream that a part's row is a term of.
  int64_t RowOf(const Lane& lane, const Part& part, int64_t row) const;

  const GradientLayout* layout_ = nullptr;
  const int32_t* words_ = nullptr;  // The message, if it is in host memory.
  const float* scales_ = nullptr;
  std::vector<Lane> lanes_;
  std::vector<int64_t> sizes_;
  std::vector<const int64_t*> notes_;
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_
