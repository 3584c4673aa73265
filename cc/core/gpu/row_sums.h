// Sums over the occurrences that row_groups.h has sorted: of a piece of 64, of a block of pieces, and of a row from
// both.
//
// Terms are asked for four or eight at a time and then added in that order: a thread that asked for the next one when
// it had added the last would wait for the card's memory as often as a row has terms.
#ifndef TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
#define TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cc/core/gpu/pack.h"
#include "cc/core/gpu/row_groups.h"

namespace tf_booster {
namespace gpu {

// How many terms a thread asks for at once: one that holds a row and its slots beside them, and one that only adds.
inline constexpr int kTermsAtOnce = 4;
inline constexpr int kTermsOfPiece = 8;

// Terms of one key, at positions k, k + step, …: those from the first position on that is not the key's, or not below
// `end`, are none and are not loaded. load(position, what stands there): T. Of Groups is wanted: size, and At(position)
// with a member `key`.
template <class T, class Groups, int kCount>
struct NextTerms {
  using Position = decltype(std::declval<const Groups&>().At(0));
  using Key = decltype(Position::key);
  T terms[kCount] = {};
  bool has[kCount];
  Key key;

  // known: the key; null: that of position k.
  template <class Load>
  TFB_HOST_DEVICE NextTerms(const Groups& groups, int64_t k, int64_t step, int64_t end, const Key* known,
                            const Load& load) {
    Position at[kCount];
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) at[j] = groups.At(Min(k + j * step, groups.size - 1));
    key = known == nullptr ? at[0].key : *known;
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) has[j] = k + j * step < end && at[j].key == key;
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) {
      if (has[j]) terms[j] = load(k + j * step, at[j]);
    }
  }

  // Adds terms first, first + 1, … to the sum, in this order.
  TFB_HOST_DEVICE void AddTo(T* sum, int first = 0) const {
    TFB_UNROLL
    for (int j = 0; j < kCount; ++j) {
      if (j >= first && has[j]) *sum += terms[j];
    }
  }
  TFB_HOST_DEVICE bool all() const { return has[kCount - 1]; }
};

// The sum of the terms at positions k, k + step, … below `end` that belong to the row of position k. Returns the last
// terms: if all are the row's there may be more of it.
template <int kCount, class T, class Groups, class Load>
TFB_HOST_DEVICE NextTerms<T, Groups, kCount> AddTerms(const Groups& groups, int64_t k, int64_t step, int64_t end,
                                                      const Load& load, T* sum) {
  using Terms = NextTerms<T, Groups, kCount>;
  end = Min(end, groups.size);
  Terms next(groups, k, step, end, nullptr, load);
  *sum = next.terms[0];
  next.AddTo(sum, 1);
  while (next.all() && (k += kCount * step) < end) {
    next = Terms(groups, k, step, end, &next.key, load);
    next.AddTo(sum);
  }
  return next;
}

// term(what stands at a position): T.
template <class T, class Groups, class Term>
TFB_HOST_DEVICE T SumOfPiece(const Groups& groups, int64_t k, const Term& term) {
  T sum;
  const auto load = [&](int64_t, const auto& at) { return term(at); };
  AddTerms<kTermsOfPiece>(groups, k, 1, k + kPiece, load, &sum);
  return sum;
}

// A column of partial sums [NumPartials, columns]. T: what a thread takes at once, as columns are counted.
template <class T>
struct PartialAt {
  T* column;
  int64_t columns;
  int64_t blocks;  // BlockSumsAt.
  TFB_HOST_DEVICE T OfPiece(int64_t begin) const { return column[begin / Pieces::kLength * columns]; }
  TFB_HOST_DEVICE T OfBlock(int64_t begin) const { return column[(blocks + begin / Blocks::kLength) * columns]; }
};

// The sum of a block of pieces that begins at k.
template <class T, class Groups>
TFB_HOST_DEVICE T SumOfBlock(const Groups& groups, int64_t k, const PartialAt<T>& partial) {
  T sum;
  const auto load = [&](int64_t piece, const auto&) { return partial.OfPiece(piece); };
  AddTerms<kTermsOfPiece>(groups, k, kPiece, k + Blocks::kLength, load, &sum);
  return sum;
}

// Stores the sum of what begins in a block of so many positions, if anything does: of a piece its terms', of a block of
// pieces that of their sums, which are stored already. keys: the sorted keys; groups: what terms are made of.
template <class Cuts, class T, class Keys, class Groups, class Term>
TFB_HOST_DEVICE void StorePartial(const Keys& keys, const Groups& groups, int64_t block, const Term& term,
                                  const PartialAt<T>& partial) {
  const int64_t begin = PieceIn<Cuts>(keys, block);
  if (begin < 0) return;
  if constexpr (std::is_same_v<Cuts, Pieces>) {
    StorePack(partial.column + block * partial.columns, SumOfPiece<T>(groups, begin, term));
  } else {
    StorePack(partial.column + (partial.blocks + block) * partial.columns, SumOfBlock(groups, begin, partial));
  }
}

// The sum of all terms of the row whose head is at k.
template <class T, class Groups, class Term>
TFB_HOST_DEVICE T SumOfRow(const Groups& groups, int64_t k, const Term& term, const PartialAt<T>& partial) {
  using Terms = NextTerms<T, Groups, kTermsAtOnce>;
  T sum;
  Terms next = AddTerms<kTermsAtOnce>(
      groups, k, 1, k + kPiece, [&](int64_t, const auto& at) { return term(at); }, &sum);
  const auto add = [&](auto cuts, int64_t end, const auto& load) {
    constexpr int64_t kLength = decltype(cuts)::kLength;
    for (int64_t begin = k + decltype(cuts)::kFirst; next.all() && begin < end; begin += kTermsAtOnce * kLength) {
      next = Terms(groups, begin, kLength, end, &next.key, load);
      next.AddTo(&sum);
    }
  };
  static_assert(kPiecesOfBlock % kTermsAtOnce == 0, "or all() would be false at the end of the first pieces");
  add(Pieces(), Min(k + Blocks::kFirst, groups.size),
      [&](int64_t piece, const auto&) { return partial.OfPiece(piece); });
  add(Blocks(), groups.size, [&](int64_t block, const auto&) { return partial.OfBlock(block); });
  return sum;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
