// The fields of a line of comma-separated values, split as tf.io.decode_csv splits them (RFC 4180).
#ifndef TF_BOOSTER_CC_CORE_TEXT_CSV_FIELDS_H_
#define TF_BOOSTER_CC_CORE_TEXT_CSV_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tf_booster {

struct CsvFormat {
  char delimiter = ',';
  bool quotes = true;            // Whether a field may stand in '"', and hold delimiters and '""' then.
  std::vector<int64_t> columns;  // The numbers of the wanted fields, ascending; empty: all.
  bool whole = false;            // Whether what follows the last wanted field must be well-formed, too.
};

// For one thread. Used for line after line, so that it allocates once.
class CsvFields {
 public:
  explicit CsvFields(CsvFormat format) : format_(std::move(format)) {}

  // Finds the wanted fields of a line: as many of them as it has. Behind the last one that is wanted nothing is
  // read, but if the format asks for the whole line.
  // Returns null, or what is wrong with the line, in TensorFlow's words.
  const char* Split(std::string_view line);

  // Those of the last line. They lie in it, or, if they held '""', in memory that the next one takes.
  const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  bool SplitPlain(std::string_view line);
  const char* SplitAny(std::string_view line);
  const char* Quoted(std::string_view line, size_t* at, std::string_view* field);
  bool IsWanted(size_t number) const;

  const CsvFormat format_;
  std::vector<std::string_view> fields_;
  std::string unescaped_;  // As long as the line, so that views of it stay.
};

}  // namespace tf_booster

#endif  // TF_BOOSTER_CC_CORE_TEXT_CSV_FIELDS_H_
