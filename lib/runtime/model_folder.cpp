#include "runtime/model_folder.hpp"

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/text_distance.hpp"
#include "job/yaml_file.hpp"
#include "model/architecture_plan.hpp"
#include "model/families.hpp"
#include "shard/nearest_family.hpp"

namespace tpinfer {
namespace {

std::string existing_folder(const std::string& folder) {
  std::error_code ec;
  const auto status = std::filesystem::status(folder, ec);
  if (!std::filesystem::exists(status))
    throw Error(ExitCode::input, fmt::format("{}: there is no such model folder", folder), "see model.path");
  if (!std::filesystem::is_directory(status))
    throw Error(ExitCode::input, fmt::format("{}: is a file, a Hugging Face model folder is needed", folder),
                "see model.path");
  return folder;
}

// All tensors that the family's table wants, each expert's by itself.
Checkpoint random_checkpoint(const ModelSpec& spec, DType dtype) {
  std::vector<TensorInfo> tensors;
  for (const ExpectedTensor& tensor : spec.tensors)
    if (!tensor.ignored && tensor.layout != Layout::all_experts)
      tensors.push_back({.name = tensor.name, .dtype = dtype, .shape = tensor.shape});
  return Checkpoint::random(std::move(tensors));
}

ModelText read_texts(const ModelJob& job) {
  ModelText text;
  text.config_file = (std::filesystem::path(job.path) / "config.json").string();
  text.config = read_text_file(text.config_file);
  if (!job.architecture_plan) return text;
  text.plan_file = *job.architecture_plan;
  text.plan = read_yaml(text.plan_file).dump();
  return text;
}

// Of the folder's tensors; empty when there are none to be read.
std::string nearest_family_of(const std::string& folder) {
  std::vector<std::string> names;
  try {
    const Checkpoint checkpoint = Checkpoint::open(folder, Log());
    for (const TensorInfo& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  } catch (const Error&) {
    return {};
  }
  return nearest_family(names);
}

// An unknown architecture is refused with the family that its tensors are most like.
ModelSpec resolve(const ModelText& text, const std::string& folder) {
  try {
    return text.resolve();
  } catch (const UnknownArchitecture&) {
    const std::string near = nearest_family_of(folder);
    if (near.empty()) throw;
    const std::string name = read_architecture(parse_json(text.config, text.config_file), text.config_file);
    throw Error(
        ExitCode::input, fmt::format("{}: the architecture {} is not supported; {}", text.config_file, name, near),
        fmt::format(
            "model.architecture_plan may name the roles of such a model's tensors. The nearest supported name is "
            "{}; all: {}",
            nearest_word(name, supported_architectures()), fmt::join(supported_architectures(), ", ")));
  }
}

Checkpoint open_checkpoint(const ModelJob& job, const ModelSpec& spec, const Log& log) {
  if (job.load_format == LoadFormat::safetensors) return Checkpoint::open(job.path, log);
  log.warning("{}: the weights are random (model.load_format: dummy), answers mean nothing", job.path);
  return random_checkpoint(spec, job.dtype.value_or(spec.config_dtype.value_or(DType::bfloat16)));
}

}  // namespace

ModelSpec ModelText::resolve() const {
  const Json json = parse_json(config, config_file);
  if (plan.empty()) return make_model_spec(json, config_file);
  return make_model_spec(json, config_file, family_from_plan(parse_json(plan, plan_file), plan_file));
}

ModelFolder::ModelFolder(const ModelJob& job, const Log& log)
    : path(existing_folder(job.path)),
      text(read_texts(job)),
      spec(resolve(text, path)),
      checkpoint(open_checkpoint(job, spec, log)),
      claims(claim_tensors(spec, checkpoint, log)) {}

}  // namespace tpinfer
