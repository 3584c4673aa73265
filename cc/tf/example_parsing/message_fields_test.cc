// What is read beyond TensorFlow's own answers, which tests/ops/parse_example_lists_test.py compares with: views are of
// the message's own bytes, however it is cut or changed.
#include "cc/tf/example_parsing/message_fields.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/base/test.h"
#include "cc/core/example_parser/testing/wire_builder.h"

namespace tf_booster {
namespace {

using example_parser::testing::Field;
using example_parser::testing::Varint;
using Values = MessageFields::Values;

constexpr uint8_t kFirst = 1 << 3 | 2, kSecond = 2 << 3 | 2;

std::string Text(const MessageFields::Record& record) { return {record.data, record.size}; }

// Reads a copy that lies by itself, so that AddressSanitizer sees each byte beyond it.
tensorflow::Status Read(const MessageFields& fields, const std::string& message, std::vector<Values>* values) {
  std::unique_ptr<char[]> copy(new char[message.size()]);
  std::copy(message.begin(), message.end(), copy.get());
  values->assign(fields.size(), {});
  const auto status = fields.Read({copy.get(), message.size()}, values);
  size_t sum = 0;
  for (const Values& of_field : *values) {
    for (const auto& value : of_field) {
      EXPECT_TRUE(value.data >= copy.get() && value.data + value.size <= copy.get() + message.size());
      for (size_t i = 0; i < value.size; ++i) sum += static_cast<uint8_t>(value.data[i]);
    }
  }
  EXPECT_TRUE(sum < 256 * message.size() + 1);
  return status;
}

TEST(ValuesAreAppendedByField) {
  const MessageFields fields({{2, false}, {1, true}});
  const std::string message = Field(kFirst, "a") + Field(kSecond, "old") + Field(kFirst, "") + Field(kSecond, "new");
  std::vector<Values> values(2);
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(fields.Read({message.data(), message.size()}, &values).ok());
  EXPECT_EQ(values[0].size(), 2u);
  EXPECT_EQ(Text(values[0][1]), std::string("new"));
  EXPECT_EQ(values[1].size(), 4u);
  EXPECT_EQ(Text(values[1][2]), std::string("a"));
  EXPECT_EQ(Text(values[1][3]), std::string());
}

TEST(OtherFieldsAreSkipped) {
  const MessageFields fields({{1, true}});
  const std::string group = std::string{7 << 3 | 3} + Field(kFirst, "in a group") + std::string{7 << 3 | 4};
  const std::string number = std::string{3 << 3} + Varint(1234567), wrong_type = std::string{1 << 3} + Varint(5);
  std::vector<Values> values;
  EXPECT_TRUE(Read(fields, group + number + wrong_type + Field(kSecond, "x") + Field(kFirst, "wanted"), &values).ok());
  EXPECT_EQ(values[0].size(), 1u);
}

TEST(CutAndChangedMessagesAreReadWithinThemselves) {
  const MessageFields fields({{1, true}, {2, false}});
  const std::string message = Field(kFirst, std::string(200, 'e')) + std::string{3 << 3 | 5} + "four" +
                              Field(kFirst, "") + std::string{7 << 3 | 3, 7 << 3 | 4} + Field(kSecond, "context");
  std::vector<Values> values;
  EXPECT_TRUE(Read(fields, message, &values).ok());
  size_t errors = 0;
  for (size_t size = 0; size < message.size(); ++size) errors += !Read(fields, message.substr(0, size), &values).ok();
  EXPECT_TRUE(errors > 200);
  for (size_t at = 0; at < message.size(); ++at) {
    for (const int byte : {0, 1, 0x0A, 0x0B, 0x0C, 0x12, 0x7F, 0x80, 0xFF}) {
      std::string changed = message;
      changed[at] = static_cast<char>(byte);
      (void)Read(fields, changed, &values);
    }
  }
}

}  // namespace
}  // namespace tf_booster
