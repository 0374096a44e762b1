#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include "core/json.hpp"
#include "text/jinja/template.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {

inline const std::filesystem::path kTemplates = kData / "templates";
inline const std::filesystem::path kSharedGolden = kShared / "golden" / "templates";

/// The clock of the golden files: 2025-02-03 04:05:06.
inline std::string golden_clock(const std::string& format) {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mon = 1;
  time.tm_mday = 3;
  time.tm_hour = 4;
  time.tm_min = 5;
  time.tm_sec = 6;
  time.tm_wday = 1;
  time.tm_yday = 33;
  char text[256];
  return {text, std::strftime(text, sizeof text, format.c_str(), &time)};
}

/// A text or a complaint.
struct Outcome {
  std::optional<std::string> text;
  std::string error;
  jinja::TemplateError::Kind kind = jinja::TemplateError::Kind::runtime;
};

inline Outcome outcome(const std::string& source, const Json& context, const jinja::Limits& limits = {}) {
  Outcome result;
  try {
    jinja::Variables variables;
    for (const auto& item : context.get_ref<const Json::object_t&>()) variables.emplace_back(item.first, &item.second);
    result.text = jinja::Template(source, "T").render(variables, golden_clock, limits);
  } catch (const jinja::TemplateError& error) {
    result.error = error.what();
    result.kind = error.kind();
  }
  return result;
}

inline std::string rendered(const std::string& source, const Json& context = Json::object()) {
  const Outcome result = outcome(source, context);
  return result.text ? *result.text : "ERROR " + result.error;
}

inline std::string complaint(const std::string& source, const Json& context = Json::object(),
                             const jinja::Limits& limits = {}) {
  const Outcome result = outcome(source, context, limits);
  return result.text ? "RENDERED " + result.text->substr(0, 100) : result.error;
}

}  // namespace tpinfer::test
