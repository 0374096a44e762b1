#include "real_tokenizers.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "model/families_tokenizers.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

namespace fs = std::filesystem;

bool runs(const std::string& command) { return std::system(command.c_str()) == 0; }

// The file that the script makes, from an earlier run where its hash is right.
fs::path made_file(const std::string& name, std::string& reason) {
  if (!std::getenv("TPINFER_LONG_TESTS")) {
    reason = "it takes seconds to make: TPINFER_LONG_TESTS=1";
    return {};
  }
  const Json manifest = read_json_file((kShared / "golden/tokenizers/manifest.json").string());
  const auto hash = manifest["models"][name]["tokenizer_json_sha256"].get<std::string>();
  const fs::path file = fs::temp_directory_path() / ("tpinfer-" + name + "-" + hash.substr(0, 12) + ".json");
  const auto is_right = [&](const fs::path& path) {
    return fs::exists(path) && runs("echo '" + hash + "  " + path.string() + "' | sha256sum --check --status");
  };
  if (is_right(file)) return file;
  const TemporaryFolder folder;
  const fs::path fresh = folder.path() / "made.json";
  const auto script = kShared / "tools/tokenizers/build_tokenizer_json.py";
  if (!runs("python3 '" + script.string() + "' " + name + " " + fresh.string() + " > /dev/null") || !is_right(fresh)) {
    reason = script.string() + " does not make the tokenizer of the manifest here";
    return {};
  }
  fs::rename(fresh, file);
  return file;
}

std::optional<Tokenizer> load(const std::string& name, std::string& reason) {
  const auto& all = real_tokenizers();
  const auto found = std::ranges::find(all, name, &RealTokenizer::name);
  if (!fs::exists(kShared / "golden/tokenizers")) {
    reason = (kShared / "golden/tokenizers").string() + " is absent: it is not part of the repository";
    return {};
  }
  const fs::path file = found->file.empty() ? made_file(name, reason) : kShared / found->file;
  if (file.empty()) return {};
  const TemporaryFolder folder;
  fs::create_symlink(file, folder.path() / "tokenizer.json");
  return Tokenizer::load(folder.path(), kTokenizerClasses);
}

}  // namespace

const std::vector<RealTokenizer>& real_tokenizers() {
  static const std::vector<RealTokenizer> all{
      {"llama-2-7b-hf", "real/llama-2-7b-hf/tokenizer.json"},
      {"gpt2", "golden/tokenizers/gpt2.tokenizer.json"},
      {"deepseek-llm", "golden/tokenizers/deepseek-llm.tokenizer.json"},
      {"dolphin-2.5-mixtral-8x7b", "golden/tokenizers/dolphin-2.5-mixtral-8x7b.tokenizer.json"},
      {"falcon-40b", "real/falcon-40b/tokenizer.json"},
      {"gpt-neox-20b", "real/gpt-neox-20b/tokenizer.json"},
      {"mistral-7b-instruct-v0.3", "golden/tokenizers/mistral-7b-instruct-v0.3.tokenizer.json"},
      {"mixtral-8x7b-v0.1", "real/mixtral-8x7b-v0.1/tokenizer.json"},
      {"olmoe-1b-7b-0924", "real/olmoe-1b-7b-0924/tokenizer.gpt-neox-olmo-dolma-v1_5.json"},
      {"opt", "golden/tokenizers/opt.tokenizer.json"},
      {"phi-2", "real/phi-2/tokenizer.json"},
      {"phi-3-mini-4k-instruct", "real/phi-3-mini-4k-instruct/tokenizer.json"},
      {"redpajama-incite-7b-base", "real/redpajama-incite-7b-base/tokenizer.json"},
      {"starcoder", "real/starcoder/tokenizer.wizardcoder.json"},
      {"starcoder2-7b", "golden/tokenizers/starcoder2-7b.tokenizer.json"},
      {"starcoderbase-1b", "golden/tokenizers/starcoderbase-1b.tokenizer.json"},
      {"qwen3-30b-a3b", ""},
      {"qwen1.5-moe-a2.7b", ""},
      {"qwen2.5-7b-instruct", ""},
      {"llama-3-8b", ""},
      {"gpt-oss-20b", ""}};
  return all;
}

const Tokenizer* real_tokenizer(const std::string& name, std::string& reason) {
  static std::map<std::string, std::optional<Tokenizer>> loaded;
  static std::map<std::string, std::string> reasons;
  if (!loaded.contains(name)) loaded.emplace(name, load(name, reasons[name]));
  reason = name + ": " + reasons[name];
  const auto& tokenizer = loaded.at(name);
  return tokenizer ? &*tokenizer : nullptr;
}

std::string test_name(const std::string& name) {
  std::string clean;
  for (const char c : name) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return clean;
}

}  // namespace tpinfer::test
