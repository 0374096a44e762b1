#include "job/yaml_file.hpp"

#include <fmt/ranges.h>

#include "job/document.hpp"

namespace tpinfer {
namespace {

Json json_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return nullptr;
    case Node::Kind::scalar:
      if (node.is_plain() && (node.text == "true" || node.text == "false")) return node.text == "true";
      return node.text;
    case Node::Kind::sequence: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case Node::Kind::mapping: break;
  }
  Json object = Json::object();
  for (const Node::Entry& entry : node.entries) object[entry.key] = json_of(entry.value);
  return object;
}

}  // namespace

Json read_yaml(const std::filesystem::path& file) {
  const std::string text = normal_text(read_text_file(file.string()));
  Problems problems;
  const int source = problems.add_file(file.string(), text);
  const std::optional<Node> root = parse_document(text, file.extension() == ".json", source, problems);
  if (!problems.empty()) throw Error(ExitCode::input, fmt::format("{}", fmt::join(problems.lines(), "\n")));
  return root ? json_of(*root) : Json();
}

}  // namespace tpinfer
