#include "cc/core/products/field_sums.h"

#include <algorithm>
#include <cstring>

#include "cc/core/base/dispatch_dim.h"
#include "cc/core/products/field_order.h"

namespace tf_booster {
namespace {

constexpr int64_t kLanes = kFieldLanes;
typedef float Lanes __attribute__((vector_size(kEigenVectorBytes)));

inline Lanes Load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

inline void Store(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof(lanes)); }

// One row: `vectors` are its fields' vectors, `joined` is where they go one after another, or null.
void SumRow(const Fields& in, const FieldSums& out, int64_t row, const float* vectors, float* joined) {
  const int64_t count = out.columns.count, fields = in.fields, width = in.width;
  const auto give = [&](auto sum, int64_t c) {
    const auto store = [c, row, count](const auto& value, float* to) {
      if (to != nullptr) std::memcpy(to + row * count + c, &value, sizeof(value));
    };
    store(sum.values, out.sums);
    store(sum.squares, out.square_sums);
  };
  const auto lanes = [&](int64_t c) {
    return [vectors, joined, count, width, c](int64_t f) {
      const Lanes value = Load(vectors + f * width + c);
      if (joined != nullptr) Store(value, joined + f * count + c);
      return value;
    };
  };
  const auto one = [&](int64_t c) {
    return [vectors, joined, count, width, c](int64_t f) {
      const float value = vectors[f * width + c];
      if (joined != nullptr) joined[f * count + c] = value;
      return value;
    };
  };
  // Below so many fields the order is the same for all columns, so that they need not be told apart.
  const bool interleaved = fields >= kEigenUnrolledRows;
  const FieldColumns whole = interleaved ? WholeVectors(row, count) : FieldColumns{0, count / kLanes * kLanes};
  const int64_t end = whole.first + whole.count;
  for (int64_t c = 0; c < std::min(whole.first, count); ++c) give(InTurn<float>(fields, one(c)), c);
  for (int64_t c = whole.first; c < end; c += kLanes) {
    give(interleaved ? Interleaved<Lanes>(fields, lanes(c)) : InTurn<Lanes>(fields, lanes(c)), c);
  }
  for (int64_t c = std::max<int64_t>(end, whole.first); c < count; ++c) give(InTurn<float>(fields, one(c)), c);
}

// Returns where what comes behind them goes.
float* CopyParts(const std::vector<JoinedPart>& parts, int64_t row, float* to) {
  for (const JoinedPart& part : parts) {
    to = std::copy(part.data + row * part.columns, part.data + (row + 1) * part.columns, to);
  }
  return to;
}

void CopyFields(const Fields& in, const FieldCopy& copy, int64_t begin, int64_t end) {
  const int64_t count = copy.columns.count;
  const float* from = in.data + copy.columns.first;
  for (int64_t f = begin * in.fields; f < end * in.fields; ++f) {
    std::copy(from + f * in.width, from + f * in.width + count, copy.to + f * count);
  }
}

inline void Read(const float* from, float* value) { *value = *from; }
inline void Read(const float* from, Lanes* value) { *value = Load(from); }

// A V of what is at `from`.
template <class V>
inline V At(const float* from) {
  V value;
  Read(from, &value);
  return value;
}

// to[c] = value(f, c), or += it, for `count` columns of each field, whose first one is at `to` and `width` apart. By
// whole vectors, and the rest one by one: kColumns is count, or 0 where the compiler does not know it.
template <bool kFirst, int64_t kColumns, class Value>
inline void AddFields(const Fields& in, int64_t count, float* to, Value value) {
  if (kColumns > 0) count = kColumns;
  for (int64_t f = 0; f < in.fields; ++f, to += in.width) {
    int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
      const Lanes lanes = value(f, c, Lanes{});
      Store(kFirst ? lanes : Load(to + c) + lanes, to + c);
    }
    for (; c < count; ++c) {
      const float one = value(f, c, 0.0f);
      to[c] = kFirst ? one : to[c] + one;
    }
  }
}

// A term of one row, which begins at `data`. `vectors` and `to` are the first field's columns.
template <bool kFirst, int64_t kColumns>
void AddTerm(const Fields& in, FieldTerm::Kind kind, const float* data, int64_t count, const float* vectors,
             float* to) {
  if (kColumns > 0) count = kColumns;
  const int64_t width = in.width;
  switch (kind) {
    case FieldTerm::kWhole:
      return AddFields<kFirst, kColumns>(
          in, count, to, [=](int64_t f, int64_t c, auto v) { return At<decltype(v)>(data + f * count + c); });
    case FieldTerm::kSum:
      return AddFields<kFirst, kColumns>(in, count, to,
                                         [=](int64_t, int64_t c, auto v) { return At<decltype(v)>(data + c); });
    case FieldTerm::kSquareSum:
      return AddFields<kFirst, kColumns>(in, count, to, [=](int64_t f, int64_t c, auto v) {
        using V = decltype(v);
        return FieldAddend<FieldTerm::kSquareSum>(At<V>(data + c), At<V>(vectors + f * width + c));
      });
    case FieldTerm::kProductSum:
      return AddFields<kFirst, kColumns>(in, count, to, [=](int64_t f, int64_t c, auto v) {
        using V = decltype(v);
        return FieldAddend<FieldTerm::kProductSum>(At<V>(data + c), At<V>(vectors + f * width + c));
      });
  }
}

}  // namespace

void SumFields(const Fields& in, const FieldSums& out, const std::vector<FieldCopy>& copies, ParallelFor& pf) {
  const int64_t row_floats = in.fields * in.width, vectors = in.fields * out.columns.count;
  pf.Run(in.rows, 20 + row_floats / 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* joined = out.joined == nullptr ? nullptr : out.joined + row * out.join_width;
      if (joined != nullptr) {
        joined = CopyParts(out.before, row, joined);
        CopyParts(out.behind, row, joined + vectors);
      }
      SumRow(in, out, row, in.data + row * row_floats + out.columns.first, joined);
      for (const FieldCopy& copy : copies) CopyFields(in, copy, row, row + 1);
    }
  });
}

void SumFieldsGradient(const Fields& in, const std::vector<FieldRange>& ranges, float* gradient, ParallelFor& pf) {
  const int64_t row_floats = in.fields * in.width;
  int64_t terms = 0;
  for (const FieldRange& range : ranges) terms += static_cast<int64_t>(range.terms.size());
  pf.Run(in.rows, 20 + terms * row_floats / 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = row * row_floats;
      for (const FieldRange& range : ranges) {
        for (size_t t = 0; t < range.terms.size(); ++t) {
          const FieldTerm& term = range.terms[t];
          DispatchDim(range.columns, [&](auto dim) {
            constexpr int64_t kColumns = decltype(dim)::value;
            (t == 0 ? AddTerm<true, kColumns> : AddTerm<false, kColumns>)(in, term.kind, term.data + row * term.step,
                                                                          range.columns, in.data + at, gradient + at);
          });
        }
        at += range.columns;
      }
    }
  });
}

}  // namespace tf_booster
