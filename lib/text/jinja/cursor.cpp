#include "text/jinja/cursor.hpp"

#include "text/jinja/objects.hpp"
#include "text/jinja/python_text.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

// A value whose items have numbers.
class IndexCursor final : public Cursor {
 public:
  IndexCursor(Value value, Int size, bool reverse, Budget& budget)
      : Cursor(depth_of(value) + 1), value_(std::move(value)), size_(size), reverse_(reverse), budget_(budget) {}

  bool next(Value& item) override {
    if (at_ >= size_) return false;
    const Int place = reverse_ ? size_ - 1 - at_ : at_;
    ++at_;
    budget_.work();
    item = at(place);
    return true;
  }

 private:
  Value at(Int place) const {
    const auto index = static_cast<std::size_t>(place);
    if (const auto* items = value_.items()) return (*items)[index];
    if (const Dict* dict = value_.as_dict()) return dict->items[index].first;
    if (const auto* view = value_.get<const DictView>()) return view_item(*view, index, budget_);
    return Value::integer(range_item(*value_.get<const Range>(), place));
  }

  Value value_;
  Int size_, at_ = 0;
  bool reverse_;
  Budget& budget_;
};

class TextCursor final : public Cursor {
 public:
  TextCursor(Value value, Budget& budget) : Cursor(1), value_(std::move(value)), budget_(budget) {}

  bool next(Value& item) override {
    const std::string& text = value_.as_text()->bytes;
    if (at_ >= text.size()) return false;
    const std::size_t size = code_point_at(text, at_).size;
    item = make_text(text.substr(at_, size), budget_);
    at_ += size;
    return true;
  }

 private:
  Value value_;
  std::size_t at_ = 0;
  Budget& budget_;
};

class EmptyCursor final : public Cursor {
 public:
  EmptyCursor() : Cursor(1) {}
  bool next(Value&) override { return false; }
};

bool has_numbered_items(const Value& value) {
  return value.items() || value.as_dict() || value.get<const Range>() || value.get<const DictView>();
}

}  // namespace

Cursor::Cursor(int depth) : depth_(depth) {
  if (depth > kMostNesting) fail("iterators are nested deeper than {} levels", kMostNesting);
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.as_text() || value.get<Cursor>() || has_numbered_items(value);
}

std::shared_ptr<Cursor> make_cursor(const Value& value, Budget& budget) {
  budget.work();
  if (const auto* cursor = std::get_if<std::shared_ptr<Cursor>>(&value.storage())) return *cursor;
  if (has_numbered_items(value)) return std::make_shared<IndexCursor>(value, *length_of(value, budget), false, budget);
  if (value.as_text()) return std::make_shared<TextCursor>(value, budget);
  if (value.is_undefined()) return std::make_shared<EmptyCursor>();
  fail("'{}' object is not iterable", type_name(value));
}

std::shared_ptr<Cursor> make_reverse_cursor(const Value& value, Budget& budget) {
  budget.work();
  if (has_numbered_items(value)) return std::make_shared<IndexCursor>(value, *length_of(value, budget), true, budget);
  if (value.is_undefined()) return std::make_shared<EmptyCursor>();
  if (const Text* text = value.as_text()) return make_cursor(make_text(reversed(text->bytes), budget), budget);
  return nullptr;
}

std::optional<Int> length_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  if (const Text* text = value.as_text()) {
    budget.work(text->bytes.size());
    return static_cast<Int>(character_count(text->bytes));
  }
  if (const auto* items = value.items()) return static_cast<Int>(items->size());
  if (const Dict* dict = value.as_dict()) return static_cast<Int>(dict->items.size());
  if (const auto* range = value.get<const Range>()) return range->size;
  if (const auto* view = value.get<const DictView>()) return static_cast<Int>(view->dict->items.size());
  return std::nullopt;
}

std::vector<Value> collect(const Value& value, Budget& budget) {
  std::vector<Value> items;
  const auto cursor = make_cursor(value, budget);
  for (Value item; cursor->next(item);) {
    budget.make(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

Value view_item(const DictView& view, std::size_t place, Budget& budget) {
  const auto& [key, value] = view.dict->items[place];
  if (view.of == ViewOf::keys) return key;
  return view.of == ViewOf::values ? value : make_tuple({key, value}, budget);
}

}  // namespace tpinfer::jinja
