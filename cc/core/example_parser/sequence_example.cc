#include "cc/core/example_parser/sequence_example.h"

#include <map>
#include <utility>

#include "cc/core/example_parser/wire.h"

namespace tf_booster::example_parser {
namespace {

// Two bytes of an Example without features.
constexpr char kNoContext[] = {static_cast<char>(kLengthTag1), 0};

struct Bytes {
  const uint8_t* data;
  size_t size;
};

// By feature, what the last entry of its key holds; string features only.
using Strings = std::map<int32_t, Bytes>;

// As ExtractFeaturesFromSequenceExamples reads a map. False: it refuses the record.
bool ReadMap(WireReader map, const ParserSpec& spec, Strings* strings) {
  while (!map.AtEnd()) {
    uint32_t length;
    if (!map.Expect(kLengthTag1) || !map.ReadVarint32(&length)) return false;
    WireReader entry = map.Limited(length);
    map.Advance(entry.left());
    Bytes key, value;
    if (!entry.Expect(kLengthTag1) || !entry.ReadString(&key.data, &key.size) || !entry.Expect(kLengthTag2) ||
        !entry.ReadString(&value.data, &value.size) || !entry.AtEnd()) {
      return false;
    }
    const int32_t f = spec.index().Find(key.data, key.size);
    if (f >= 0 && spec.features()[f].type == ValueType::kBytes) (*strings)[f] = value;
  }
  return true;
}

bool ReadSequenceExample(const Record& record, const ParserSpec& context, const ParserSpec& lists,
                         Strings* context_strings, Strings* list_strings) {
  WireReader reader(reinterpret_cast<const uint8_t*>(record.data), record.size);
  while (!reader.AtEnd()) {
    const bool in_context = reader.Expect(kLengthTag1);
    if (!in_context && !reader.Expect(kLengthTag2)) {
      if (!reader.SkipField()) return false;
      continue;
    }
    uint32_t length;
    if (!reader.ReadVarint32(&length)) return false;
    const WireReader map = reader.Limited(length);
    reader.Advance(map.left());
    if (!ReadMap(map, in_context ? context : lists, in_context ? context_strings : list_strings)) return false;
  }
  return true;
}

enum class Found { kNothing, kError, kLongString };

// The BytesList of the Feature that begins at `reader`, which moves behind the list; what follows is not looked at.
// kError: TensorFlow finds the type wrong, or the list malformed.
Found ReadStringList(WireReader* reader) {
  uint32_t length;
  if (!reader->Expect(kLengthTag1) || !reader->ReadVarint32(&length)) return Found::kError;
  if (length == 0) return Found::kNothing;
  WireReader list = reader->Limited(length);
  reader->Advance(list.left());
  while (!list.AtEnd()) {
    if (!list.Expect(kLengthTag1) || !list.ReadVarint32(&length)) return Found::kError;
    if (length > list.left()) return Found::kLongString;
    list.Advance(length);
  }
  return Found::kNothing;
}

// The steps, as GetSequenceFeatureLengths reads them: behind a step's list goes on what the step should have ended.
Found ReadStringSteps(WireReader reader) {
  while (!reader.AtEnd()) {
    uint32_t length;
    if (!reader.Expect(kLengthTag1) || !reader.ReadVarint32(&length) || length == 1) return Found::kError;
    if (length == 2) {
      if (!reader.Expect(kLengthTag1) || !reader.ReadVarint32(&length) || length != 0) return Found::kError;
    } else if (length > 2) {
      WireReader step = reader.Limited(length);
      const size_t before = step.left();
      const Found found = ReadStringList(&step);
      if (found != Found::kNothing) return found;
      reader.Advance(before - step.left());
    }
  }
  return Found::kNothing;
}

}  // namespace

bool SplitSequenceExample(const Record& record, Record* context, Record* lists) {
  *context = {kNoContext, sizeof(kNoContext)};
  *lists = {nullptr, 0};
  if (record.size > kMaxRecordBytes) return false;
  bool context_seen = false, lists_seen = false;
  WireReader reader(reinterpret_cast<const uint8_t*>(record.data), record.size);
  while (!reader.AtEnd()) {
    const uint8_t* const field = reader.position();
    bool* const seen = *field == kLengthTag1 ? &context_seen : &lists_seen;
    if (*seen || (*field != kLengthTag1 && *field != kLengthTag2)) return false;
    *seen = true;
    reader.Advance(1);
    uint32_t length;
    if (!reader.ReadVarint32(&length) || length > reader.left()) return false;
    const char* const content = reinterpret_cast<const char*>(reader.position());
    reader.Advance(length);
    const char* const begin = reinterpret_cast<const char*>(field);
    if (*field == kLengthTag1) {
      *context = {begin, static_cast<size_t>(content - begin) + length};
    } else {
      *lists = {content, length};
    }
  }
  return true;
}

SequenceHazard FindHazard(const Record& record, const ParserSpec& context, const ParserSpec& lists) {
  if (record.size > kMaxRecordBytes) return {SequenceHazard::Kind::kTooLong};
  Strings context_strings, list_strings;
  // Maps come before lists: a record with a broken map is refused before its strings are looked at.
  if (!ReadSequenceExample(record, context, lists, &context_strings, &list_strings)) return {};
  for (const auto& [f, value] : context_strings) {
    WireReader feature(value.data, value.size);
    if (value.size > 0 && ReadStringList(&feature) == Found::kLongString) {
      return {SequenceHazard::Kind::kLongString, true, static_cast<size_t>(f)};
    }
  }
  for (const auto& [f, value] : list_strings) {
    if (ReadStringSteps(WireReader(value.data, value.size)) == Found::kLongString) {
      return {SequenceHazard::Kind::kLongString, false, static_cast<size_t>(f)};
    }
  }
  return {};
}

}  // namespace tf_booster::example_parser
