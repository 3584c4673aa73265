// Weights rounded to integers and packed, in plain loops that compilers vectorise. Included inside a level's namespace.
#ifndef TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PACK_H_
#define TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PACK_H_

// Row i of the panel, with zeros behind the last column and the last row.
inline void ReadRow(const PanelJob& job, int64_t i, float* row) {
  const int64_t columns = i < job.k ? job.columns : 0;
  if (columns == kPanel) return std::copy_n(job.b + i * job.step, kPanel, row), void();
  std::fill(std::copy_n(job.b + i * job.step, columns, row), row + kPanel, 0.0f);
}

template <class Format>
void Pack(const PanelJob& job) {
  const int64_t width = job.vectors * kQuantizedLanes;
  alignas(64) float row[kPanel], inverse[kPanel];
  alignas(64) uint32_t largest[kPanel] = {}, kept[kPanel];
  for (int64_t i = 0; i < job.k; ++i) {
    const float* const b = job.b + i * job.step;
    for (int64_t j = 0; j < job.columns; ++j) largest[j] = std::max(largest[j], MagnitudeBits(b[j]));
  }
  for (int64_t j = 0; j < width; ++j) {
    float magnitude;
    std::memcpy(&magnitude, &largest[j], sizeof(magnitude));
    job.is_float[j] = largest[j] >= kInfinityBits || (largest[j] > 0 && magnitude < kSmallestRange);
    const bool rounded = largest[j] > 0 && !job.is_float[j];
    job.scales[j] = rounded ? magnitude / Format::kMaxWeight : 0;
    inverse[j] = rounded ? Format::kMaxWeight / magnitude : 0;
    kept[j] = rounded ? ~0u : 0;  // What is no number rounds to anything.
  }
  constexpr uint32_t kMask = Format::kGroup == 4 ? 0xFF : 0xFFFF;
  constexpr int kShift = 32 / Format::kGroup;
  alignas(64) uint32_t words[kPanel];
  for (int64_t i = 0, group = 0; i < job.k; i += Format::kGroup, ++group) {
    int32_t* const sums = job.sums + i / Format::kBlock * job.sums_step;
    std::fill_n(words, kPanel, 0);
    for (int64_t t = 0; t < Format::kGroup; ++t) {
      ReadRow(job, i + t, row);
      for (int64_t j = 0; j < width; ++j) {
        const uint32_t value = static_cast<uint32_t>(RoundToInt(row[j] * inverse[j])) & kept[j];
        sums[j] += static_cast<int32_t>(value);
        words[j] |= (value & kMask) << (t * kShift);
      }
    }
    std::memcpy(job.data + group * width * 4, words, width * 4);
  }
}

inline void PackPanel(QuantizedType type, const PanelJob& job) {
  if (type == QuantizedType::kInt8) return Pack<Int8Format>(job);
  Pack<Int16Format>(job);
}

#endif  // TF_BOOSTER_CC_CORE_PRODUCTS_QUANTIZED_PACK_H_
