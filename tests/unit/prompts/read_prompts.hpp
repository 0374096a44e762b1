#pragma once

#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/model_folder.hpp"
#include "prompts/prompt_stream.hpp"

namespace tpinfer::test_files {

inline std::string write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

/// As one gzip member.
inline std::string packed(const std::string& text) {
  std::string out(text.size() + 1024, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// All prompts of the job's files; `folder` is the tokenizer's.
inline std::vector<PromptRecord> read_prompts(const PromptsJob& job, const fs::path& folder = "/nowhere") {
  const ChatPrompts chat(job, folder);
  PromptStream stream(job, chat);
  std::vector<PromptRecord> records;
  for (RawPrompt raw; stream.next(raw);) records.push_back(stream.read(std::move(raw)));
  stream.check_not_empty();
  chat.check();
  return records;
}

/// Those of one file with this content.
inline std::vector<PromptRecord> parse(const std::string& text, const std::string& name = "p.jsonl",
                                       PromptsJob job = {}, const fs::path& folder = "/nowhere") {
  const TemporaryFolder place;
  job.files = {write_text(place / name, text)};
  return read_prompts(job, folder);
}

}  // namespace tpinfer::test_files
