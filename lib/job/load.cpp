#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/json.hpp"
#include "job/aliases.hpp"
#include "job/document.hpp"
#include "job/job.hpp"
#include "job/paths.hpp"
#include "job/reader.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

// Puts the job's text, its includes and the command line together into one tree.
class Assembler {
 public:
  explicit Assembler(Problems& problems) : problems_(problems) {}

  /// The tree of `text` with its includes under it. `folder` is where those begin, `identity` names the file in the
  /// chain that tells a cycle.
  Node assemble(const std::string& text, const std::string& name, const fs::path& folder, const std::string& identity) {
    std::string normal = normal_text(text);
    const int source = problems_.add_file(name, normal);
    auto root = parse_document(normal, name.ends_with(".json"), source, problems_);
    if (!root) {
      broken_ = true;
      return Node::mapping_at({source, 0, 0});
    }
    if (root->is_null() && chain_.empty())
      problems_.add(root->place, {},
                    "is empty; the smallest job is model: {path: DIR}, prompts: {file: FILE}, output: {file: FILE}");
    else if (!root->is_mapping() && !root->is_null())
      problems_.add(root->place, {}, fmt::format("must be a mapping of keys, it is {}", describe(*root)));
    if (!root->is_mapping()) {
      broken_ = true;
      return Node::mapping_at(root->place);
    }
    root->place = {source, 0, 0};
    use_canonical_keys(*root, problems_);
    chain_.push_back(identity);
    Node base = includes(*root, folder);
    chain_.pop_back();
    merge_into(base, std::move(*root));
    return base;
  }

  /// One --set on top of `root`.
  void set(Node& root, const std::string& assignment) {
    const auto equals = assignment.find('=');
    const std::string key = assignment.substr(0, equals);
    const Place place{problems_.add_label("--set " + key, key), 0, 0};
    if (equals == std::string::npos || key.empty() || key.front() == '.' || key.back() == '.' ||
        key.find("..") != std::string::npos) {
      problems_.add(place, key, "must look like key.path=value");
      return;
    }
    if (key == "include" || key.starts_with("include.")) {
      problems_.add(place, key, "includes stand in the job file only");
      return;
    }
    std::string text = normal_text(assignment.substr(equals + 1));
    auto value = parse_document(text, false, place.source, problems_);
    if (value) lay(root, key, std::move(*value), place);
  }

  void lay(Node& root, const std::string& key, Node value, const Place& place) {
    const auto dot = key.rfind('.');
    Node outer = Node::mapping_at(place);
    outer.entries.push_back({dot == std::string::npos ? key : key.substr(dot + 1), place, std::move(value)});
    if (dot != std::string::npos) return lay(root, key.substr(0, dot), std::move(outer), place);
    use_canonical_keys(outer, problems_);
    merge_into(root, std::move(outer));
  }

  int new_label(const std::string& name, const std::string& key) { return problems_.add_label(name, key); }
  /// A text could not be parsed at all: what is missing from the tree says nothing.
  bool broken() const { return broken_; }

 private:
  static constexpr int kMostIncludes = 64;

  // Takes `include` out of `root` and gives the merged presets.
  Node includes(Node& root, const fs::path& folder) {
    Node base = Node::mapping_at(root.place);
    const auto* entry = root.find("include");
    if (!entry) return base;
    ReadContext context{problems_, folder.string(), "include"};
    std::vector<std::string> paths;
    const Node list = entry->value;
    root.entries.erase(root.entries.begin() + (entry - root.entries.data()));
    if (!List<PathText>{.item = {}, .one = true}.read(context, list, paths)) {
      broken_ = true;
      return base;
    }
    for (std::size_t i = 0; i < paths.size(); ++i)
      include(base, paths[i], list.is_sequence() ? list.items[i].place : list.place);
    base.place = root.place;
    return base;
  }

  void include(Node& base, const std::string& path, const Place& place) {
    const auto refuse = [&](const std::string& message) {
      problems_.add(place, "include", message);
      broken_ = true;
    };
    std::error_code failed;
    const std::string identity = fs::weakly_canonical(path, failed).string();
    if (const auto at = std::find(chain_.begin(), chain_.end(), identity); at != chain_.end())
      return refuse(fmt::format("includes go in a circle: {} -> {}", fmt::join(at, chain_.end(), " -> "), identity));
    if (++includes_ > kMostIncludes) return refuse(fmt::format("more than {} includes", kMostIncludes));
    std::string text;
    try {
      text = read_text_file(path, DocumentLimits::kMaxBytes);
    } catch (const Error& e) {
      return refuse(e.what());
    }
    merge_into(base, assemble(text, shortest_name(path), fs::path(path).parent_path(), identity));
  }

  // As the user may know it: relative to the working folder where that is shorter.
  static std::string shortest_name(const std::string& path) {
    std::error_code failed;
    const std::string relative = fs::path(path).lexically_relative(fs::current_path(failed)).string();
    return failed || relative.empty() || relative.size() >= path.size() ? path : relative;
  }

  Problems& problems_;
  std::vector<std::string> chain_;
  int includes_ = 0;
  bool broken_ = false;
};

// Where the value of dotted `key` stands, as near as the tree goes.
Place place_of(const Node& root, std::string_view key) {
  const auto dot = key.find('.');
  const auto* entry = root.find(key.substr(0, dot));
  if (!entry) return root.place;
  return dot == std::string_view::npos ? entry->value.place : place_of(entry->value, key.substr(dot + 1));
}

// sampling_given: only those keys were given by the job. Gives the listed names that are no sampling keys.
std::vector<std::string> forget_unlisted(std::vector<std::string> listed, SamplingRequest& request) {
  SamplingParams unused;
  DoSample mode = DoSample::automatic;
  visit_sampling(
      [&](std::string_view key, auto& given, auto&, const auto&) {
        if (std::erase(listed, key) == 0) given.reset();
      },
      request, unused, mode);
  return listed;
}

// What no single key shows.
void check_together(const Job& job, const Node& root, Problems& problems) {
  const SamplingRequest& s = job.sampling;
  const auto most = s.max_new_tokens.value_or(SamplingParams{}.max_new_tokens);
  if (most == 0 && !s.prompt_logprobs.value_or(std::nullopt))
    problems.add(place_of(root, "sampling.max_new_tokens"), "sampling.max_new_tokens",
                 "is 0, which only makes sense with sampling.prompt_logprobs (give at least 1)");
  else if (s.min_new_tokens.value_or(0) > most)
    problems.add(place_of(root, "sampling.min_new_tokens"), "sampling.min_new_tokens",
                 fmt::format("is {}, more than sampling.max_new_tokens, which is {}", *s.min_new_tokens, most));
}

Job read_job(const Node& root, const std::string& base_folder, Problems& problems) {
  Job job;
  Reader reader(root, {}, base_folder, problems);
  std::int64_t version = 1;
  static constexpr std::int64_t kVersions[] = {1};
  reader.field("version", version, IntOf{kVersions});
  visit_job(reader, job);
  std::vector<std::string> given;
  const bool listed = reader.field("sampling_given", given, List<Text>{});
  reader.finish();
  if (listed)
    for (const std::string& name : forget_unlisted(given, job.sampling))
      problems.add(place_of(root, "sampling_given"), "sampling_given",
                   fmt::format("{} is no key of sampling", shown(name)));
  if (problems.empty()) check_together(job, root, problems);
  return job;
}

Job build_job(const std::string& text, const std::string& name, const fs::path& base_folder,
              const std::string& identity, const JobOverrides& overrides) {
  Problems problems;
  Assembler assembler(problems);
  const std::string folder = fs::absolute(base_folder).string();
  Node root;
  if (text.size() > DocumentLimits::kMaxBytes)
    throw JobError({fmt::format("{}: longer than the limit of {} bytes", name, DocumentLimits::kMaxBytes)});
  root = assembler.assemble(text, name, folder, identity);
  for (const std::string& assignment : overrides.sets) assembler.set(root, assignment);
  if (overrides.limit) {
    const Place place{assembler.new_label("--limit", "prompts.select.limit"), 0, 0};
    Node value = Node::scalar_at(place, std::to_string(*overrides.limit));
    assembler.lay(root, "prompts.select.limit", std::move(value), place);
  }
  if (assembler.broken()) throw JobError(problems.lines());
  Job job = read_job(root, folder, problems);
  job.source = text;
  job.source_name = name;
  if (problems.empty()) return job;
  const bool is_whole = !job.model.path.empty() && !job.prompts.files.empty() && !job.output.file.empty();
  throw JobError(problems.lines(), is_whole ? std::make_shared<const Job>(std::move(job)) : nullptr);
}

}  // namespace

JobError::JobError(std::vector<std::string> lines, std::shared_ptr<const Job> rest)
    : Error(ExitCode::usage, fmt::format("{}", fmt::join(lines, "\n"))),
      lines_(std::move(lines)),
      rest_(std::move(rest)) {}

bool Job::operator==(const Job& other) const {
  return name == other.name && model == other.model && prompts == other.prompts && sampling == other.sampling &&
         parallel == other.parallel && engine == other.engine && memory == other.memory && output == other.output &&
         run == other.run;
}

Job parse_job_text(const std::string& text, const std::string& name, const std::filesystem::path& base_folder,
                   const JobOverrides& overrides) {
  return build_job(text, name, base_folder, name, overrides);
}

Job load_job(const std::filesystem::path& path, const JobOverrides& overrides) {
  std::string text;
  try {
    text = read_text_file(path.string(), DocumentLimits::kMaxBytes, true);
  } catch (const Error& e) {
    throw JobError({e.what()});
  }
  std::error_code failed;
  const std::string identity = fs::weakly_canonical(path, failed).string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return build_job(text, path.string(), folder, identity, overrides);
}

}  // namespace tpinfer
