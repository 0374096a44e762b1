#include "job/unsupported.hpp"

#include <fmt/format.h>

#include <string_view>

#include "job/resolved.hpp"

namespace tpinfer {
namespace {

// A key of the job file that not all values may have yet. Whoever adds a feature deletes its line.
struct Restricted {
  std::string_view key;
  std::string_view allowed = {};  // words; none: the default alone
};

constexpr Restricted kRestricted[] = {
    {"model.verify_weights", "header, finite"},
    {"memory.on_no_fit"},
    {"output.jsonl"},
};

const Json* find(const Json& job, std::string_view key) {
  const auto dot = key.find('.');
  const auto at = job.find(std::string(key.substr(0, dot)));
  if (at == job.end()) return nullptr;
  return dot == std::string_view::npos ? &*at : find(*at, key.substr(dot + 1));
}

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

bool is_one_of(const std::string& word, std::string_view list) {
  return fmt::format(", {},", list).find(", " + word + ",") != std::string::npos;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> unsupported_values(const Json& job) {
  static const Json defaults = job_json(Job{}, {});  // per prompt this would be felt
  std::vector<std::pair<std::string, std::string>> out;
  for (const Restricted& row : kRestricted) {
    const Json* value = find(job, row.key);
    const Json* standard = find(defaults, row.key);
    if (!value || !standard || *value == *standard) continue;
    if (value->is_string() && is_one_of(value->get<std::string>(), row.allowed)) continue;
    const std::string hint = row.allowed.empty() ? "leave it at its default, " + plain(*standard)
                                                 : fmt::format("use one of {}", row.allowed);
    out.emplace_back(row.key, fmt::format("is not supported yet with the value {} ({})", plain(*value), hint));
  }
  return out;
}

}  // namespace tpinfer
