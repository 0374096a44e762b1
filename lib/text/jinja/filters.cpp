#include "text/jinja/filters.hpp"

#include <algorithm>

#include "text/jinja/literal.hpp"
#include "text/jinja/python_text.hpp"
#include "text/jinja/text_parts.hpp"

namespace tpinfer::jinja {
namespace {

// Those with null are known to the reference, and not to us.
constexpr Filter kFilters[] = {
    {"abs", filters::abs},
    {"attr", filters::attr},
    {"batch", filters::batch},
    {"capitalize", filters::capitalize},
    {"center", nullptr},
    {"count", filters::length},
    {"d", filters::otherwise},
    {"default", filters::otherwise},
    {"dictsort", filters::dictsort},
    {"e", filters::escape},
    {"escape", filters::escape},
    {"filesizeformat", nullptr},
    {"first", filters::first},
    {"float", filters::to_float},
    {"forceescape", nullptr},
    {"format", filters::format},
    {"groupby", nullptr},
    {"indent", filters::indent},
    {"int", filters::to_int},
    {"items", filters::items},
    {"join", filters::join},
    {"last", filters::last},
    {"length", filters::length},
    {"list", filters::list},
    {"lower", filters::lower},
    {"map", filters::map},
    {"max", filters::max},
    {"min", filters::min},
    {"pprint", nullptr},
    {"random", nullptr},
    {"reject", filters::reject},
    {"rejectattr", filters::rejectattr},
    {"replace", filters::replace},
    {"reverse", filters::reverse},
    {"round", filters::round},
    {"safe", filters::safe},
    {"select", filters::select},
    {"selectattr", filters::selectattr},
    {"slice", filters::slice},
    {"sort", filters::sort},
    {"string", filters::string},
    {"striptags", nullptr},
    {"sum", filters::sum},
    {"title", filters::title},
    {"tojson", filters::tojson},
    {"trim", filters::trim},
    {"truncate", nullptr},
    {"unique", filters::unique},
    {"upper", filters::upper},
    {"urlencode", nullptr},
    {"urlize", nullptr},
    {"wordcount", nullptr},
    {"wordwrap", nullptr},
    {"xmlattr", nullptr},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::ranges::find(kFilters, name, &Filter::name);
  return found == std::end(kFilters) ? nullptr : &*found;
}

namespace filters {

AttributePath::AttributePath(const Value* attribute, Budget& budget) {
  if (!attribute || attribute->is_none()) return;
  const Text* text = attribute->as_text();
  if (!text) {
    parts_.push_back(*attribute);
    return;
  }
  budget.work(text->bytes.size());
  for (const std::string_view part : split(text->bytes, ".", -1)) {
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(number ? Value::integer(*parse_int(part, 10)) : Value(std::string(part)));
  }
}

Value AttributePath::of(Interpreter& interpreter, Value item, const Value* missing) const {
  for (const Value& part : parts_) {
    item = interpreter.item(item, part);
    if (missing && item.is_undefined()) item = *missing;
  }
  return item;
}

Value without_case(const Value& value, Budget& budget) {
  const Text* text = value.as_text();
  return text ? make_text(jinja::lower(text->bytes), budget) : value;
}

}  // namespace filters
}  // namespace tpinfer::jinja
