#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "text/jinja/value.hpp"

namespace tpinfer::jinja {

/// Walks through something once, as a Python iterator does; also the value that `map`, `select` and the like give.
class Cursor {
 public:
  explicit Cursor(int depth);
  virtual ~Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  /// False at the end; `item` is then left alone.
  virtual bool next(Value& item) = 0;
  int depth() const noexcept { return depth_; }

 private:
  int depth_;
};

/// A walk through `value`; fails for what can not be iterated. A value that is a cursor is used up by it.
std::shared_ptr<Cursor> make_cursor(const Value& value, Budget& budget);
/// The walk from the end, or null for what has none.
std::shared_ptr<Cursor> make_reverse_cursor(const Value& value, Budget& budget);
bool is_iterable(const Value& value);

/// len(): characters of a text, items of the others; nothing for what has no length.
std::optional<Int> length_of(const Value& value, Budget& budget);

/// Everything that a walk through `value` gives.
std::vector<Value> collect(const Value& value, Budget& budget);

/// The number at `place` of a range, which lies inside.
inline Int range_item(const Range& range, Int place) { return range.start + range.step * place; }

/// One of a view: a key, a value, or a tuple of both.
Value view_item(const DictView& view, std::size_t place, Budget& budget);

}  // namespace tpinfer::jinja
