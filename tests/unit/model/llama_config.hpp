#pragma once

#include <string>

#include "core/json.hpp"
#include "model/model_spec.hpp"

namespace tpinfer {

/// A small valid config.json with the keys of `changes` set; a key whose value is "ABSENT" is taken out.
inline Json config_with(const std::string& changes = "{}") {
  Json config = parse_json(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 321,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "hidden_act": "silu", "eos_token_id": 2})",
                           "base");
  const Json patch = parse_json(changes, "changes");
  for (const auto& [key, value] : patch.items()) {
    if (value == "ABSENT")
      config.erase(key);
    else
      config[key] = value;
  }
  return config;
}

inline ModelSpec spec_with(const std::string& changes = "{}") {
  return make_model_spec(config_with(changes), "config.json");
}

}  // namespace tpinfer
