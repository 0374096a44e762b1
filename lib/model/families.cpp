#include "model/families.hpp"

#include "model/families/bloom.hpp"
#include "model/families/cohere.hpp"
#include "model/families/falcon.hpp"
#include "model/families/gemma.hpp"
#include "model/families/gemma2.hpp"
#include "model/families/gpt2.hpp"
#include "model/families/gpt_bigcode.hpp"
#include "model/families/gpt_neo.hpp"
#include "model/families/gpt_neox.hpp"
#include "model/families/gptj.hpp"
#include "model/families/granite.hpp"
#include "model/families/granite_moe.hpp"
#include "model/families/llama.hpp"
#include "model/families/mistral.hpp"
#include "model/families/mixtral.hpp"
#include "model/families/mpt.hpp"
#include "model/families/olmoe.hpp"
#include "model/families/opt.hpp"
#include "model/families/phi.hpp"
#include "model/families/phi3.hpp"
#include "model/families/qwen2.hpp"
#include "model/families/qwen2_moe.hpp"
#include "model/families/qwen3.hpp"
#include "model/families/qwen3_moe.hpp"
#include "model/families/stablelm.hpp"
#include "model/families/starcoder2.hpp"

namespace tpinfer {
namespace {

constexpr const FamilySpec* kFamilies[] = {
    &llama::kFamily,    &mistral::kFamily,    &mixtral::kFamily,     &qwen2::kFamily,       &qwen2_moe::kFamily,
    &qwen3::kFamily,    &qwen3_moe::kFamily,  &olmoe::kFamily,       &gemma::kFamily,       &gemma2::kFamily,
    &phi::kFamily,      &phi3::kFamily,       &granite::kFamily,     &granite_moe::kFamily, &cohere::kFamily,
    &stablelm::kFamily, &starcoder2::kFamily, &gpt_bigcode::kFamily, &gpt2::kFamily,        &gpt_neo::kFamily,
    &gptj::kFamily,     &gpt_neox::kFamily,   &opt::kFamily,         &bloom::kFamily,       &falcon::kFamily,
    &mpt::kFamily,
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
