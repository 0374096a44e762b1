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

}  // namespace

ModelFolder::ModelFolder(const std::string& folder, const Log& log)
    : path(existing_folder(folder)),
      config_file((std::filesystem::path(folder) / "config.json").string()),
      config_text(read_text_file(config_file)),
      spec(make_model_spec(parse_json(config_text, config_file), config_file)),
      checkpoint(Checkpoint::open(folder, log)),
      claims(claim_tensors(spec, checkpoint, log)) {}

}  // namespace tpinfer
