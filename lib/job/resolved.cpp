#include "job/resolved.hpp"

#include <algorithm>
#include <set>

#include "job/fields.hpp"

namespace tpinfer {
namespace {

// The visitor of visit_job that writes.
class Writer {
 public:
  Writer(Json& root, const SamplingRequest& generation_config) : at_(&root), generation_config_(generation_config) {}

  template <class Body>
  void section(std::string_view key, Body&& body) {
    Json* const parent = at_;
    Json child = Json::object();
    at_ = &child;
    body();
    at_ = parent;
    (*parent)[std::string(key)] = std::move(child);
  }
  template <class T, class Codec>
  void field(std::string_view key, const T& value, const Codec& codec) {
    (*at_)[std::string(key)] = codec.write(value);
  }
  template <class T, class Codec>
  void required(std::string_view key, const T& value, const Codec& codec) {
    field(key, value, codec);
  }
  void sampling(const SamplingRequest& job) {
    SamplingParams params;
    DoSample mode = DoSample::automatic;
    SamplingRequest lower = generation_config_;
    if (job.temperature) lower.do_sample.reset();  // the job's `auto` means true then
    const auto fill = [](std::string_view, auto& given, auto& value, const auto&) {
      if (given) value = *given;
    };
    visit_sampling(fill, lower, params, mode);
    visit_sampling(fill, job, params, mode);
    visit_sampling([&](std::string_view key, auto&, auto& value, const auto& codec) { field(key, value, codec); }, job,
                   params, mode);
  }

 private:
  Json* at_;
  const SamplingRequest& generation_config_;
};

// Text that every YAML reader takes as this text without quotes: a word or a path, or a number with its unit.
bool is_plain_text(const std::string& text) {
  static const std::set<std::string, std::less<>> kSpecial = {"null", "true", "false", "yes", "no",
                                                              "on",   "off",  "y",     "n"};
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz/_";
  static constexpr std::string_view kDigits = "0123456789";
  const auto unit = text.find_first_not_of(kDigits);
  if (unit != 0 && unit != std::string::npos) {
    const std::string_view rest = std::string_view(text).substr(unit);
    return rest == "s" || rest == "GiB" || rest == "MiB" || rest == "KiB";
  }
  const auto other = [](char c) {
    return kLetters.find(c) == std::string_view::npos && kDigits.find(c) == std::string_view::npos && c != '.' &&
           c != '-';
  };
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return !text.empty() && kLetters.find(text.front()) != std::string_view::npos &&
         std::none_of(text.begin(), text.end(), other) && !kSpecial.contains(lower);
}

// A double-quoted YAML scalar; JSON's escapes are YAML's too.
std::string scalar(const Json& value) {
  if (value.is_string() && is_plain_text(value.get<std::string>())) return value.get<std::string>();
  std::string out;
  for (const char c : value.dump(-1, ' ', false, Json::error_handler_t::replace))
    out += c == 0x7f ? std::string("\\x7f") : std::string(1, c);
  return out;
}

void write_yaml(const Json& object, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object() || value.empty() || key == "logit_bias") {
      out += fmt::format("{}{}: {}\n", indent, key, scalar(value));
    } else {
      out += fmt::format("{}{}:\n", indent, key);
      write_yaml(value, indent + "  ", out);
    }
  }
}

}  // namespace

Json sampling_json(const SamplingParams& params) {
  Json out = Json::object();
  SamplingRequest unused;
  DoSample mode = params.do_sample ? DoSample::yes : DoSample::no;
  visit_sampling([&](std::string_view key, auto&, const auto& value,
                     const auto& codec) { out[std::string(key)] = codec.write(value); },
                 unused, params, mode);
  return out;
}

Json job_json(const Job& job, const SamplingRequest& generation_config) {
  Json out = Json::object();
  out["version"] = 1;
  out["include"] = Json::array();
  Writer writer(out, generation_config);
  visit_job(writer, job);
  Json given = Json::array();
  SamplingParams unused;
  DoSample mode = DoSample::automatic;
  visit_sampling(
      [&](std::string_view key, const auto& value, auto&, const auto&) {
        if (value) given.push_back(std::string(key));
      },
      job.sampling, unused, mode);
  out["sampling_given"] = std::move(given);
  return out;
}

std::string resolved_yaml(const Job& job, const SamplingRequest& generation_config) {
  std::string out;
  write_yaml(job_json(job, generation_config), "", out);
  return out;
}

std::string resolved_json(const Job& job, const SamplingRequest& generation_config) {
  return job_json(job, generation_config).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tpinfer
