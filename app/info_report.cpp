#include "app/info_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/table.hpp"
#include "core/units.hpp"
#include "memory/cores.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kLabel = 13;  // cells of the names at the left

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string cores_text(const RankFacts& rank) { return core_list({rank.cores.begin(), rank.cores.end()}); }

Json machine_json(const InfoFacts& facts) {
  const MachineFacts& m = facts.machine;
  Json nodes = Json::array();
  for (const NumaNode& node : m.numa_nodes)
    nodes.push_back(
        {{"node", node.number}, {"cores", node.cores}, {"memory_bytes", node.total}, {"free_bytes", node.free}});
  Json limits{{"open_files", m.most_open_files}, {"address_space_bytes", nullptr}};
  if (m.most_address_space) limits["address_space_bytes"] = *m.most_address_space;
  return {{"host", facts.host},
          {"processor", m.processor},
          {"features", m.features},
          {"kernel_sets", facts.kernel_sets},
          {"kernel_set", or_null(facts.kernel_set)},
          {"cores_online", m.cores_online},
          {"core_quota", m.core_quota ? Json(*m.core_quota) : Json(nullptr)},
          {"numa_nodes", nodes},
          {"memory",
           {{"total_bytes", facts.memory.total},
            {"available_bytes", facts.memory.available},
            {"usable_bytes", facts.usable.bytes},
            {"set_by", facts.usable.set_by}}},
          {"huge_pages",
           {{"transparent", or_null(m.transparent_huge_pages)},
            {"page_bytes", m.huge_page_bytes},
            {"set_aside", m.huge_pages},
            {"free", m.huge_pages_free}}},
          {"shm", {{"total_bytes", m.shm_total}, {"free_bytes", m.shm_free}}},
          {"limits", limits},
          {"gpu_driver", or_null(m.gpu_driver)}};
}

Json rank_json(const RankFacts& rank) {
  Json gpu = nullptr;
  if (rank.seat.sees_gpu)
    gpu = {{"name", rank.seat.gpu.name},
           {"uuid", rank.seat.gpu.uuid},
           {"pci", rank.seat.gpu.pci},
           {"numa_node", rank.seat.gpu.numa_node},
           {"total_bytes", rank.seat.gpu.total_bytes},
           {"free_bytes", rank.seat.gpu.free_bytes}};
  return {{"rank", rank.rank},
          {"host", rank.seat.host},
          {"local_rank", rank.local_rank},
          {"cores", cores_text(rank)},
          {"kernel_set", or_null(rank.kernel_set)},
          {"memory_bytes", rank.memory},
          {"memory_set_by", rank.memory_set_by},
          {"device", rank.seat.sees_gpu ? "cuda" : "cpu"},
          {"gpu", gpu}};
}

void line(std::string& out, std::string_view label, const std::string& text) {
  out += fmt::format("  {:<{}}{}\n", label, kLabel, text);
}

void host_text(const InfoFacts& facts, std::string& out) {
  const MachineFacts& m = facts.machine;
  line(out, "processor", or_dash(m.processor));
  line(out, "features", or_dash(fmt::format("{}", fmt::join(m.features, " "))));
  line(out, "kernels",
       fmt::format("{} (this processor can run {})", or_dash(facts.kernel_set), fmt::join(facts.kernel_sets, ", ")));
  const std::string quota =
      m.core_quota ? fmt::format(", a control group allows the time of {:.4g}", *m.core_quota) : "";
  line(out, "cores",
       fmt::format("{} online, {} may be used by rank 0{}", m.cores_online, or_dash(cores_text(facts.ranks.front())),
                   quota));
  for (const NumaNode& node : m.numa_nodes)
    line(out, fmt::format("NUMA node {}", node.number),
         fmt::format("cores {}, {} of memory, {} free", node.cores, format_bytes_binary(node.total),
                     format_bytes_binary(node.free)));
  line(out, "memory",
       fmt::format("{}, {} may be used (set by: {})", format_bytes_binary(facts.memory.total),
                   format_bytes_binary(facts.usable.bytes), facts.usable.set_by));
  line(out, "huge pages",
       fmt::format("transparent: {}; of {}: {} set aside, {} free", or_dash(m.transparent_huge_pages),
                   format_bytes_binary(m.huge_page_bytes), m.huge_pages, m.huge_pages_free));
  line(out, "/dev/shm",
       m.shm_total == 0
           ? "-"
           : fmt::format("{}, {} free", format_bytes_binary(m.shm_total), format_bytes_binary(m.shm_free)));
  line(out, "GPU driver", or_dash(m.gpu_driver));
}

std::string ranks_text(const InfoFacts& facts) {
  Table table({"rank", "host", "cores", "kernels", "memory", "device", "UUID", "free"});
  for (const RankFacts& rank : facts.ranks) {
    const GpuSeat& seat = rank.seat;
    table.row({std::to_string(rank.rank), printable(seat.host), cores_text(rank), or_dash(rank.kernel_set),
               format_bytes_binary(rank.memory), seat.sees_gpu ? printable(seat.gpu.name) : "cpu",
               seat.sees_gpu ? seat.gpu.uuid : "-",
               format_bytes_binary(seat.sees_gpu ? seat.gpu.free_bytes : rank.memory)});
  }
  return table.text();
}

}  // namespace

Json info_json(const InfoFacts& facts) {
  Json libraries = Json::array(), environment = Json::object(), ranks = Json::array(), findings = Json::array();
  for (const LibraryVersions& library : facts.libraries)
    libraries.push_back({{"name", library.name},
                         {"built", or_null(library.built)},
                         {"running", or_null(library.running)},
                         {"note", or_null(library.note)}});
  for (const auto& [name, value] : facts.environment) environment[name] = value;
  for (const RankFacts& rank : facts.ranks) ranks.push_back(rank_json(rank));
  for (const auto& [host, advice] : facts.advice)
    findings.push_back(
        {{"ok", advice.good}, {"host", or_null(host)}, {"message", advice.what}, {"hint", or_null(advice.hint)}});
  return {{"build",
           {{"version", facts.version},
            {"commit", facts.commit},
            {"type", facts.build_type},
            {"compiler", facts.compiler}}},
          {"libraries", libraries},
          {"machine", machine_json(facts)},
          {"environment", environment},
          {"launcher", facts.launch.words},
          {"ranks", ranks},
          {"findings", findings}};
}

std::string info_text(const InfoFacts& facts, const Paint& paint) {
  std::string out = fmt::format("{} (commit {}, {}, {})\n\n", paint.heading("tpinfer " + facts.version), facts.commit,
                                facts.build_type, facts.compiler);
  out += paint.heading("libraries, as built with and as they run") + "\n";
  for (const LibraryVersions& library : facts.libraries)
    line(out, library.name,
         fmt::format("{} | {}{}", or_dash(library.built), or_dash(library.running),
                     library.note.empty() ? "" : "  (" + library.note + ")"));
  out += "\n" + paint.heading("host " + printable(facts.host)) + "\n";
  host_text(facts, out);
  for (const auto& [name, value] : facts.environment) out += fmt::format("  {}={}\n", name, printable(value));
  out += "\n" + paint.heading(fmt::format("ranks ({})", facts.launch.words)) + "\n" + ranks_text(facts) + "\n";
  for (const auto& [host, advice] : facts.advice) {
    const std::string where = host.empty() ? "" : printable(host) + ": ";
    out += fmt::format("{} {}{}\n", advice.good ? paint.good("[OK]  ") : paint.warning("[WARN]"), where,
                       printable(advice.what));
    if (!advice.hint.empty()) out += fmt::format("         {}\n", printable(advice.hint));
  }
  return out;
}

}  // namespace tpinfer
