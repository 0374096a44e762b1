#pragma once

#include "core/tokenizer_class.hpp"

namespace tpinfer {

namespace tokenizer_rows {

inline constexpr std::string_view kEnd = "<|endoftext|>";

constexpr TokenizerClass byte_level(std::string_view name, std::string_view model_type, bool digits_apart = false) {
  return {.name = name, .model_type = model_type, .digits_apart = digits_apart, .bos = kEnd, .eos = kEnd, .unk = kEnd};
}
constexpr TokenizerClass nfc_words(std::string_view model_type) {
  return {.name = "Qwen2Tokenizer", .model_type = model_type, .nfc_words = true, .eos = kEnd, .unk = kEnd, .pad = kEnd};
}
constexpr TokenizerClass word_mark(std::string_view name, std::string_view model_type) {
  return {.name = name,
          .model_type = model_type,
          .files = TokenizerFiles::sentencepiece,
          .adds_bos = true,
          .bos = "<s>",
          .eos = "</s>",
          .unk = "<unk>"};
}
constexpr TokenizerClass plain_word_mark(std::string_view model_type) {
  return {.name = "GemmaTokenizer",
          .model_type = model_type,
          .files = TokenizerFiles::sentencepiece,
          .word_mark_first = false,
          .adds_bos = true,
          .bos = "<bos>",
          .eos = "<eos>",
          .unk = "<unk>",
          .pad = "<pad>",
          .special_pieces = {"<start_of_turn>", "<end_of_turn>"}};
}

}  // namespace tokenizer_rows

/// Hugging Face's tokenizer classes, for folders without tokenizer.json. A folder's class and model type together
/// choose the row; then the class alone, the model type alone. Two families use the class of GPT-2 and yet keep digits
/// apart, which only their tokenizer.json says.
inline constexpr TokenizerClass kTokenizerClasses[] = {
    tokenizer_rows::byte_level("GPT2Tokenizer", ""),
    tokenizer_rows::byte_level("GPT2Tokenizer", "gpt2"),
    tokenizer_rows::byte_level("GPT2Tokenizer", "gpt_neo"),
    tokenizer_rows::byte_level("GPT2Tokenizer", "gptj"),
    tokenizer_rows::byte_level("GPT2Tokenizer", "opt"),
    tokenizer_rows::byte_level("GPT2Tokenizer", "gpt_bigcode", true),
    tokenizer_rows::byte_level("GPT2Tokenizer", "starcoder2", true),
    tokenizer_rows::byte_level("CodeGenTokenizer", ""),
    tokenizer_rows::byte_level("CodeGenTokenizer", "codegen"),
    tokenizer_rows::byte_level("CodeGenTokenizer", "phi"),
    tokenizer_rows::nfc_words(""),
    tokenizer_rows::nfc_words("qwen2"),
    tokenizer_rows::nfc_words("qwen2_moe"),
    tokenizer_rows::nfc_words("qwen3"),
    tokenizer_rows::nfc_words("qwen3_moe"),
    tokenizer_rows::word_mark("LlamaTokenizer", ""),
    tokenizer_rows::word_mark("LlamaTokenizer", "llama"),
    tokenizer_rows::word_mark("LlamaTokenizer", "mistral"),
    tokenizer_rows::word_mark("LlamaTokenizer", "mixtral"),
    tokenizer_rows::word_mark("LlamaTokenizer", "phi3"),
    tokenizer_rows::word_mark("CodeLlamaTokenizer", ""),
    tokenizer_rows::plain_word_mark(""),
    tokenizer_rows::plain_word_mark("gemma"),
    tokenizer_rows::plain_word_mark("gemma2"),
};

}  // namespace tpinfer
