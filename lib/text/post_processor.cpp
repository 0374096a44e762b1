#include "text/post_processor.hpp"

#include <algorithm>

#include "text/vocabulary.hpp"

namespace tpinfer {
namespace {

std::int32_t read_id(const Place& place, const PostProcessor::HasToken& has_token) {
  const auto id = static_cast<std::int32_t>(place.integer(0, kTokenIdLimit - 1));
  if (!has_token(id)) place.fail("no token has the id {}", id);
  return id;
}

std::vector<std::int32_t> special_ids(const Place& processor, const Place& part,
                                      const PostProcessor::HasToken& has_token) {
  const Place special = processor.at("special_tokens").at(part.at("id").string());
  std::vector<std::int32_t> ids;
  for (const Place& id : special.at("ids").items()) ids.push_back(read_id(id, has_token));
  return ids;
}

}  // namespace

void PostProcessor::read(const Place& place, const HasToken& has_token) {
  const std::string& type = place.type();
  if (type == "Sequence") {
    for (const Place& step : place.at("processors").items()) read(step, has_token);
  } else if (type == "TemplateProcessing") {
    read_template(place, has_token);
  } else if (type != "ByteLevel") {  // ByteLevel only moves offsets into the text, which nobody asks for here
    place.unsupported_type("Sequence, TemplateProcessing, ByteLevel");
  }
}

void PostProcessor::read_template(const Place& place, const HasToken& has_token) {
  if (has_template_) place.fail("a second TemplateProcessing is not supported");
  has_template_ = true;
  parts_.clear();
  const Place single = place.at("single");
  for (const Place& part : single.items()) {
    if (const auto special = part.find("SpecialToken")) {
      parts_.emplace_back(special_ids(place, *special, has_token));
    } else if (part.at("Sequence").at("id").string() == "A") {
      parts_.emplace_back(std::nullopt);
    } else {
      part.fail("a template for one text can name the sequence \"A\" only");
    }
  }
  if (std::count(parts_.begin(), parts_.end(), std::nullopt) != 1)
    single.fail("the template must name the sequence \"A\" exactly once");
}

std::vector<std::int32_t> PostProcessor::apply(std::vector<std::int32_t> ids, bool add_special_tokens) const {
  if (!add_special_tokens || !has_template_) return ids;
  std::vector<std::int32_t> all;
  for (const Part& part : parts_) {
    const std::vector<std::int32_t>& more = part ? *part : ids;
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace tpinfer
