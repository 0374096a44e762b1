#include "model/families.hpp"

#include "model/families/gpt_bigcode.hpp"
#include "model/families/llama.hpp"
#include "model/families/mistral.hpp"
#include "model/families/mixtral.hpp"
#include "model/families/qwen2.hpp"
#include "model/families/qwen2_moe.hpp"

namespace tpinfer {
namespace {

constexpr const FamilySpec* kFamilies[] = {
    &llama::kFamily, &mistral::kFamily, &mixtral::kFamily, &qwen2::kFamily, &qwen2_moe::kFamily, &gpt_bigcode::kFamily,
};

}  // namespace

std::span<const FamilySpec* const> all_families() noexcept { return kFamilies; }

const FamilySpec* family_of(std::string_view architecture) noexcept {
  for (const FamilySpec* family : kFamilies)
    for (const std::string_view name : family->architectures)
      if (name == architecture) return family;
  return nullptr;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const FamilySpec* family : kFamilies)
    names.insert(names.end(), family->architectures.begin(), family->architectures.end());
  return names;
}

}  // namespace tpinfer
