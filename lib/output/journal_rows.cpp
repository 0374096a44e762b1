#include "output/journal_rows.hpp"

#include <type_traits>

namespace tpinfer {
namespace {

struct Putter {
  ByteWriter& to;
  template <class T>
  void operator()(const T& value) const {
    if constexpr (std::is_same_v<T, std::string>)
      to.put(std::string_view(value));
    else
      to.put(value);
  }
};

struct Getter {
  ByteReader& from;
  void operator()(std::string& text) const { text = from.get_string(); }
  template <class T>
  void operator()(std::vector<T>& list) const {
    from.get_list(list);
  }
  template <class T>
  void operator()(T& value) const {
    value = from.get<T>();
  }
};

// The fields in order, once for both directions.
template <class Io, class Head>
void visit_head(const Io& io, Head& head) {
  io(head.run_id), io(head.created), io(head.base), io(head.replaces), io(head.attempts_before);
  io(head.identity.dtype), io(head.identity.numeric_version), io(head.identity.kernel_set);
}

template <class Io, class File>
void visit_file(const Io& io, File& file) {
  io(file.name), io(file.bytes), io(file.hash);
}

template <class Io, class Attempt>
void visit_attempt(const Io& io, Attempt& attempt) {
  io(attempt.number), io(attempt.prompts);
  io(attempt.row.start), io(attempt.row.end), io(attempt.row.reason), io(attempt.row.prompts_done);
}

template <class Io, class Result>
void visit_about(const Io& io, Result& r) {
  for (auto* text : {&r.tpinfer_version, &r.git_commit, &r.hostname, &r.command, &r.mpi_library, &r.hdf5_version,
                     &r.cuda_driver, &r.nccl_version, &r.slurm_job_id, &r.job_source, &r.job_resolved, &r.model_path,
                     &r.architecture, &r.family, &r.dtype_stored, &r.config_json, &r.plan_digest, &r.reproducible})
    io(*text);
  for (auto* number : {&r.vocab_size, &r.layers, &r.heads, &r.kv_heads, &r.head_dim}) io(*number);
  for (auto* number : {&r.world_size, &r.tensor_parallel_size, &r.data_parallel_size}) io(*number);
  io(r.parameters);
}

template <class Io, class Row>
void visit_prompt(const Io& io, Row& row) {
  io(row.id), io(row.text), io(row.token_ids), io(row.meta), io(row.content);
}

}  // namespace

void put(ByteWriter& to, const JournalHead& head) {
  visit_head(Putter{to}, head);
  to.put(static_cast<std::uint32_t>(head.identity.files.size()));
  for (const auto& file : head.identity.files) visit_file(Putter{to}, file);
}

JournalHead get_journal_head(ByteReader& from) {
  JournalHead head;
  visit_head(Getter{from}, head);
  for (auto count = from.get<std::uint32_t>(); count > 0; --count)
    visit_file(Getter{from}, head.identity.files.emplace_back());
  return head;
}

void put(ByteWriter& to, const JournalAttempt& attempt) { visit_attempt(Putter{to}, attempt); }

JournalAttempt get_journal_attempt(ByteReader& from) {
  JournalAttempt attempt;
  visit_attempt(Getter{from}, attempt);
  return attempt;
}

void put_about(ByteWriter& to, const RunResult& result) { visit_about(Putter{to}, result); }
void get_about(ByteReader& from, RunResult& result) { visit_about(Getter{from}, result); }

void put_prompt(ByteWriter& to, const PromptRow& row) { visit_prompt(Putter{to}, row); }

PromptRow get_prompt(ByteReader& from) {
  PromptRow row;
  visit_prompt(Getter{from}, row);
  return row;
}

}  // namespace tpinfer
