#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "model/family_spec.hpp"
#include "model/rope.hpp"

namespace tpinfer {

enum class ActivationKind : std::uint8_t { silu, gelu, gelu_tanh, relu };

/// A tensor that the config promises: its name, role and whole shape.
struct ExpectedTensor {
  std::string name;
  Role role = Role::token_embedding;
  bool bias = false;
  Fusion fusion = Fusion::none;
  Storage storage = Storage::out_in;
  Layout layout = Layout::any;
  std::int32_t layer = -1;          ///< -1: outside the layers
  std::int32_t expert = -1;         ///< -1: no expert's own
  std::vector<std::int64_t> shape;  ///< as stored: [output features, input features] (or turned), or [features]
  bool ignored = false;             ///< may be in the checkpoint, is not loaded (a tied head)
};

/// A family resolved for one config.json: sizes, knobs and the list of tensors. Knows nothing of ranks.
struct ModelSpec {
  std::shared_ptr<const FamilySpec> family;
  std::string architecture;
  std::int64_t hidden = 0, layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t max_positions = 0;
  std::int64_t experts = 0, experts_per_token = 0, expert_ffn = 0, shared_ffn = 0;  ///< shared_ffn 0: no shared expert
  bool renormalise_experts = false;        ///< the chosen experts' weights are scaled to a sum of 1
  std::vector<std::uint8_t> sparse_layer;  ///< [layers] 1: a mixture of experts instead of the MLP
  double norm_epsilon = 1e-5;
  ActivationKind activation = ActivationKind::silu;
  bool tied_head = false;
  bool attention_bias = false, mlp_bias = false, qk_norm = false;
  std::vector<std::int64_t> windows;  ///< [layers] sliding attention window in positions; 0: none
  double attention_scale = 1;         ///< of q . k
  double attention_soft_cap = 0;      ///< scores x become cap tanh(x / cap); 0: none
  Position position = Position::rope_half;
  RopeSpec rope;                    ///< rotary_dim 0: no rotation
  std::vector<float> alibi_slopes;  ///< [q_heads] added to scores, times (key position - query position); empty: none
  bool parallel = false;            ///< attention and MLP both read the layer's input
  int norms_in_parallel = 1;        ///< of such a layer: one for both, or one each
  double norm_offset = 0;           ///< norms scale by this + weight
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  double qkv_clip = 0, logit_soft_cap = 0;   ///< 0: none
  std::optional<DType> config_dtype;         ///< torch_dtype or dtype of the config
  std::vector<std::int32_t> eos_token_ids;   ///< of the config
  std::vector<ExpectedTensor> tensors;       ///< every tensor of the family's table
  std::vector<std::string> ignore_patterns;  ///< buffers, "{L}" for a layer number

  std::int64_t group() const noexcept { return q_heads / kv_heads; }
  bool is_sparse(std::int64_t layer) const noexcept { return sparse_layer[static_cast<std::size_t>(layer)] != 0; }
  /// Positions that any layer looks back on, its own included, when all have a window; otherwise 0.
  std::int64_t lookback() const noexcept;
  bool has_layers(bool sparse) const noexcept;  ///< any sparse, or any dense layer
  /// Whether any tensor of the model has this role.
  bool has(Role role, bool bias = false) const noexcept;
};

/// No family of the program has this architecture.
class UnknownArchitecture : public Error {
 public:
  using Error::Error;
};

/// Resolves config.json (its text already parsed; `file` is its name for messages). Error(input) names the key: unknown
/// architecture, quantised or encoder-decoder model, missing or impossible sizes, unknown activation or rope scaling.
/// `family`: the one to use whatever config.json calls the architecture.
ModelSpec make_model_spec(const Json& config, const std::string& file, std::shared_ptr<const FamilySpec> family = {});

/// What config.json names under "architectures"; Error(input) unless it is one.
std::string read_architecture(const Json& config, const std::string& file);

/// Ids under "eos_token_id" (a number, a list or null) of config.json or generation_config.json.
std::vector<std::int32_t> read_eos_ids(const Json& config, const std::string& file);

/// True when `name` fits a pattern in which "{L}" stands for a whole number.
bool matches_pattern(std::string_view pattern, std::string_view name) noexcept;

}  // namespace tpinfer
