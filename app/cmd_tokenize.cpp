#include "app/cmd_tokenize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "app/json_lines.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "model/families_tokenizers.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {
namespace {

using Ids = std::vector<std::int32_t>;

class Converter {
 public:
  Converter(Tokenizer tokenizer, bool no_special) : tokenizer_(std::move(tokenizer)), no_special_(no_special) {}

  Json encoded(std::string_view text) const { return {{"ids", tokenizer_.encode(text, !no_special_)}}; }
  Json decoded(const Ids& ids) const { return {{"text", tokenizer_.decode(ids, no_special_)}}; }

  /// {"text"} -> {"ids"}, {"ids"} -> {"text"}; `where` begins complaints.
  Json converted(const Json& record, const std::string& where) const {
    if (!record.is_object() || record.contains("text") == record.contains("ids"))
      fail_input("{}: a record must be an object with either \"text\" or \"ids\"", where);
    if (const auto text = record.find("text"); text != record.end()) {
      if (!text->is_string()) fail_input("{}: \"text\" must be a string, not {}", where, text->type_name());
      return encoded(text->get_ref<const std::string&>());
    }
    const Json& list = record["ids"];
    if (!list.is_array()) fail_input("{}: \"ids\" must be a list of integers, not {}", where, list.type_name());
    Ids ids;
    for (const Json& id : list) ids.push_back(read_id(id, where));
    return decoded(ids);
  }

 private:
  static std::int32_t read_id(const Json& id, const std::string& where) {
    const bool fits = id.is_number_unsigned()
                          ? std::in_range<std::int32_t>(id.get<std::uint64_t>())
                          : id.is_number_integer() && std::in_range<std::int32_t>(id.get<std::int64_t>());
    if (!fits) fail_input("{}: {} in \"ids\" is no token id", where, id.dump());
    return id.get<std::int32_t>();
  }

  Tokenizer tokenizer_;
  bool no_special_;
};

Ids parse_ids(std::string_view words) {
  Ids ids;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(','));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      throw Error(ExitCode::usage, fmt::format("--ids: \"{}\" is no token id", word),
                  "give numbers with commas between: --ids 1,2,3");
    ids.push_back(id);
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return ids;
}

void convert_lines(const Converter& converter, const std::string& file) {
  for_each_line(file, [&](const std::string& line, const std::string& where) {
    write_json_line(converter.converted(parse_json(line, where), where));
  });
}

}  // namespace

int run_tokenize(const TokenizeOptions& options) {
  const Converter converter(Tokenizer::load(options.folder, kTokenizerClasses), options.no_special);
  if (options.text) write_json_line(converter.encoded(*options.text));
  if (options.ids) write_json_line(converter.decoded(parse_ids(*options.ids)));
  if (options.jsonl) convert_lines(converter, *options.jsonl);
  flush_output();
  return 0;
}

}  // namespace tpinfer
