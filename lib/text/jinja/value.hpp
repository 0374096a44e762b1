#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/json.hpp"
#include "text/jinja/fault.hpp"

namespace tpinfer::jinja {

/// Whole numbers: more than 64 bits, so that products of two ordinary ones stay exact; beyond it is refused.
__extension__ typedef __int128 Int;

class Value;
struct List;
struct Tuple;
struct Dict;
struct Range;
struct DictView;
struct Namespace;
struct Callable;
struct MacroObject;
struct LoopState;
struct UndefinedInfo;
class Cursor;

struct None {};
struct SelfReference {};

/// Text is UTF-8. `safe` marks the result of the filters `safe` and `escape` (the reference's Markup): what is added
/// to it with + is escaped.
struct Text {
  std::string bytes;
  bool safe = false;
};

/// What a template can hold. Everything but a namespace, a loop and an iterator is immutable and freely shared.
class Value {
 public:
  using Storage =
      std::variant<std::shared_ptr<const UndefinedInfo>, None, bool, Int, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const List>, std::shared_ptr<const Tuple>, std::shared_ptr<const Dict>,
                   std::shared_ptr<const Range>, std::shared_ptr<const DictView>, std::shared_ptr<Namespace>,
                   std::shared_ptr<Cursor>, std::shared_ptr<const Callable>, std::shared_ptr<const MacroObject>,
                   std::shared_ptr<LoopState>, SelfReference>;

  Value() : storage_(None{}) {}
  explicit Value(bool flag) : storage_(flag) {}
  explicit Value(double number) : storage_(number) {}
  explicit Value(std::string text) : storage_(std::make_shared<const Text>(Text{std::move(text)})) {}
  template <class T>
  explicit Value(std::shared_ptr<T> pointer) : storage_(std::move(pointer)) {}
  explicit Value(Storage storage) : storage_(std::move(storage)) {}
  static Value integer(Int number) { return Value(Storage(number)); }
  static Value undefined(std::string message);

  const Storage& storage() const noexcept { return storage_; }
  bool is_undefined() const noexcept { return holds<std::shared_ptr<const UndefinedInfo>>(); }
  bool is_none() const noexcept { return holds<None>(); }
  const bool* as_bool() const noexcept { return std::get_if<bool>(&storage_); }
  const Int* as_int() const noexcept { return std::get_if<Int>(&storage_); }
  const double* as_real() const noexcept { return std::get_if<double>(&storage_); }
  const Text* as_text() const noexcept { return get<const Text>(); }
  const List* as_list() const noexcept { return get<const List>(); }
  const Tuple* as_tuple() const noexcept { return get<const Tuple>(); }
  const Dict* as_dict() const noexcept { return get<const Dict>(); }
  template <class T>
  T* get() const noexcept {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&storage_);
    return pointer ? pointer->get() : nullptr;
  }
  template <class T>
  bool holds() const noexcept {
    return std::holds_alternative<T>(storage_);
  }
  /// The items of a list or a tuple, or null.
  const std::vector<Value>* items() const noexcept;

 private:
  Storage storage_;
};

/// Nesting deeper than this is refused, so that walking and freeing values needs a bounded stack.
inline constexpr int kMostNesting = 256;

struct UndefinedInfo {
  std::string message;
};

struct Sequence {
  explicit Sequence(std::vector<Value> elements);
  std::vector<Value> items;
  int depth;
};
struct List : Sequence {
  using Sequence::Sequence;
};
struct Tuple : Sequence {
  using Sequence::Sequence;
};

/// Keeps the order of insertion; a later value of an equal key replaces the earlier one, at its place.
struct Dict {
  void set(Value key, Value value, Budget& budget);
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;

  std::vector<std::pair<Value, Value>> items;
  int depth = 1;

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  std::size_t place_of(std::string_view key) const;
  std::size_t place_of(const Value& key, std::size_t hash, Budget& budget) const;
  std::unordered_multimap<std::size_t, std::size_t> index_;  // hash of the key -> place in items; for many items only
};

struct Range {
  Int start, stop, step, size;
};

enum class ViewOf { keys, values, items };
struct DictView {
  std::shared_ptr<const Dict> dict;
  ViewOf of;
};

struct Namespace {
  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
  std::vector<std::pair<std::string, Value>> items;
};

Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
/// The bytes of a text; fails for other values, and for one marked safe, which most methods of the reference treat
/// apart.
const std::string& plain_text(const Value& value);
/// A text whose bytes are counted against the budget.
Value make_text(std::string bytes, Budget& budget, bool safe = false);

/// The value of a JSON document, keys in their order.
Value from_json(const Json& json, Budget& budget);

/// Nesting of a value: 0 for what holds nothing.
int depth_of(const Value& value);

/// Truth as Python has it.
bool truth(const Value& value);
/// The name of the Python type, as messages have it.
std::string_view type_name(const Value& value);

bool equals(const Value& a, const Value& b, Budget& budget);
/// Order of numbers, of texts, and of sequences; negative, zero or positive. Other pairs fail, naming `op`.
int compare(const Value& a, const Value& b, std::string_view op, Budget& budget);
/// Fails for what can be no key.
std::size_t hash_of(const Value& value, Budget& budget);

/// A bool or a whole number as a number.
const Int* whole_number(const Value& value, Int& storage);

}  // namespace tpinfer::jinja
