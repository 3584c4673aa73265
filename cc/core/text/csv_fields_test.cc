#include "cc/core/text/csv_fields.h"

#include <random>
#include <string>
#include <vector>

#include "cc/core/base/test.h"

namespace tf_booster {
namespace {

// What a line holds, or what is wrong with it.
struct Found {
  std::string wrong;
  std::vector<std::string> fields;
  bool operator==(const Found& other) const { return wrong == other.wrong && fields == other.fields; }
};

Found Split(CsvFields* split, const std::string& line) {
  const std::vector<char> copy(line.begin(), line.end());  // So that AddressSanitizer sees a read beyond the end.
  Found found;
  if (const char* wrong = split->Split({copy.data(), copy.size()})) {
    found.wrong = wrong;
  } else {
    found.fields.assign(split->fields().begin(), split->fields().end());
  }
  return found;
}

Found SplitBy(const CsvFormat& format, const std::string& line) {
  CsvFields split(format);
  return Split(&split, line);
}

// Character by character.
Found Expected(const CsvFormat& format, const std::string& line) {
  const Found bare{"Unquoted fields cannot have quotes/CRLFs inside", {}};
  const Found unescaped{"Quote inside a string has to be escaped by another quote", {}};
  const Found open{"Quoted field has to end with quote followed by delim or end", {}};
  Found found;
  std::vector<std::string> all;
  const auto take = [&](const std::string& field) {  // Whether what follows is not looked at.
    const auto& columns = format.columns;
    const bool all_found = !columns.empty() && found.fields.size() == columns.size();
    const bool wanted =
        columns.empty() || (!all_found && columns[found.fields.size()] == static_cast<int64_t>(all.size()));
    all.push_back(field);
    if (wanted) found.fields.push_back(field);
    return !format.whole && !columns.empty() && found.fields.size() == columns.size();
  };
  size_t i = 0;
  while (i < line.size()) {
    if (line[i] == '\n' || line[i] == '\r') {
      ++i;
      continue;
    }
    std::string field;
    if (format.quotes && line[i] == '"') {
      ++i;
      while (true) {
        if (i >= line.size()) return open;
        const bool last = i + 1 == line.size();
        if (line[i] != '"') {
          if (last) return open;
          field += line[i++];
        } else if (last || line[i + 1] == format.delimiter) {
          break;
        } else if (line[i + 1] == '"') {
          field += '"';
          i += 2;
        } else {
          return unescaped;
        }
      }
      i += 2;
    } else {
      while (i < line.size() && line[i] != format.delimiter) {
        if ((format.quotes && line[i] == '"') || line[i] == '\n' || line[i] == '\r') return bare;
        field += line[i++];
      }
      ++i;
    }
    if (take(field)) return found;
  }
  if (!line.empty() && line.back() == format.delimiter) take("");
  return found;
}

TEST(SplitsPlainLines) {
  EXPECT_TRUE(SplitBy({}, "a,bc,,d") == (Found{"", {"a", "bc", "", "d"}}));
  EXPECT_TRUE(SplitBy({}, ",") == (Found{"", {"", ""}}));
  EXPECT_TRUE(SplitBy({}, "") == Found{});
  EXPECT_TRUE(SplitBy({';', true, {}}, "a,b;c") == (Found{"", {"a,b", "c"}}));
  EXPECT_TRUE(SplitBy({',', true, {1, 3}}, "a,b,c,d,e") == (Found{"", {"b", "d"}}));
  EXPECT_TRUE(SplitBy({',', true, {1, 3}}, "a,b") == (Found{"", {"b"}}));
}

TEST(SplitsQuotedFields) {
  EXPECT_TRUE(SplitBy({}, R"("a,b","c""d""",e)") == (Found{"", {"a,b", "c\"d\"", "e"}}));
  EXPECT_TRUE(SplitBy({',', false, {}}, R"("a,b)") == (Found{"", {"\"a", "b"}}));
}

TEST(RefusesWhatIsNotClosed) {
  EXPECT_TRUE(!SplitBy({}, "\"a").wrong.empty());
  EXPECT_TRUE(!SplitBy({}, "\"a\"b,c").wrong.empty());
  EXPECT_TRUE(!SplitBy({}, "a\"b").wrong.empty());
  EXPECT_TRUE(!SplitBy({}, "a\r\n").wrong.empty());
  CsvFormat first{',', true, {0}};
  EXPECT_TRUE(SplitBy(first, "\"a\",b\"c") == (Found{"", {"a"}}));
  first.whole = true;
  EXPECT_TRUE(!SplitBy(first, "\"a\",b\"c").wrong.empty());
  EXPECT_TRUE(SplitBy(first, "\"a\",bc,") == (Found{"", {"a"}}));
}

TEST(ViewsOfSeveralEscapedFieldsStay) {
  const std::string line = "\"" + std::string(100, 'x') + "\"\"\",\"\"\"" + std::string(100, 'y') + "\",\"\"\"\"";
  const Found expected = {"", {std::string(100, 'x') + "\"", "\"" + std::string(100, 'y'), "\""}};
  EXPECT_TRUE(SplitBy({}, line) == expected);
}

// Of all lengths around the 16 bytes that are looked at together.
TEST(MarksAtAllPlaces) {
  CsvFields split((CsvFormat()));
  for (size_t length = 1; length <= 50; ++length) {
    for (size_t at = 0; at < length; ++at) {
      std::string line(length, 'x');
      for (const char mark : {',', '"', '\n', '\r'}) {
        line[at] = mark;
        EXPECT_TRUE(Split(&split, line) == Expected({}, line));
      }
    }
  }
}

TEST(RandomLines) {
  std::mt19937 random(7);
  const std::string characters = "ab,,\"\"\n\r;\x6c\xec";  // 0x6c and 0xec: what may stand behind the end of a line.
  int good = 0;
  for (int i = 0; i < 60000; ++i) {
    CsvFormat format;
    format.delimiter = ",;\"a\n"[random() % 20 < 16 ? 0 : random() % 5];
    format.quotes = random() % 4 > 0;
    format.whole = random() % 2 == 0;
    for (int64_t column = 0; random() % 3 == 0; ++column) format.columns.push_back(column += random() % 3);
    CsvFields split(format);
    for (int lines = 0; lines < 3; ++lines) {
      std::string line(random() % 40, ' ');
      const size_t kinds = random() % 2 ? characters.size() : 4;
      for (char& c : line) c = characters[random() % kinds];
      const Found expected = Expected(format, line);
      good += expected.wrong.empty();
      EXPECT_TRUE(Split(&split, line) == expected);
    }
  }
  EXPECT_TRUE(good > 20000);
}

}  // namespace
}  // namespace tf_booster
