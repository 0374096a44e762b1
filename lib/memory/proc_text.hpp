#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// A file of the kernel's (their size reads 0, so that they are read to the end); nothing when it cannot be read.
std::optional<std::string> read_proc_text(const std::filesystem::path& path);

std::vector<std::string_view> split(std::string_view text, char at);

/// The number behind `key` at the start of a line, with ':' or blanks between ("VmRSS:  12 kB", "inactive_file 12");
/// nothing when there is no such line or no number.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);

/// A whole text that is one number, blanks around it allowed; nothing for others ("max") and for more than 64 bits.
std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace tpinfer
