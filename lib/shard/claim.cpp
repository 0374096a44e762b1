#include "shard/claim.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/error.hpp"

namespace tpinfer {
namespace {

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

/// The tensors that are ignored by list, by their kind; each kind is one line of the log.
class IgnoredKinds {
 public:
  explicit IgnoredKinds(const ModelSpec& spec) : spec_(spec), kinds_(spec.ignore_patterns.size()) {}

  // -> whether this name is on the list
  bool add(const std::string& name) {
    const std::string whole = std::string(spec_.family->prefix) + name;
    const auto at = std::ranges::find_if(spec_.ignore_patterns, [&](const std::string& p) {
      return matches_pattern(p, name) || (!spec_.family->prefix.empty() && matches_pattern(p, whole));
    });
    if (at == spec_.ignore_patterns.end()) return false;
    Kind& kind = kinds_[static_cast<std::size_t>(at - spec_.ignore_patterns.begin())];
    if (kind.count++ == 0) kind.first = name;
    return true;
  }

  void tell(const Log& log) const {
    for (const Kind& kind : kinds_)
      if (kind.count > 0)
        log.info("not loaded, as it is worked out anew: {}{}", kind.first,
                 kind.count > 1 ? fmt::format(" and {} of its kind", kind.count - 1) : "");
  }

 private:
  struct Kind {
    std::size_t count = 0;
    std::string first;
  };
  const ModelSpec& spec_;
  std::vector<Kind> kinds_;  ///< [spec.ignore_patterns]
};

/// The tensors whose shape is not the one that config.json gives; the first few are told.
class WrongShapes {
 public:
  void add(const ExpectedTensor& expected, const TensorInfo& stored, const std::string& file) {
    if (++count_ > kShown) return;
    text_ += fmt::format("{}{}: the tensor {} has shape [{}], but config.json makes it [{}]", count_ > 1 ? "; " : "",
                         file, stored.name, fmt::join(stored.shape, ", "), fmt::join(expected.shape, ", "));
  }
  void refuse() const {
    if (count_ > 0) fail_input("{}{}", text_, count_ > kShown ? fmt::format("; and {} more", count_ - kShown) : "");
  }

 private:
  static constexpr std::size_t kShown = 3;
  std::size_t count_ = 0;
  std::string text_;
};

// Quantised checkpoints give themselves away by what they store beside or instead of a weight.
void refuse_quantised(const std::vector<std::string>& unknown, const ModelSpec& spec) {
  static constexpr std::string_view kEnds[] = {".qweight", ".qzeros",       ".g_idx",         ".absmax",   ".quant_map",
                                               ".SCB",     ".weight_scale", ".weight_packed", ".scale_inv"};
  for (const std::string& name : unknown)
    for (const std::string_view end : kEnds)
      if (name.ends_with(end))
        throw Error(ExitCode::input,
                    fmt::format("the checkpoint stores {}: it is quantised, which is not supported", name),
                    fmt::format("use the float16, bfloat16 or float32 checkpoint of this {}", spec.architecture));
}

void prove_type(const TensorInfo& stored, const std::string& file) {
  if (!is_weight_type(stored.dtype))
    throw Error(ExitCode::input,
                fmt::format("{}: the tensor {} is stored as {}", file, stored.name, safetensors_name(stored.dtype)),
                "weights must be F32, F16 or BF16");
}

void complain(std::size_t wanted, const std::vector<std::string>& missing, const std::vector<std::string>& unknown,
              const ModelSpec& spec) {
  if (!missing.empty()) {
    std::string text = fmt::format("{} of {} required tensors are missing from the checkpoint: {}", missing.size(),
                                   wanted, some_of(missing));
    if (!unknown.empty())
      text += fmt::format("; {} tensors there belong to nothing: {}", unknown.size(), some_of(unknown));
    throw Error(ExitCode::input, text, fmt::format("is the download complete, and is it a {}?", spec.architecture));
  }
  if (!unknown.empty())
    throw Error(ExitCode::input,
                fmt::format("{} tensors of the checkpoint belong to no part of a {}: {}", unknown.size(),
                            spec.architecture, some_of(unknown)),
                "is config.json the one of this checkpoint? A bias needs attention_bias or mlp_bias: true there");
}

/// The wanted tensors by name, of the layout that the checkpoint was written in.
class Wanted {
 public:
  Wanted(const ModelSpec& spec, const Checkpoint& checkpoint) : prefix_(spec.family->prefix) {
    const Layout layout = layout_of(spec, checkpoint);
    for (const ExpectedTensor& tensor : spec.tensors) {
      if (tensor.layout != Layout::any && tensor.layout != layout) continue;
      tensors_.emplace(tensor.name, &tensor);
      required_ += tensor.ignored ? 0 : 1;
    }
  }

  /// Claims the tensor of this stored name (the family's prefix may be left out), or gives null.
  const ExpectedTensor* claim(const std::string& stored) {
    auto at = tensors_.find(stored);
    if (at == tensors_.end() && !prefix_.empty()) at = tensors_.find(prefix_ + stored);
    if (at == tensors_.end()) return nullptr;
    const ExpectedTensor* tensor = at->second;
    tensors_.erase(at);
    return tensor;
  }

  std::size_t required() const { return required_; }
  /// Names that nothing was claimed for, sorted.
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_)
      if (!tensor->ignored) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }

 private:
  static Layout layout_of(const ModelSpec& spec, const Checkpoint& checkpoint) {
    const bool stacked = std::ranges::any_of(spec.tensors, [&](const ExpectedTensor& tensor) {
      return tensor.layout == Layout::all_experts && checkpoint.find(tensor.name);
    });
    return stacked ? Layout::all_experts : Layout::each_expert;
  }

  std::string prefix_;
  std::unordered_map<std::string, const ExpectedTensor*> tensors_;
  std::size_t required_ = 0;
};

}  // namespace

Claims claim_tensors(const ModelSpec& spec, const Checkpoint& checkpoint, const Log& log) {
  Wanted wanted(spec, checkpoint);
  Claims claims;
  std::vector<std::string> unknown;
  IgnoredKinds ignored(spec);
  WrongShapes wrong;
  std::array<std::uint64_t, 3> bytes_of_type{};
  for (const TensorInfo& stored : checkpoint.tensors()) {
    const ExpectedTensor* expected = wanted.claim(stored.name);
    if (!expected) {
      (ignored.add(stored.name) ? claims.ignored : unknown).push_back(stored.name);
      continue;
    }
    const std::string& file = checkpoint.files()[stored.file].name;
    if (stored.shape == expected->shape)
      prove_type(stored, file);
    else
      wrong.add(*expected, stored, file);
    if (expected->ignored) {
      claims.ignored.push_back(stored.name);
      log.warning("the checkpoint stores {} although config.json ties it to the embedding: the embedding is used",
                  stored.name);
      continue;
    }
    claims.loaded.push_back({expected, &stored});
    bytes_of_type[static_cast<std::size_t>(stored.dtype)] += stored.bytes;
    claims.parameters += stored.bytes / dtype_size(stored.dtype);
  }
  refuse_quantised(unknown, spec);
  wrong.refuse();
  complain(wanted.required(), wanted.missing(), unknown, spec);
  ignored.tell(log);
  claims.stored_dtype = static_cast<DType>(std::ranges::max_element(bytes_of_type) - bytes_of_type.begin());
  return claims;
}

}  // namespace tpinfer
