#include "cc/tf/kernels/table_config.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_booster {
namespace {

namespace errors = tensorflow::errors;
using TfStatus = tensorflow::Status;

// The attributes as they stand in the node.
struct Attrs {
  std::string table_name, optimizer;
  int64_t dim = 0;
  std::vector<std::string> slot_names, field_names, initializers, evictions;
  std::vector<float> slot_initial_values, initializer_args;
  std::vector<int64_t> seeds, min_frequencies, max_rows, eviction_args;
};

TfStatus ReadAttrs(tensorflow::OpKernelConstruction* ctx, Attrs* attrs) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_name", &attrs->table_name));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dim", &attrs->dim));
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &attrs->optimizer));
  TF_RETURN_IF_ERROR(ctx->GetAttr("slot_names", &attrs->slot_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("slot_initial_values", &attrs->slot_initial_values));
  TF_RETURN_IF_ERROR(ctx->GetAttr("field_names", &attrs->field_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seeds", &attrs->seeds));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initializers", &attrs->initializers));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initializer_args", &attrs->initializer_args));
  TF_RETURN_IF_ERROR(ctx->GetAttr("min_frequencies", &attrs->min_frequencies));
  TF_RETURN_IF_ERROR(ctx->GetAttr("max_rows", &attrs->max_rows));
  TF_RETURN_IF_ERROR(ctx->GetAttr("evictions", &attrs->evictions));
  return ctx->GetAttr("eviction_args", &attrs->eviction_args);
}

TfStatus CheckLengths(const Attrs& attrs) {
  const auto check = [&](const char* list, size_t found, size_t wanted, const char* of) -> TfStatus {
    if (found == wanted) return tensorflow::OkStatus();
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': ", list, " has ", found, " entries, but ", of,
                                   " ask for ", wanted, "; give every field (and slot) its entries");
  };
  const size_t fields = attrs.field_names.size();
  TF_RETURN_IF_ERROR(
      check("slot_initial_values", attrs.slot_initial_values.size(), attrs.slot_names.size(), "slot_names"));
  TF_RETURN_IF_ERROR(check("seeds", attrs.seeds.size(), fields, "field_names"));
  TF_RETURN_IF_ERROR(check("initializers", attrs.initializers.size(), fields, "field_names"));
  TF_RETURN_IF_ERROR(check("initializer_args", attrs.initializer_args.size(), 2 * fields, "field_names"));
  TF_RETURN_IF_ERROR(check("min_frequencies", attrs.min_frequencies.size(), fields, "field_names"));
  TF_RETURN_IF_ERROR(check("max_rows", attrs.max_rows.size(), fields, "field_names"));
  TF_RETURN_IF_ERROR(check("evictions", attrs.evictions.size(), fields, "field_names"));
  return check("eviction_args", attrs.eviction_args.size(), fields, "field_names");
}

TfStatus ReadInitializer(const Attrs& attrs, size_t field, InitializerSpec* spec) {
  const std::string& name = attrs.initializers[field];
  if (name == "constant") {
    spec->kind = InitializerKind::kConstant;
  } else if (name == "uniform") {
    spec->kind = InitializerKind::kUniform;
  } else if (name == "normal") {
    spec->kind = InitializerKind::kNormal;
  } else if (name == "truncated_normal") {
    spec->kind = InitializerKind::kTruncatedNormal;
  } else {
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': initializer is '", name,
                                   "'; use 'constant', 'uniform', 'normal' or 'truncated_normal'");
  }
  spec->a = attrs.initializer_args[2 * field];
  spec->b = attrs.initializer_args[2 * field + 1];
  return tensorflow::OkStatus();
}

TfStatus ReadEviction(const Attrs& attrs, size_t field, EvictionOptions* eviction) {
  const std::string& name = attrs.evictions[field];
  const int64_t arg = attrs.eviction_args[field];
  if (name.empty()) return tensorflow::OkStatus();
  if (name != "idle" && name != "lru" && name != "lfu") {
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': eviction is '", name,
                                   "'; use '', 'idle', 'lru' or 'lfu'");
  }
  if (arg < 1) {
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': eviction '", name, "' has the argument ", arg,
                                   ", but needs at least 1 ", name == "idle" ? "step" : "row");
  }
  if (name == "idle") {
    eviction->max_idle_steps = arg;
  } else {
    eviction->max_rows = arg;
    eviction->order = name == "lru" ? EvictionOrder::kLru : EvictionOrder::kLfu;
  }
  return tensorflow::OkStatus();
}

TfStatus ReadField(const Attrs& attrs, size_t i, FieldOptions* field) {
  field->name = attrs.field_names[i];
  field->seed = static_cast<uint64_t>(attrs.seeds[i]);
  field->min_frequency = attrs.min_frequencies[i];
  field->max_rows = attrs.max_rows[i];
  if (field->min_frequency < 0 || field->max_rows < 0) {
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': min_frequency is ", field->min_frequency,
                                   " and max_rows is ", field->max_rows,
                                   ", but neither may be negative; 0 stands for no filter and no limit");
  }
  TF_RETURN_IF_ERROR(ReadInitializer(attrs, i, &field->initializer));
  return ReadEviction(attrs, i, &field->eviction);
}

std::vector<std::pair<std::string, std::string>> Describe(const Attrs& attrs) {
  const auto quoted = [](const std::vector<std::string>& names) {
    return absl::StrCat("'", absl::StrJoin(names, "', '"), "'");
  };
  return {{"table_name", quoted({attrs.table_name})},
          {"dim", absl::StrCat(attrs.dim)},
          {"optimizer", quoted({attrs.optimizer})},
          {"slot_names", quoted(attrs.slot_names)},
          {"slot_initial_values", absl::StrJoin(attrs.slot_initial_values, ", ")},
          {"field_names", quoted(attrs.field_names)},
          {"seeds", absl::StrJoin(attrs.seeds, ", ")},
          {"initializers", quoted(attrs.initializers)},
          {"initializer_args", absl::StrJoin(attrs.initializer_args, ", ")},
          {"min_frequencies", absl::StrJoin(attrs.min_frequencies, ", ")},
          {"max_rows", absl::StrJoin(attrs.max_rows, ", ")},
          {"evictions", quoted(attrs.evictions)},
          {"eviction_args", absl::StrJoin(attrs.eviction_args, ", ")}};
}

// Of the attributes that `is_wanted`.
template <class IsWanted>
std::string DifferenceIn(const TableConfig& table, const TableConfig& op, const IsWanted& is_wanted) {
  std::vector<std::string> differences;
  for (size_t i = 0; i < table.description.size(); ++i) {
    const auto& [name, value] = table.description[i];
    const std::string& other = op.description[i].second;
    if (value != other && is_wanted(name)) {
      differences.push_back(absl::StrCat(name, " (it has ", value, ", this op ", other, ")"));
    }
  }
  return absl::StrJoin(differences, ", ");
}

}  // namespace

TfStatus ReadTableConfig(tensorflow::OpKernelConstruction* ctx, TableConfig* config) {
  Attrs attrs;
  TF_RETURN_IF_ERROR(ReadAttrs(ctx, &attrs));
  TF_RETURN_IF_ERROR(CheckLengths(attrs));
  config->options.name = attrs.table_name;
  config->options.dim = attrs.dim;
  config->options.slot_initial_values = attrs.slot_initial_values;
  config->options.fields.resize(attrs.field_names.size());
  for (size_t i = 0; i < attrs.field_names.size(); ++i) {
    TF_RETURN_IF_ERROR(ReadField(attrs, i, &config->options.fields[i]));
  }
  TF_RETURN_IF_ERROR(ctx->GetAttr("memory_fraction", &config->memory_fraction));
  if (!(config->memory_fraction >= 0 && config->memory_fraction <= 1)) {
    return errors::InvalidArgument("HashTable '", attrs.table_name, "': memory_fraction is ", config->memory_fraction,
                                   "; give it a number between 0 and 1");
  }
  TF_RETURN_IF_ERROR(ctx->GetAttr("directory", &config->directory));
  TF_RETURN_IF_ERROR(ctx->GetAttr("needs_restore", &config->needs_restore));
  config->optimizer = attrs.optimizer;
  config->slot_names = attrs.slot_names;
  config->description = Describe(attrs);
  return tensorflow::OkStatus();
}

std::string Difference(const TableConfig& table, const TableConfig& op) {
  return DifferenceIn(table, op, [](const std::string&) { return true; });
}

std::string DifferenceToReaders(const TableConfig& table, const TableConfig& op) {
  return DifferenceIn(table, op, [&op](const std::string& name) {
    if (name == "optimizer" || name == "slot_names") return !op.slot_names.empty();
    // A checkpoint has seeds; the rest is of those who insert.
    return name == "dim" || name == "field_names" || name == "initializers" || name == "initializer_args";
  });
}

}  // namespace tf_booster
