#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpinfer {

/// `text` with ${VAR} and ${VAR:-default} replaced from the environment and "$${" as a literal "${". On a fault
/// nothing, and `fault` says what is wrong.
std::optional<std::string> expand_environment(std::string_view text, std::string& fault);

/// The text that expand_environment turns into `path`.
std::string escape_environment(std::string_view path);

/// `path` made absolute from `base`; "." and ".." are removed where that names the same file.
std::string absolute_path(const std::string& path, const std::string& base);

}  // namespace tpinfer
