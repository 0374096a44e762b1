#include "config.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace cuda_emulation {
namespace {

[[noreturn]] void bad(const std::string& what) {
  std::fprintf(stderr, "CUDA emulation: %s\n", what.c_str());
  std::abort();
}

// Each GPU of the host has its own, the same in every process.
cudaUUID_t default_uuid(std::size_t index) {
  cudaUUID_t uuid{};
  std::uint64_t state = 0x9E3779B97F4A7C15ULL * (index + 1);
  for (char& byte : uuid.bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(state >> 56);
  }
  return uuid;
}

cudaUUID_t read_uuid(const std::string& text) {
  cudaUUID_t uuid{};
  std::string digits;
  for (const char c : text.substr(text.rfind("GPU-", 0) == 0 ? 4 : 0))
    if (c != '-') digits += c;
  if (digits.size() != 2 * sizeof uuid.bytes) bad("\"" + text + "\" is no UUID of a GPU");
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i)
    uuid.bytes[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return uuid;
}

void set(GpuConfig& gpu, const std::string& key, const std::string& value) {
  if (key == "used") {
    gpu.used = read_size(value);
  } else if (key == "context") {
    gpu.context = read_size(value);
  } else if (key == "name") {
    gpu.name = value;
  } else if (key == "uuid") {
    gpu.uuid = read_uuid(value);
  } else if (key == "numa") {
    gpu.numa = std::stoi(value);
  } else if (key == "cc") {
    gpu.major = std::stoi(value);
    gpu.minor = std::stoi(value.substr(value.find('.') + 1));
  } else if (key == "pci") {
    if (std::sscanf(value.c_str(), "%x:%x", &gpu.pci_domain, &gpu.pci_bus) != 2) bad("\"" + value + "\" is no PCI id");
  } else {
    bad("TPINFER_EMULATION_GPUS: unknown key \"" + key + "\"");
  }
}

void add_gpus(const std::string& text, std::vector<GpuConfig>& gpus) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.empty()) return;
  const auto star = parts[0].find('*');
  const int count = star == std::string::npos ? 1 : std::stoi(parts[0].substr(star + 1));
  for (int i = 0; i < count; ++i) {
    GpuConfig gpu;
    gpu.total = read_size(parts[0].substr(0, star));
    gpu.uuid = default_uuid(gpus.size());
    gpu.host_index = static_cast<int>(gpus.size());
    gpu.pci_bus = 0x10 + 0x10 * gpu.host_index;
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const auto equals = parts[p].find('=');
      if (equals == std::string::npos) bad("TPINFER_EMULATION_GPUS: \"" + parts[p] + "\" is no key=value");
      set(gpu, parts[p].substr(0, equals), parts[p].substr(equals + 1));
    }
    gpus.push_back(gpu);
  }
}

// The GPU that an entry of CUDA_VISIBLE_DEVICES names, or -1.
int named_gpu(const std::string& entry, const std::vector<GpuConfig>& gpus) {
  if (!entry.empty() && std::all_of(entry.begin(), entry.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    const unsigned long number = std::stoul(entry);
    return number < gpus.size() ? static_cast<int>(number) : -1;
  }
  int found = -1;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (entry.rfind("GPU-", 0) != 0 || uuid_text(gpus[i].uuid).rfind(entry, 0) != 0) continue;
    if (found >= 0) return -1;  // the beginning of two UUIDs
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const auto first = part.find_first_not_of(" \t");
    const auto last = part.find_last_not_of(" \t");
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

std::size_t read_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit == "KiB" ? 0x1p10 : unit == "MiB" ? 0x1p20 : unit == "GiB" ? 0x1p30 : unit.empty() ? 1 : 0;
  if (factor == 0 || end == text.c_str()) bad("\"" + text + "\" is no size");
  return static_cast<std::size_t>(number * factor);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
  }
  return text;
}

std::vector<GpuConfig> read_gpus() {
  std::vector<GpuConfig> all;
  for (const std::string& text : split(environment("TPINFER_EMULATION_GPUS", "1GiB"), ';')) add_gpus(text, all);
  const std::string let_through = environment("TPINFER_EMULATION_DEVICES", "all");
  if (let_through == "all") return all;
  std::vector<GpuConfig> gpus;
  for (const std::string& number : split(let_through, ',')) gpus.push_back(all.at(std::stoul(number)));
  return gpus;
}

std::vector<int> visible_gpus(const std::vector<GpuConfig>& gpus) {
  std::vector<int> visible;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) {
    for (std::size_t i = 0; i < gpus.size(); ++i) visible.push_back(static_cast<int>(i));
    return visible;
  }
  for (const std::string& entry : split(list, ',')) {
    const int gpu = named_gpu(entry, gpus);
    if (gpu < 0) break;
    if (std::find(visible.begin(), visible.end(), gpu) != visible.end()) return {};
    visible.push_back(gpu);
  }
  return visible;
}

}  // namespace cuda_emulation
