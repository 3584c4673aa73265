// Reads the text of a PTX module. What it does not know it refuses: a program that is read is one that runs as written.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cc/ptx_machine/machine.h"

namespace tf_booster::ptx {
namespace {

using Words = std::vector<std::string>;

std::string Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

bool Begins(std::string_view text, std::string_view beginning) { return text.substr(0, beginning.size()) == beginning; }

bool IsName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

Words SplitAt(const std::string& text, char separator) {
  Words parts;
  size_t begin = 0, depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(Trimmed(std::string_view(text).substr(begin, i - begin)));
      begin = i + 1;
    } else if (std::strchr("{[(", text[i])) {
      ++depth;
    } else if (std::strchr("}])", text[i])) {
      --depth;
    }
  }
  return parts;
}

Words SplitAtSpaces(const std::string& text) {
  Words words;
  for (size_t i = 0; i < text.size();) {
    while (i < text.size() && std::isspace(static_cast<unsigned char>(text[i]))) ++i;
    const size_t begin = i;
    while (i < text.size() && !std::isspace(static_cast<unsigned char>(text[i]))) ++i;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

int64_t BytesOfType(const std::string& type) {
  if (type == "pred") return 1;
  const size_t digits = type.find_first_of("0123456789");
  const int64_t bits = digits == std::string::npos ? 0 : std::atoi(type.c_str() + digits);
  if (bits % 8 != 0 || bits == 0) throw Fault("PTX type '" + type + "' is not known");
  return bits / 8;
}

// ".param .align 8 .b8 name[24]", without what comes behind it.
struct Declaration {
  std::string name, type;
  int64_t bytes, alignment;
  bool sized = true;
};
Declaration ReadDeclaration(const std::string& text) {
  Declaration declared;
  declared.alignment = 0;
  const Words words = SplitAtSpaces(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ".align") {
      declared.alignment = std::atoll(words[++i].c_str());
    } else if (words[i][0] == '.') {
      declared.type = words[i].substr(1);
    } else {
      declared.name = words[i];
    }
  }
  const int64_t size = BytesOfType(declared.type);
  if (declared.alignment == 0) declared.alignment = size;
  int64_t elements = 1;
  const size_t bracket = declared.name.find('[');
  if (bracket != std::string::npos) {
    elements = std::atoll(declared.name.c_str() + bracket + 1);
    declared.sized = declared.name[bracket + 1] != ']';
    declared.name.resize(bracket);
  }
  declared.bytes = size * elements;
  return declared;
}

int64_t Placed(int64_t end, const Declaration& declared) {
  return (end + declared.alignment - 1) / declared.alignment * declared.alignment;
}

// Spaces in place of comments, so that places stay.
void RemoveComments(std::string* text) {
  for (size_t i = 0; i + 1 < text->size(); ++i) {
    if ((*text)[i] != '/') continue;
    size_t end = i;
    if ((*text)[i + 1] == '/') end = std::min(text->find('\n', i), text->size());
    if ((*text)[i + 1] == '*') end = std::min(text->find("*/", i), text->size() - 2) + 2;
    std::fill(text->begin() + i, text->begin() + end, ' ');
  }
}

// Says nothing about what is computed: how memory is cached, who sees what when (here all do at once), how far a
// branch's threads stay together.
const std::set<std::string>& Idle() {
  static const std::set<std::string> idle = {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak",
                                             "gpu",      "cta",     "sys",     "ca",      "cg",      "cs",
                                             "cv",       "lu",      "wb",      "wt",      "nc",      "uni"};
  return idle;
}

}  // namespace

class FunctionReader {
 public:
  FunctionReader(Module* module, Function* function) : module_(module), function_(function) {}

  void Read() {
    ReadHead();
    ReadBody();
    for (auto& [instruction, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) Refuse("no label '" + label + "'");
      function_->instructions[instruction].target = found->second;
    }
    Instruction end;
    end.run = RunReturn;
    end.kind = Kind::kBranch;
    end.text = "(end)";
    function_->instructions.push_back(end);
    PlaceRegisters();
    function_->read = true;
  }

 private:
  struct Scope {
    std::map<std::string, int32_t> registers;
    std::map<std::string, std::pair<int32_t, int32_t>> families;  // %r<7>: the first, and how many.
    std::map<std::string, int64_t> parameters;
  };

  [[noreturn]] void Refuse(const std::string& why) const {
    throw Fault("PTX of " + function_->name + ": " + why + (statement_.empty() ? "" : ", in \"" + statement_ + "\""));
  }

  void ReadHead() {
    scopes_.emplace_back();
    std::string head(function_->head);
    // .func (.param .b64 result) name(.param …, .param …), or .entry name(…) with directives behind it.
    const size_t name = head.find(function_->name);
    const std::string before = head.substr(0, name);
    const size_t open = head.find('(', name), close = head.find(')', name);
    int64_t end = 0;
    if (open != std::string::npos) {
      for (const std::string& text : SplitAt(head.substr(open + 1, close - open - 1), ',')) {
        if (text.empty()) continue;
        const Declaration declared = ReadDeclaration(text);
        const int64_t offset = Placed(end, declared);
        scopes_.back().parameters[declared.name] = offset;
        function_->parameters.push_back({offset, declared.bytes});
        end = offset + declared.bytes;
      }
    }
    const size_t result = before.find('(');
    if (result != std::string::npos) {
      const Declaration declared = ReadDeclaration(before.substr(result + 1, before.find(')') - result - 1));
      const int64_t offset = Placed(end, declared);
      scopes_.back().parameters[declared.name] = offset;
      function_->result = {offset, declared.bytes};
      end = offset + declared.bytes;
    }
    function_->parameter_bytes = end;
  }

  void ReadBody() {
    const std::string_view body = function_->body;
    for (size_t i = 0; i < body.size();) {
      const char c = body[i];
      if (std::isspace(static_cast<unsigned char>(c)) || c == ';') {
        ++i;
      } else if (c == '{') {
        scopes_.emplace_back();
        ++i;
      } else if (c == '}') {
        scopes_.pop_back();
        ++i;
      } else {
        size_t end = i;
        while (end < body.size() && IsName(body[end])) ++end;
        if (end < body.size() && body[end] == ':') {
          labels_[std::string(body.substr(i, end - i))] = static_cast<uint32_t>(function_->instructions.size());
          i = end + 1;
          continue;
        }
        end = body.find(';', i);
        if (end == std::string_view::npos) Refuse("no end of a statement");
        statement_ = Trimmed(body.substr(i, end - i));
        std::replace_if(
            statement_.begin(), statement_.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
        if (c == '.') {
          ReadDirective();
        } else {
          ReadInstruction();
        }
        statement_.clear();
        i = end + 1;
      }
    }
  }

  int32_t NewRegisters(int32_t n) {
    registers_ += n;
    return registers_ - n;
  }

  // Constants are numbered from kConstants on while there is no telling how many there are. In the end they come first,
  // so that a thread begins with a copy of few registers.
  static constexpr int32_t kConstants = 1 << 30;
  void PlaceRegisters() {
    std::vector<uint64_t>& first = function_->registers;
    first.assign(kSpecials, 0);
    first.insert(first.end(), constants_.begin(), constants_.end());
    const int32_t constants = static_cast<int32_t>(constants_.size());
    const auto place = [&](int32_t* which) {
      if (*which >= kConstants) {
        *which += kSpecials - kConstants;
      } else if (*which >= kSpecials) {
        *which += constants;
      }
    };
    for (Instruction& i : function_->instructions) {
      place(&i.guard);
      std::for_each(std::begin(i.to), std::end(i.to), [&](int32_t& which) { place(&which); });
      std::for_each(std::begin(i.from), std::end(i.from), [&](int32_t& which) { place(&which); });
    }
    function_->all_registers = registers_ + constants;
  }

  void ReadDirective() {
    const std::string directive = SplitAtSpaces(statement_)[0];
    if (directive == ".pragma" || directive == ".loc") return;
    if (directive == ".reg") {
      for (std::string text : SplitAt(statement_, ',')) {
        const std::string name = SplitAtSpaces(text).back();
        const size_t less = name.find('<');
        if (less == std::string::npos) {
          scopes_.back().registers[name] = NewRegisters(1);
        } else {
          const int32_t n = std::atoi(name.c_str() + less + 1);
          scopes_.back().families[name.substr(0, less)] = {NewRegisters(n), n};
        }
      }
    } else if (directive == ".param") {
      const Declaration declared = ReadDeclaration(statement_);
      const int64_t offset = Placed(function_->parameter_bytes, declared);
      scopes_.back().parameters[declared.name] = offset;
      function_->parameter_bytes = offset + declared.bytes;
    } else if (directive == ".local") {
      const Declaration declared = ReadDeclaration(statement_);
      const int64_t offset = Placed(function_->local_bytes, declared);
      locals_[declared.name] = offset;
      function_->local_bytes = offset + declared.bytes;
    } else if (directive == ".shared") {
      const Declaration declared = ReadDeclaration(statement_);
      const int64_t offset = Placed(function_->shared_bytes, declared);
      shared_[declared.name] = offset;
      function_->shared_bytes = offset + declared.bytes;
    } else {
      Refuse("a directive that is not known");
    }
  }

  static uint64_t Number(const std::string& text) {
    if (Begins(text, "0f") || Begins(text, "0F") || Begins(text, "0d") || Begins(text, "0D")) {
      return std::strtoull(text.c_str() + 2, nullptr, 16);
    }
    if (text[0] == '-') return ~std::strtoull(text.c_str() + 1, nullptr, 0) + 1;
    return std::strtoull(text.c_str(), nullptr, 0);
  }

  bool FindRegister(const std::string& name, int32_t* found) const {
    static const std::map<std::string, int32_t> special = {{"%tid.x", kThreadX},          {"%tid.y", kThreadY},
                                                           {"%tid.z", kThreadZ},          {"%ntid.x", kThreadsX},
                                                           {"%ntid.y", kThreadsY},        {"%ntid.z", kThreadsZ},
                                                           {"%ctaid.x", kBlockX},         {"%ctaid.y", kBlockY},
                                                           {"%ctaid.z", kBlockZ},         {"%nctaid.x", kBlocksX},
                                                           {"%nctaid.y", kBlocksY},       {"%nctaid.z", kBlocksZ},
                                                           {"%laneid", kLaneId},          {"%warpid", kWarpId},
                                                           {"%lanemask_eq", kLanesEqual}, {"%lanemask_le", kLanesUpTo},
                                                           {"%lanemask_lt", kLanesBelow}, {"%lanemask_ge", kLanesFrom},
                                                           {"%lanemask_gt", kLanesAbove}, {"_", kSink}};
    const auto known = special.find(name);
    if (known != special.end()) {
      *found = known->second;
      return true;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto single = scope->registers.find(name);
      if (single != scope->registers.end()) {
        *found = single->second;
        return true;
      }
      size_t digits = name.size();
      while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
      if (digits == name.size()) continue;
      const auto family = scope->families.find(name.substr(0, digits));
      if (family == scope->families.end()) continue;
      const int32_t place = std::atoi(name.c_str() + digits);
      if (place >= family->second.second) Refuse("register " + name + " is beyond its family");
      *found = family->second.first + place;
      return true;
    }
    return false;
  }

  bool FindParameter(const std::string& name, int64_t* offset) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->parameters.find(name);
      if (found == scope->parameters.end()) continue;
      *offset = found->second;
      return true;
    }
    return false;
  }

  // A constant of the kinds that `from` may be: a register, a number, or the address of a variable in its space.
  int32_t Operand(const std::string& text) {
    int32_t found;
    if (FindRegister(text, &found)) return found;
    uint64_t value;
    if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-') {
      value = Number(text);
    } else if (!FindAddress(text, &value)) {
      Refuse("'" + text + "' is not known");
    }
    const auto constant = constant_places_.find(value);
    if (constant != constant_places_.end()) return constant->second;
    constants_.push_back(value);
    return constant_places_[value] = kConstants + static_cast<int32_t>(constants_.size()) - 1;
  }

  bool FindAddress(const std::string& name, uint64_t* address) const {
    int64_t offset;
    if (FindParameter(name, &offset)) {
      *address = static_cast<uint64_t>(offset);
      return true;
    }
    const auto shared = shared_.find(name);
    if (shared != shared_.end()) {
      *address = static_cast<uint64_t>(shared->second);
      return true;
    }
    const auto variable = module_->variables_.find(name);
    if (variable == module_->variables_.end()) return false;
    *address = reinterpret_cast<uint64_t>(variable->second->data());
    return true;
  }

  // "{a, b}" or one.
  Words Elements(const std::string& text) {
    if (text[0] != '{') return {text};
    return SplitAt(text.substr(1, text.size() - 2), ',');
  }

  void To(Instruction* i, const std::string& text) {
    const Words names = text.find('|') != std::string::npos ? SplitAt(text, '|') : Elements(text);
    if (names.size() > 4) Refuse("more than four results");
    for (size_t n = 0; n < names.size(); ++n) {
      if (!FindRegister(names[n], &i->to[n])) Refuse("'" + names[n] + "' is no register");
    }
    if (text[0] == '{') i->elements = static_cast<uint8_t>(names.size());
  }

  void Address(Instruction* i, const std::string& text) {
    if (text.size() < 2 || text[0] != '[') Refuse("'" + text + "' is no address");
    const Words terms = SplitAt(text.substr(1, text.size() - 2), '+');
    i->from[0] = Operand(terms[0]);
    i->offset = terms.size() > 1 ? static_cast<int64_t>(Number(terms[1])) : 0;
    if (terms.size() > 2) Refuse("an address of more than two terms");
  }

  void Values(Instruction* i, const std::string& text) {
    const Words names = Elements(text);
    if (names.size() > 4) Refuse("more than four values");
    for (size_t n = 0; n < names.size(); ++n) i->from[1 + n] = Operand(names[n]);
    i->elements = static_cast<uint8_t>(names.size());
  }

  void ReadInstruction() {
    Instruction i;
    function_->texts.push_back(std::make_unique<std::string>(statement_));
    i.text = function_->texts.back()->c_str();
    std::string rest = statement_;
    if (rest[0] == '@') {
      i.unless = rest[1] == '!';
      const size_t begin = i.unless ? 2 : 1, end = rest.find_first_of(" \t", begin);
      if (!FindRegister(rest.substr(begin, end - begin), &i.guard)) Refuse("the predicate is not known");
      rest = Trimmed(std::string_view(rest).substr(end));
    }
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string name = rest.substr(0, end);
    const std::string operands = Trimmed(std::string_view(rest).substr(end));
    const Words parts = SplitAt(name, '.');
    Words arguments = operands.empty() ? Words() : SplitAt(operands, ',');
    Complete(&i, name, parts, arguments);
    i.kind = KindOf(name);
    function_->instructions.push_back(i);
  }

  static Words WithoutIdle(const Words& parts) {
    Words kept;
    for (const std::string& part : parts) {
      if (Idle().count(part) == 0) kept.push_back(part);
    }
    return kept;
  }

  void Want(const Words& arguments, size_t n) const {
    if (arguments.size() != n)
      Refuse("found " + std::to_string(arguments.size()) + " operands, wanted " + std::to_string(n));
  }

  void Complete(Instruction* i, const std::string& name, const Words& parts, const Words& arguments) {
    const std::string& operation = parts[0];
    if (operation == "bra") {
      if (name != "bra" && name != "bra.uni") Refuse("a branch that is not known");
      Want(arguments, 1);
      i->run = RunBranch;
      branches_.emplace_back(function_->instructions.size(), arguments[0]);
    } else if (operation == "call") {
      CompleteCall(i, arguments);
    } else if (name == "ret") {
      i->run = RunReturn;
    } else if (name == "exit") {
      i->run = RunExit;
    } else if (name == "trap") {
      i->run = RunTrap;
    } else if (operation == "membar" || operation == "fence") {
      i->run = RunNothing;
    } else if (name == "nanosleep.u32") {
      i->run = RunYield;
    } else if (operation == "ld" || operation == "st" || operation == "atom" || operation == "red") {
      CompleteAccess(i, operation, parts, arguments);
    } else if (operation == "shfl" || operation == "vote" || operation == "match" || name == "bar.warp.sync") {
      CompleteMeeting(i, name, arguments);
    } else if (name == "activemask.b32") {
      Want(arguments, 1);
      To(i, arguments[0]);
      i->run = RunActiveMask;
    } else if (operation == "bar" || operation == "barrier") {
      CompleteBarrier(i, name, arguments);
    } else if (operation == "cvta") {
      CompleteAddressCast(i, name, arguments);
    } else if (operation == "mov" && CompleteMove(i, parts, arguments)) {
    } else {
      CompleteOperation(i, name, arguments);
    }
  }

  void CompleteCall(Instruction* i, const Words& arguments) {
    // (result), function, (arguments), of which the first and the last may be missing.
    function_->calls.push_back(std::make_unique<Call>());
    Call& call = *function_->calls.back();
    const auto offset_of = [&](const std::string& name) {
      int64_t offset;
      if (!FindParameter(name, &offset)) Refuse("'" + name + "' is no parameter");
      return offset;
    };
    const auto inside = [](const std::string& text) { return SplitAt(text.substr(1, text.size() - 2), ','); };
    size_t next = 0;
    if (arguments[next][0] == '(') call.result = offset_of(inside(arguments[next++])[0]);
    const std::string callee = arguments.at(next++);
    if (next < arguments.size()) {
      for (const std::string& argument : inside(arguments[next])) call.arguments.push_back(offset_of(argument));
    }
    call.function = module_->Find(callee);
    if (call.function == nullptr) Refuse("no function '" + callee + "' in this module");
    i->run = RunCall;
    i->call = &call;
  }

  void CompleteAccess(Instruction* i, const std::string& operation, const Words& parts, const Words& arguments) {
    static const std::map<std::string, Space> spaces = {{"global", Space::kGlobal},
                                                        {"shared", Space::kShared},
                                                        {"local", Space::kLocal},
                                                        {"param", Space::kParameters},
                                                        {"const", Space::kGlobal}};
    static const std::map<std::string, Atomic> atomics = {
        {"add", kAdd}, {"min", kMin}, {"max", kMax},       {"and", kAnd},
        {"or", kOr},   {"xor", kXor}, {"exch", kExchange}, {"cas", kCompareExchange}};
    const bool atomic = operation == "atom" || operation == "red";
    bool known_atomic = !atomic;
    const Words words = WithoutIdle(parts);
    for (size_t w = 1; w + 1 < words.size(); ++w) {
      const auto space = spaces.find(words[w]);
      const auto how = atomics.find(words[w]);
      if (space != spaces.end()) {
        i->space = space->second;
      } else if (atomic && how != atomics.end()) {
        i->mode = how->second;
        known_atomic = true;
      } else if (atomic || (words[w] != "v2" && words[w] != "v4")) {
        Refuse("'" + words[w] + "' is not known");
      }
    }
    if (!known_atomic) Refuse("an atomic that is not known");
    const std::string& type = words.back();
    if (operation == "ld") {
      Want(arguments, 2);
      To(i, arguments[0]);
      Address(i, arguments[1]);
      i->run = FindLoad(type);
    } else if (operation == "st") {
      Want(arguments, 2);
      Address(i, arguments[0]);
      Values(i, arguments[1]);
      i->run = FindStore(type);
    } else {
      const size_t first = operation == "atom" ? 1 : 0;
      Want(arguments, first + (i->mode == kCompareExchange ? 3 : 2));
      if (first == 1) To(i, arguments[0]);
      Address(i, arguments[first]);
      i->from[1] = Operand(arguments[first + 1]);
      if (i->mode == kCompareExchange) i->from[2] = Operand(arguments[first + 2]);
      i->run = FindAtomic(type);
    }
    if (i->run == nullptr) Refuse("type '" + type + "' is not known");
    i->bytes = static_cast<uint8_t>(BytesOfType(type) * i->elements);
    for (const char* word : {"volatile", "relaxed", "acquire", "cg", "cv"}) {
      i->passes_l1 = i->passes_l1 || std::find(parts.begin(), parts.end(), word) != parts.end();
    }
  }

  void CompleteMeeting(Instruction* i, const std::string& name, const Words& arguments) {
    static const std::map<std::string, std::pair<Meeting, size_t>> meetings = {
        {"shfl.sync.up.b32", {kShuffleUp, 5}},    {"shfl.sync.down.b32", {kShuffleDown, 5}},
        {"shfl.sync.bfly.b32", {kShuffleXor, 5}}, {"shfl.sync.idx.b32", {kShuffleFrom, 5}},
        {"vote.sync.ballot.b32", {kBallot, 3}},   {"vote.ballot.sync.b32", {kBallot, 3}},
        {"vote.sync.all.pred", {kAll, 3}},        {"vote.all.sync.pred", {kAll, 3}},
        {"vote.sync.any.pred", {kAny, 3}},        {"vote.any.sync.pred", {kAny, 3}},
        {"match.any.sync.b32", {kMatchAny32, 3}}, {"match.any.sync.b64", {kMatchAny64, 3}},
        {"bar.warp.sync", {kWarpBarrier, 1}}};
    const auto found = meetings.find(name);
    if (found == meetings.end()) Refuse("'" + name + "' is not known");
    i->mode = found->second.first;
    Want(arguments, found->second.second);
    if (i->mode != kWarpBarrier) To(i, arguments[0]);
    for (size_t a = 1; a + 1 < arguments.size(); ++a) i->from[a - 1] = Operand(arguments[a]);
    i->from[kMask] = Operand(arguments.back());
    i->run = RunMeeting;
  }

  void CompleteBarrier(Instruction* i, const std::string& name, const Words& arguments) {
    i->run = RunBarrier;
    if (name == "bar.sync" || name == "barrier.sync" || name == "barrier.sync.aligned" || name == "bar.cta.sync") {
      Want(arguments, 1);
      return;
    }
    static const std::map<std::string, Meeting> reductions = {{"bar.red.or.pred", kAny}, {"bar.red.and.pred", kAll}};
    const auto found = reductions.find(name);
    if (found == reductions.end()) Refuse("'" + name + "' is not known");
    Want(arguments, 3);
    To(i, arguments[0]);
    i->from[0] = Operand(arguments[2]);
    i->mode = found->second;
  }

  // Between a space's own addresses and generic ones; those of global memory are the same.
  void CompleteAddressCast(Instruction* i, const std::string& name, const Words& arguments) {
    Want(arguments, 2);
    To(i, arguments[0]);
    const bool back = name.find(".to.") != std::string::npos;
    static const std::map<std::string, uint64_t> windows = {
        {"global", 0}, {"shared", kSharedWindow}, {"local", kLocalWindow}, {"param", kParameterWindow}, {"const", 0}};
    const auto window = windows.find(SplitAt(name, '.')[back ? 2 : 1]);
    if (window == windows.end()) Refuse("'" + name + "' is not known");
    i->from[0] = Operand(arguments[1]);
    i->offset = static_cast<int64_t>(window->second);
    i->run = back ? RunLessOffset : RunAddOffset;
  }

  bool CompleteMove(Instruction* i, const Words& parts, const Words& arguments) {
    Want(arguments, 2);
    const int bits = parts.back() == "pred" ? 1 : 8 * static_cast<int>(BytesOfType(parts.back()));
    if (arguments[0][0] == '{') {
      To(i, arguments[0]);
      i->from[0] = Operand(arguments[1]);
      i->run = FindUnpack(bits / i->elements);
    } else if (arguments[1][0] == '{') {
      To(i, arguments[0]);
      const Words names = Elements(arguments[1]);
      if (names.size() > 4) Refuse("more than four values");
      for (size_t n = 0; n < names.size(); ++n) i->from[n] = Operand(names[n]);
      i->elements = static_cast<uint8_t>(names.size());
      i->run = FindPack(bits / i->elements);
    } else {
      const auto local = locals_.find(arguments[1]);
      if (local == locals_.end()) return false;
      To(i, arguments[0]);
      i->from[0] = kLocalBase;
      i->offset = local->second;
      i->run = RunAddOffset;
    }
    if (i->run == nullptr) Refuse("a vector that is not known");
    return true;
  }

  void CompleteOperation(Instruction* i, const std::string& name, const Words& arguments) {
    i->run = FindOperation(name);
    if (i->run == nullptr) Refuse("'" + name + "' is not known");
    if (arguments.empty()) Refuse("no operands");
    To(i, arguments[0]);
    size_t sources = arguments.size() - 1;
    if (name == "lop3.b32") i->offset = static_cast<int64_t>(Number(arguments[sources--]));
    if (sources > 4) Refuse("too many operands");
    for (size_t a = 0; a < sources; ++a) i->from[a] = Operand(arguments[a + 1]);
  }

  Module* module_;
  Function* function_;
  std::vector<Scope> scopes_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
  std::map<std::string, int64_t> locals_, shared_;
  int32_t registers_ = kSpecials;
  std::vector<uint64_t> constants_;
  std::map<uint64_t, int32_t> constant_places_;
  std::string statement_;
};

Module::Module(std::string text) : text_(std::move(text)) {
  RemoveComments(&text_);
  const std::string_view all = text_;
  for (size_t i = 0; i < all.size();) {
    if (std::isspace(static_cast<unsigned char>(all[i])) || all[i] == ';') {
      ++i;
      continue;
    }
    // A directive ends with its line or its ';', a function with its last brace.
    size_t end = all.find_first_of("\n;{(", i);
    if (end == std::string_view::npos) end = all.size();
    const std::string_view line = all.substr(i, end - i);
    const bool function = line.find(".entry") != std::string_view::npos || line.find(".func") != std::string_view::npos;
    if (function) {
      const size_t open = all.find('{', i), semicolon = all.find(';', i);
      if (semicolon < open) {  // Only declared; its definition follows.
        i = semicolon + 1;
        continue;
      }
      size_t depth = 1, close = open + 1;
      for (; close < all.size() && depth > 0; ++close) depth += all[close] == '{' ? 1 : all[close] == '}' ? -1 : 0;
      auto made = std::make_unique<Function>();
      made->entry = line.find(".entry") != std::string_view::npos;
      made->head = all.substr(i, open - i);
      made->body = all.substr(open + 1, close - open - 2);
      // Behind ".entry", or ".func" and its result in brackets.
      size_t name = i + line.find(made->entry ? ".entry" : ".func") + (made->entry ? 6 : 5);
      while (std::isspace(static_cast<unsigned char>(all[name]))) ++name;
      if (all[name] == '(') name = all.find(')', name) + 1;
      while (std::isspace(static_cast<unsigned char>(all[name]))) ++name;
      size_t name_end = name;
      while (IsName(all[name_end])) ++name_end;
      made->name = std::string(all.substr(name, name_end - name));
      functions_[made->name] = std::move(made);
      i = close;
    } else if (line.find(".global") != std::string_view::npos || line.find(".const") != std::string_view::npos) {
      end = all.find(';', i);
      std::string text = Trimmed(all.substr(i, end - i));
      if (text.find('=') != std::string::npos) throw Fault("PTX: a variable with values is not known: " + text);
      for (const char* word : {".visible", ".weak", ".extern", ".common"}) {
        if (Begins(text, word)) text = Trimmed(text.substr(std::strlen(word)));
      }
      const Declaration declared = ReadDeclaration(text);
      variables_[declared.name] = std::make_unique<std::vector<char>>(declared.bytes);
      i = end + 1;
    } else if (Begins(line, ".version") || Begins(line, ".target") || Begins(line, ".address_size") ||
               Begins(line, ".file") || Begins(line, ".section")) {
      i = std::min(all.find('\n', i), all.size());
    } else {
      throw Fault("PTX: not known: " + std::string(line.substr(0, 200)));
    }
  }
}

std::vector<std::pair<char*, size_t>> Module::Variables() const {
  std::vector<std::pair<char*, size_t>> variables;
  for (const auto& variable : variables_) variables.emplace_back(variable.second->data(), variable.second->size());
  return variables;
}

const Function* Module::Find(const std::string& name) {
  const auto found = functions_.find(name);
  if (found == functions_.end()) return nullptr;
  if (!found->second->read) FunctionReader(this, found->second.get()).Read();
  return found->second.get();
}

}  // namespace tf_booster::ptx
