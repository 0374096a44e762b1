#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tpinfer {

/// Bytes from "80GiB", "1.5 GB", "4096", "512k": binary units KiB MiB GiB TiB, decimal kB MB GB TB; a bare K, M, G, T
/// is binary. Nothing when it is no size.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Seconds from "3h30m", "120s", "1d", "500ms", "90" or "HH:MM:SS"; nothing when it is no duration.
std::optional<double> parse_duration(std::string_view text);

/// "13.02 GB" (powers of 1000), "512 B".
std::string format_bytes(std::uint64_t bytes);
/// "12.12 GiB" (powers of 1024).
std::string format_bytes_binary(std::uint64_t bytes);
/// "00:14:02".
std::string format_clock(double seconds);
/// "1,850,000".
std::string format_count(std::uint64_t count);

}  // namespace tpinfer
