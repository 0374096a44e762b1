#include "job/paths.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace tpinfer {
namespace {

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  if (name.empty() || !letter(name.front())) return false;
  for (const char c : name)
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  return true;
}

// The value of the inside of ${...}.
std::optional<std::string> lookup(std::string_view inside, std::string& fault) {
  const auto colon = inside.find(":-");
  const std::string name(inside.substr(0, colon));
  if (!is_variable_name(name)) {
    fault = fmt::format("${{{}}} is no variable (write ${{VAR}} or ${{VAR:-default}})", inside);
    return std::nullopt;
  }
  const char* value = std::getenv(name.c_str());
  if (colon != std::string_view::npos)
    return value && *value ? std::string(value) : std::string(inside.substr(colon + 2));
  if (value) return value;
  fault = fmt::format("the environment variable {} is not set (set it, or write ${{{}:-default}})", name, name);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> expand_environment(std::string_view text, std::string& fault) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with("$${")) {
      out += "${";
      i += 3;
    } else if (text.substr(i).starts_with("${")) {
      const auto end = text.find('}', i);
      if (end == std::string_view::npos) {
        fault = "\"${\" without its \"}\" (write ${VAR}, or $${ for the characters themselves)";
        return std::nullopt;
      }
      const auto value = lookup(text.substr(i + 2, end - i - 2), fault);
      if (!value) return std::nullopt;
      out += *value;
      i = end + 1;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::string escape_environment(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i).starts_with("${")) out += '$';
    out += path[i];
  }
  return out;
}

std::string absolute_path(const std::string& path, const std::string& base) {
  namespace fs = std::filesystem;
  const fs::path raw = fs::absolute(fs::path(base) / path);
  fs::path tidy = raw.lexically_normal();
  if (!tidy.has_filename() && tidy != tidy.root_path()) tidy = tidy.parent_path();  // without the last slash
  // a ".." after a symbolic link is not what the text suggests
  std::error_code failed;
  const fs::path real_raw = fs::weakly_canonical(raw, failed);
  if (failed) return raw.string();
  const fs::path real_tidy = fs::weakly_canonical(tidy, failed);
  const bool same = !failed && (real_raw == real_tidy || real_raw == real_tidy / "");
  return same ? tidy.string() : raw.string();
}

}  // namespace tpinfer
