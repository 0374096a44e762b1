#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/document.hpp"
#include "job/job.hpp"
#include "job/problems.hpp"

namespace tpinfer {

/// What a value is read with: the key it belongs to and where complaints go.
struct ReadContext {
  Problems& problems;
  std::string base_folder;
  std::string key;        // full, e.g. "sampling.top_p"
  std::string also = {};  // "auto" where the key takes this word beside its type

  bool fail(const Node& node, std::string_view message) {
    problems.add(node.place, key, message);
    return false;
  }
  /// "must be WHAT, it is VALUE"; `what` may be words such as "true or false".
  bool must_be(const Node& node, std::string_view what, bool words = false) {
    const std::string_view join = also.empty() ? "" : words ? ", " : " or ";
    return fail(node, fmt::format("must be {}{}{}, it is {}", also, join, what, describe(node)));
  }
};

// A codec is one kind of value: `read` takes it from the job file, strictly, and complains itself; `write` gives the
// JSON that `read` turns back into the same value.

struct Flag {
  bool read(ReadContext& c, const Node& node, bool& out) const;
  Json write(bool value) const { return value; }
};

/// A whole number from `least` to `most`.
struct Int {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool read(ReadContext& c, const Node& node, std::int64_t& out) const;
  Json write(std::int64_t value) const { return value; }
};

/// One of a few whole numbers.
struct IntOf {
  std::span<const std::int64_t> values;
  bool read(ReadContext& c, const Node& node, std::int64_t& out) const;
  Json write(std::int64_t value) const { return value; }
};

/// A finite number from `least` (or above it) to `most`.
struct Real {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool above = false;  // `least` itself is excluded
  bool read(ReadContext& c, const Node& node, double& out) const;
  Json write(double value) const { return value; }
};

struct Text {
  bool may_be_empty = true;
  bool read(ReadContext& c, const Node& node, std::string& out) const;
  Json write(const std::string& value) const { return value; }
};

/// A path, made absolute after its variables; `words` are taken as they are.
struct PathText {
  std::span<const std::string_view> words = {};
  bool read(ReadContext& c, const Node& node, std::string& out) const;
  Json write(const std::string& value) const;
};

/// Bytes with a unit.
struct Size {
  bool read(ReadContext& c, const Node& node, std::uint64_t& out) const;
  Json write(std::uint64_t value) const;
};

/// Seconds with a unit, from `least` on; `bare` ones are written as a number, for a key that names the unit itself.
struct Duration {
  static constexpr double kMost = 3.2e10;  // a thousand years, so that its text needs no exponent
  double least = 0;
  bool bare = false;
  bool read(ReadContext& c, const Node& node, double& out) const;
  Json write(double value) const;
};

/// float32, float16, bfloat16 and their other names.
struct WeightType {
  bool read(ReadContext& c, const Node& node, DType& out) const;
  Json write(DType value) const { return dtype_name(value); }
};

/// "3/16" or slurm_array.
struct ShardText {
  bool read(ReadContext& c, const Node& node, std::string& out) const;
  Json write(const std::string& value) const { return value; }
};

struct KvCache {
  bool read(ReadContext& c, const Node& node, KvCacheLimit& out) const;
  Json write(const KvCacheLimit& value) const;
};

struct TimeLimitText {
  bool read(ReadContext& c, const Node& node, TimeLimit& out) const;
  Json write(const TimeLimit& value) const;
};

/// {token id: number}
struct LogitBiasMap {
  bool read(ReadContext& c, const Node& node, LogitBias& out) const;
  Json write(const LogitBias& value) const;
};

/// Index of the scalar in `names`, or a complaint and nothing.
std::optional<std::size_t> read_choice(ReadContext& c, const Node& node, std::span<const std::string_view> names);

/// An enum whose values are numbered as `names`.
template <class E>
struct Choice {
  std::span<const std::string_view> names;
  bool read(ReadContext& c, const Node& node, E& out) const {
    const auto index = read_choice(c, node, names);
    if (index) out = static_cast<E>(*index);
    return index.has_value();
  }
  Json write(E value) const { return names[static_cast<std::size_t>(value)]; }
};

/// A list; where `one` is allowed a single value stands for a list of one.
template <class Codec>
struct List {
  Codec item;
  bool one = false;

  template <class T>
  bool read(ReadContext& c, const Node& node, std::vector<T>& out) const {
    if (!node.is_sequence() && !(one && node.is_scalar())) return c.must_be(node, "a list");
    std::vector<T> list;
    bool good = true;
    const std::string key = c.key;
    for (std::size_t i = 0; i < (node.is_sequence() ? node.items.size() : 1); ++i) {
      T value{};
      if (node.is_sequence()) c.key = fmt::format("{}[{}]", key, i);
      good = item.read(c, node.is_sequence() ? node.items[i] : node, value) && good;
      list.push_back(std::move(value));
    }
    c.key = key;
    if (good) out = std::move(list);
    return good;
  }
  template <class T>
  Json write(const std::vector<T>& list) const {
    if (one && list.size() == 1) return item.write(list.front());
    Json out = Json::array();
    for (const T& value : list) out.push_back(item.write(value));
    return out;
  }
};

/// An optional value: null, or `auto`, when there is none.
template <class Codec>
struct Or {
  Codec codec;
  bool null;  // otherwise auto

  template <class T>
  bool read(ReadContext& c, const Node& node, std::optional<T>& out) const {
    if (null ? node.is_null() : node.is_scalar() && node.text == "auto") {
      out.reset();
      return true;
    }
    T value{};
    c.also = null ? "null" : "auto";
    const bool good = codec.read(c, node, value);
    c.also.clear();
    if (good) out = std::move(value);
    return good;
  }
  template <class T>
  Json write(const std::optional<T>& value) const {
    return value ? codec.write(*value) : null ? Json(nullptr) : Json("auto");
  }
};
template <class Codec>
Or<Codec> or_null(Codec codec) {
  return {codec, true};
}
template <class Codec>
Or<Codec> or_auto(Codec codec) {
  return {codec, false};
}

}  // namespace tpinfer
