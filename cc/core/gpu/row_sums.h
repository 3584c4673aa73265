// Sums over the occurrences that row_groups.h has sorted: of pieces and blocks of long rows by two kernels, then of a
// row, from its terms or from its blocks. When a row's thread added the first 64 terms and 64 pieces itself, that of
// the most frequent of a million ids took some 0.1 ms of an H100's step of 0.7.
//
// Terms are asked for four or eight at a time and then added in that order: a thread that asked for the next one when
// it had added the last would wait for the card's memory as often as a row has terms.
#ifndef TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
#define TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_

#include <cstdint>
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

// Adds the terms at positions k, k + step, … below `end` that belong to a row. key: the row's; null: that of position
// k, and the sum begins with its term, so that -0 stays.
template <int kCount, class T, class Groups, class Load>
TFB_HOST_DEVICE void AddTerms(const Groups& groups, int64_t k, int64_t step, int64_t end, const Load& load,
                              const typename NextTerms<T, Groups, kCount>::Key* key, T* sum) {
  using Terms = NextTerms<T, Groups, kCount>;
  end = Min(end, groups.size);
  if (k >= end) return;
  Terms next(groups, k, step, end, key, load);
  if (key == nullptr) *sum = next.terms[0];
  next.AddTo(sum, key == nullptr ? 1 : 0);
  while (next.all() && (k += kCount * step) < end) {
    next = Terms(groups, k, step, end, &next.key, load);
    next.AddTo(sum);
  }
}

// term(what stands at a position): T.
template <class T, class Groups, class Term>
TFB_HOST_DEVICE T SumOfPiece(const Groups& groups, int64_t k, const Term& term) {
  T sum = {};
  const auto load = [&](int64_t, const auto& at) { return term(at); };
  AddTerms<kTermsOfPiece>(groups, k, 1, k + kPiece, load, nullptr, &sum);
  return sum;
}

// A column of partial sums [NumPartials, columns]. T: what a thread takes at once, as columns are counted.
template <class T>
struct PartialAt {
  T* column;
  int64_t columns;
  int64_t windows;  // WindowsOf.
  TFB_HOST_DEVICE T* Place(int64_t place) const { return column + place * columns; }
  TFB_HOST_DEVICE T* OfFirst(int64_t head) const { return Place(head / kPiece); }
  TFB_HOST_DEVICE T* OfPiece(int64_t begin) const { return Place(windows + begin / kPiece); }
  TFB_HOST_DEVICE T* OfBlock(int64_t begin) const { return Place(2 * windows + begin / kBlock); }
};

// Unit: of PieceUnits, whose places are theirs. Stores the sum of the piece that belongs there, if any does. keys: the
// sorted keys; groups: what terms are made of.
template <class T, class Keys, class Groups, class Term>
TFB_HOST_DEVICE void StorePiece(const Keys& keys, const Groups& groups, int64_t unit, const Term& term,
                                const PartialAt<T>& partial) {
  const int64_t windows = partial.windows;
  const int64_t begin = unit < windows ? LongRowIn(keys, unit) : CutIn<kPiece>(keys, unit - windows);
  if (begin >= 0) StorePack(partial.Place(unit), SumOfPiece<T>(groups, begin, term));
}

// Unit: of BlockUnits. The same of a block, from the sums of its pieces.
template <class T, class Keys, class Groups>
TFB_HOST_DEVICE void StoreBlock(const Keys& keys, const Groups& groups, int64_t unit, const PartialAt<T>& partial) {
  const bool is_first = unit < partial.windows;
  const int64_t begin = is_first ? LongRowIn(keys, unit) : CutIn<kBlock>(keys, unit - partial.windows);
  if (begin < 0) return;
  T* const place = is_first ? partial.OfFirst(begin) : partial.OfBlock(begin);
  T sum = is_first ? *place : *partial.OfPiece(begin);
  const auto load = [&](int64_t piece, const auto&) { return *partial.OfPiece(piece); };
  const auto key = keys.keys[begin];
  AddTerms<kTermsOfPiece>(groups, begin + kPiece, kPiece, begin + kBlock, load, &key, &sum);
  StorePack(place, sum);
}

// Either of them.
template <bool kBlocks, class T, class Keys, class Groups, class Term>
TFB_HOST_DEVICE void StorePartial(const Keys& keys, const Groups& groups, int64_t unit, const Term& term,
                                  const PartialAt<T>& partial) {
  if constexpr (kBlocks) {
    StoreBlock(keys, groups, unit, partial);
  } else {
    StorePiece(keys, groups, unit, term, partial);
  }
}

// The sum of all terms of the row whose head is at k.
template <class T, class Groups, class Term>
TFB_HOST_DEVICE T SumOfRow(const Groups& groups, int64_t k, const Term& term, const PartialAt<T>& partial) {
  using Terms = NextTerms<T, Groups, kTermsAtOnce>;
  const int64_t size = groups.size, end = Min(k + kPiece, size);
  const auto load = [&](int64_t, const auto& at) { return term(at); };
  Terms next(groups, k, 1, end, nullptr, load);
  T sum = next.terms[0];
  next.AddTo(&sum, 1);
  if (!next.all()) return sum;
  if (k + kPiece < size && groups.At(k + kPiece).key == next.key) {
    sum = *partial.OfFirst(k);
    const auto load_block = [&](int64_t block, const auto&) { return *partial.OfBlock(block); };
    for (int64_t block = k + kBlock; next.all() && block < size; block += kTermsAtOnce * kBlock) {
      next = Terms(groups, block, kBlock, size, &next.key, load_block);
      next.AddTo(&sum);
    }
    return sum;
  }
  while (next.all() && (k += kTermsAtOnce) < end) {
    next = Terms(groups, k, 1, end, &next.key, load);
    next.AddTo(&sum);
  }
  return sum;
}

}  // namespace gpu
}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_GPU_ROW_SUMS_H_
