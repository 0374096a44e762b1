#include "runtime/model_folder.hpp"

#include "core/error.hpp"

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

Checkpoint open_checkpoint(const ModelJob& job, const ModelSpec& spec, const Log& log) {
  if (job.load_format == LoadFormat::safetensors) return Checkpoint::open(job.path, log);
  log.warning("{}: the weights are random (model.load_format: dummy), answers mean nothing", job.path);
  return random_checkpoint(spec, job.dtype.value_or(spec.config_dtype.value_or(DType::bfloat16)));
}

}  // namespace

ModelFolder::ModelFolder(const ModelJob& job, const Log& log)
    : path(existing_folder(job.path)),
      config_file((std::filesystem::path(path) / "config.json").string()),
      config_text(read_text_file(config_file)),
      spec(make_model_spec(parse_json(config_text, config_file), config_file)),
      checkpoint(open_checkpoint(job, spec, log)),
      claims(claim_tensors(spec, checkpoint, log)) {}

}  // namespace tpinfer
