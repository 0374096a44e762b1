#include "job/schema.hpp"

#include <algorithm>
#include <type_traits>

#include "job/aliases.hpp"
#include "job/fields.hpp"
#include "job/resolved.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kNumber = "[0-9]+(\\.[0-9]*)?";
constexpr std::string_view kSizeUnits = "(B|[KMGT]iB|[kKMGT]B|[kKMGT])?";
constexpr std::string_view kText[] = {"string", "number"};  // YAML's plain 5 is as good as "5"

// One function a codec, beside its read(): what read() takes.

Json any_of(std::vector<Json> choices) { return {{"anyOf", std::move(choices)}}; }

Json schema_of(const Flag&) { return {{"type", "boolean"}}; }

Json schema_of(const Int& codec) {
  Json out{{"type", "integer"}, {"minimum", codec.least}};
  if (codec.most != std::numeric_limits<std::int64_t>::max()) out["maximum"] = codec.most;
  return out;
}

Json schema_of(const IntOf& codec) { return {{"enum", std::vector(codec.values.begin(), codec.values.end())}}; }

Json schema_of(const Real& codec) {
  Json out{{"type", "number"}};
  if (codec.least != std::numeric_limits<double>::lowest())
    out[codec.above ? "exclusiveMinimum" : "minimum"] = codec.least;
  if (codec.most != std::numeric_limits<double>::max()) out["maximum"] = codec.most;
  return out;
}

Json schema_of(const Text& codec) {
  Json out{{"type", kText}};
  if (!codec.may_be_empty) out["minLength"] = 1;
  return out;
}

Json schema_of(const PathText&) { return {{"type", kText}, {"pattern", "^[^~\\u0000-\\u001f][^\\u0000-\\u001f]*$"}}; }

// not a leading zero, and not zero
std::string size_pattern() { return fmt::format("^ *(?!0[0-9])(?![0.]+ *[A-Za-z]*$){} *{} *$", kNumber, kSizeUnits); }

Json schema_of(const Size&) { return {{"type", kText}, {"pattern", size_pattern()}, {"exclusiveMinimum", 0}}; }

Json schema_of(const Duration& codec) {
  return {{"type", kText},
          {"pattern", fmt::format("^ *(({0}(ms|d|h|m|s) *)+|{0}|{0}(:{0}){{1,2}}) *$", kNumber)},
          {"minimum", codec.least},
          {"maximum", Duration::kMost}};
}

Json schema_of(const WeightType&) {
  Json names = Json::array();
  for (const char* name : {"float32", "float16", "bfloat16", "fp32", "fp16", "bf16", "float", "half"})
    if (dtype_from_name(name)) names.push_back(name);
  std::string words;
  for (const Json& name : names) words += (words.empty() ? "" : "|") + name.get<std::string>();
  return any_of({Json{{"enum", names}}, Json{{"type", "string"}, {"pattern", fmt::format("^torch\\.({})$", words)}}});
}

Json schema_of(const ShardText&) { return {{"type", "string"}, {"pattern", "^([0-9]+/[0-9]+|slurm_array)$"}}; }

Json schema_of(const KvCache&) {
  return any_of({Json{{"const", "auto"}}, Json{{"type", "number"}, {"exclusiveMinimum", 0}},
                 Json{{"type", "string"}, {"pattern", size_pattern()}},
                 Json{{"type", "string"}, {"pattern", "^[1-9][0-9]* tokens$"}}});
}

Json schema_of(const TimeLimitText&) {
  return any_of({Json{{"const", "auto"}}, Json{{"type", "null"}}, schema_of(Duration{1})});
}

Json schema_of(const LogitBiasMap&) {
  return {{"type", "object"},
          {"propertyNames", {{"pattern", "^(0|[1-9][0-9]*)$"}}},
          {"additionalProperties", schema_of(Real{})}};
}

Json schema_of(const DoSampleWord&) { return {{"enum", Json::array({"auto", true, false})}}; }

template <class E>
Json schema_of(const Choice<E>& codec) {
  return {{"enum", std::vector<std::string_view>(codec.names.begin(), codec.names.end())}};
}

template <class Codec>
Json schema_of(const List<Codec>& codec) {
  const Json item = schema_of(codec.item);
  const Json list{{"type", "array"}, {"items", item}};
  return codec.one ? any_of({item, list}) : list;
}

template <class Codec>
Json schema_of(const Or<Codec>& codec) {
  return any_of({Json{{"const", codec.null ? Json(nullptr) : Json("auto")}}, schema_of(codec.codec)});
}

std::string_view note_of(std::string_view key) {
  const auto notes = key_notes();
  const auto at = std::ranges::find(notes, key, &KeyNote::key);
  return at == notes.end() ? std::string_view() : at->text;
}

/// The visitor of visit_job that describes.
class SchemaWriter {
 public:
  SchemaWriter() : defaults_(job_json(Job{}, {})), at_default_(&defaults_) {}

  template <class Body>
  void section(std::string_view key, Body&& body) {
    Json outer = std::move(properties_);
    const Json* const outer_default = at_default_;
    const std::string outer_prefix = prefix_;
    properties_ = Json::object();
    at_default_ = &at_default_->at(std::string(key));
    prefix_ += std::string(key) + ".";
    body();
    add_aliases(key);
    Json schema = described(outer_prefix + std::string(key));
    schema["type"] = Json::array({"object", "null"});  // a section may be empty
    schema["properties"] = std::move(properties_);
    schema["additionalProperties"] = false;
    if (!clashes_.empty()) schema["not"] = any_of(std::exchange(clashes_, {}));
    properties_ = std::move(outer);
    at_default_ = outer_default;
    prefix_ = outer_prefix;
    properties_[std::string(key)] = std::move(schema);
  }

  template <class T, class Codec>
  void field(std::string_view key, const T&, const Codec& codec) {
    add(key, schema_of(codec), true);
  }

  template <class T, class Codec>
  void required(std::string_view key, const T&, const Codec& codec) {
    add(key, schema_of(codec), false);
  }

  void sampling(const SamplingRequest& request) {
    SamplingRequest unused = request;
    SamplingParams params;
    DoSample mode = DoSample::automatic;
    visit_sampling([&](std::string_view key, auto&, auto& value, const auto& codec) { field(key, value, codec); },
                   unused, params, mode);
  }

  void add(std::string_view key, const Json& values, bool has_default) {
    const std::string name(key);
    Json schema = described(prefix_ + name);
    const Json standard = at_default_->value(name, Json(nullptr));
    schema.update(values);
    if (has_default) schema["default"] = standard;
    properties_[name] = std::move(schema);
  }

  Json take() { return std::move(properties_); }

 private:
  static Json described(const std::string& key) {
    const auto note = note_of(key);
    return note.empty() ? Json::object() : Json{{"description", note}};
  }

  // The same values under their other names; both at once are refused.
  void add_aliases(std::string_view section) {
    for (const KeyAlias& alias : key_aliases()) {
      if (alias.section != section) continue;
      properties_[std::string(alias.alias)] = properties_.at(std::string(alias.name));
      clashes_.push_back(Json{{"type", "object"}, {"required", Json::array({alias.alias, alias.name})}});
    }
  }

  Json properties_ = Json::object();
  Json defaults_;
  const Json* at_default_;
  std::string prefix_;
  std::vector<Json> clashes_;
};

// `model: DIR`, and the model's path at the top level.
void allow_short_model(Json& properties) {
  Json& model = properties["model"];
  const Json path = model["properties"]["path"];
  Json shorter{{"description", model["description"]}, {"anyOf", Json::array()}};
  model.erase("description");
  shorter["anyOf"] = {path, std::move(model)};
  properties["model"] = std::move(shorter);
  for (const KeyAlias& alias : key_aliases())
    if (alias.section == "model") properties[std::string(alias.alias)] = path;
}

// A job that includes presets may leave to them what it needs.
Json needs() {
  Json paths = Json::array(), models = Json::array();
  paths.push_back({{"required", Json::array({"path"})}});
  for (const KeyAlias& alias : key_aliases()) {
    if (alias.section != "model") continue;
    paths.push_back({{"required", Json::array({alias.alias})}});
    models.push_back({{"required", Json::array({alias.alias})}});
  }
  const Json has_file{{"type", "object"}, {"required", Json::array({"file"})}};
  models.push_back(
      {{"required", Json::array({"model"})},
       {"properties", {{"model", {{"type", Json::array({"object", "string", "number"})}, {"anyOf", paths}}}}}});
  return {{"required", Json::array({"prompts", "output"})},
          {"anyOf", models},
          {"properties", {{"prompts", has_file}, {"output", has_file}}}};
}

}  // namespace

Json job_schema() {
  static constexpr std::int64_t kVersions[] = {1};
  SchemaWriter writer;
  writer.add("version", schema_of(IntOf{kVersions}), true);
  writer.add("include", schema_of(List<PathText>{.item = {}, .one = true}), true);
  Job job;
  visit_job(writer, job);
  writer.add("sampling_given", schema_of(List<Text>{}), false);
  Json properties = writer.take();
  allow_short_model(properties);
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "tpinfer job file"},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false},
          {"if", {{"not", {{"required", Json::array({"include"})}}}}},
          {"then", needs()}};
}

}  // namespace tpinfer
