#include "text/regex.hpp"

#include <oniguruma.h>

#include <new>

#include "core/error.hpp"
#include "core/unique_handle.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

struct PatternTraits {
  using Handle = OnigRegex;
  static Handle empty() noexcept { return nullptr; }
  static void close(Handle handle) noexcept { onig_free(handle); }
};

struct RegionTraits {
  using Handle = OnigRegion*;
  static Handle empty() noexcept { return nullptr; }
  static void close(Handle handle) noexcept { onig_region_free(handle, 1); }
};

struct ParamTraits {
  using Handle = OnigMatchParam*;
  static Handle empty() noexcept { return nullptr; }
  static void close(Handle handle) noexcept { onig_free_match_param(handle); }
};

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string onig_message(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = info ? onig_error_code_to_str(buffer, code, info) : onig_error_code_to_str(buffer, code);
  return {reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length)};
}

}  // namespace

struct Regex::Compiled {
  UniqueHandle<PatternTraits> pattern;
  std::string where;
};

Regex::Regex(const std::string& pattern, const std::string& where) {
  static const int initialised = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  if (initialised != ONIG_NORMAL) throw Error(ExitCode::internal, "Oniguruma can not be initialised");
  OnigRegex raw = nullptr;
  OnigErrorInfo info{};
  const int code = onig_new(&raw, bytes_of(pattern), bytes_of(pattern) + pattern.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL)
    fail_input("{}: the pattern \"{}\" does not compile: {}", where, pattern, onig_message(code, &info));
  compiled_ = std::make_shared<const Compiled>(Compiled{UniqueHandle<PatternTraits>(raw), where});
}

void Regex::find_all(std::string_view text, std::vector<Span>& matches) const {
  // Oniguruma gives up after ten million steps back in one match. Long texts need more than that, in proportion to
  // their length; patterns that need more than that in proportion would never end.
  constexpr std::size_t kLongText = std::size_t{1} << 18;
  constexpr unsigned long kStepsPerByte = 64;
  UniqueHandle<ParamTraits> param;
  if (text.size() > kLongText) {
    param = UniqueHandle<ParamTraits>(onig_new_match_param());
    if (!param) throw std::bad_alloc();
    onig_initialize_match_param(param.get());
    onig_set_retry_limit_in_match_of_match_param(param.get(), kStepsPerByte * text.size());
  }
  const UniqueHandle<RegionTraits> region(onig_region_new());
  if (!region) throw std::bad_alloc();
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  const auto search = [&](std::size_t from) {
    OnigRegex pattern = compiled_->pattern.get();
    return param ? onig_search_with_param(pattern, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE,
                                          param.get())
                 : onig_search(pattern, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
  };
  std::size_t from = 0;
  std::size_t last_end = std::string_view::npos;
  while (from <= text.size()) {
    const int at = search(from);
    if (at == ONIG_MISMATCH) return;
    if (at < 0) fail_input("{}: the pattern failed on a text: {}", compiled_->where, onig_message(at, nullptr));
    const Span match{static_cast<std::size_t>(region.get()->beg[0]), static_cast<std::size_t>(region.get()->end[0])};
    if (match.begin == match.end && match.end == last_end) {
      from += from < text.size() ? code_point_at(text, from).size : 1;
      continue;
    }
    matches.push_back(match);
    from = last_end = match.end;
  }
}

}  // namespace tpinfer
