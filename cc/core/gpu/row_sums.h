// Sums over the occurrences that row_groups.h has sorted: of a piece of 64, and of a row from its pieces.
//
// Terms are asked for four at a time and then added in that order: a thread that asked for the next one when it had
// added the last would wait for the card's memory as often as a row has terms.
#ifndef TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
#define TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_

#include <cstdint>
#include <utility>

#include "cc/core/gpu/pack.h"
#include "cc/core/gpu/row_groups.h"

namespace tf_booster {
namespace gpu {

// How many terms a thread asks for at once.
inline constexpr int kTermsAtOnce = 4;

// Terms of one key, at positions k, k + step, …: those from the first position on that is not the key's, or not below
// `end`, are none and are not loaded. load(position, what stands there): T. Of Groups is wanted: size, and At(position)
// with a member `key`.
template <class T, class Groups>
struct NextTerms {
  using Position = decltype(std::declval<const Groups&>().At(0));
  using Key = decltype(Position::key);
  T terms[kTermsAtOnce] = {};
  bool has[kTermsAtOnce];
  Key key;

  // known: the key; null: that of position k.
  template <class Load>
  TFB_HOST_DEVICE NextTerms(const Groups& groups, int64_t k, int64_t step, int64_t end, const Key* known,
                            const Load& load) {
    Position at[kTermsAtOnce];
    TFB_UNROLL
    for (int j = 0; j < kTermsAtOnce; ++j) at[j] = groups.At(Min(k + j * step, groups.size - 1));
    key = known == nullptr ? at[0].key : *known;
    TFB_UNROLL
    for (int j = 0; j < kTermsAtOnce; ++j) has[j] = k + j * step < end && at[j].key == key;
    TFB_UNROLL
    for (int j = 0; j < kTermsAtOnce; ++j) {
      if (has[j]) terms[j] = load(k + j * step, at[j]);
    }
  }

  // Adds terms first, first + 1, … to the sum, in this order.
  TFB_HOST_DEVICE void AddTo(T* sum, int first = 0) const {
    TFB_UNROLL
    for (int j = 0; j < kTermsAtOnce; ++j) {
      if (j >= first && has[j]) *sum += terms[j];
    }
  }
  TFB_HOST_DEVICE bool all() const { return has[kTermsAtOnce - 1]; }
};

// The sum of the terms at positions [k, k + 64) that belong to the row of position k. term(what stands there): T.
// Returns the last terms: if all are the row's there may be more of it.
template <class T, class Groups, class Term>
TFB_HOST_DEVICE NextTerms<T, Groups> AddPiece(const Groups& groups, int64_t k, const Term& term, T* sum) {
  const int64_t end = Min(k + kPiece, groups.size);
  const auto load = [&](int64_t, const auto& at) { return term(at); };
  NextTerms<T, Groups> next(groups, k, 1, end, nullptr, load);
  *sum = next.terms[0];
  next.AddTo(sum, 1);
  while (next.all() && (k += kTermsAtOnce) < end) {
    next = NextTerms<T, Groups>(groups, k, 1, end, &next.key, load);
    next.AddTo(sum);
  }
  return next;
}
template <class T, class Groups, class Term>
TFB_HOST_DEVICE T SumOfPiece(const Groups& groups, int64_t k, const Term& term) {
  T sum;
  AddPiece(groups, k, term, &sum);
  return sum;
}

// A column of partial sums [NumPieces, columns], by LaterPiece's blocks. T: what a thread takes at once, as columns are
// counted.
template <class T>
struct PartialAt {
  const T* column;
  int64_t columns;
  TFB_HOST_DEVICE T operator()(int64_t block) const { return column[block * columns]; }
};

// The sum of all terms of the row whose head is at k. partial(block): the sum of the piece that begins in that block.
template <class T, class Groups, class Term, class Partial>
TFB_HOST_DEVICE T SumOfRow(const Groups& groups, int64_t k, const Term& term, const Partial& partial) {
  T sum;
  NextTerms<T, Groups> next = AddPiece(groups, k, term, &sum);
  const auto load = [&](int64_t piece, const auto&) { return partial(piece / kPiece); };
  for (k += kPiece; next.all() && k < groups.size; k += kTermsAtOnce * kPiece) {
    next = NextTerms<T, Groups>(groups, k, kPiece, groups.size, &next.key, load);
    next.AddTo(&sum);
  }
  return sum;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
