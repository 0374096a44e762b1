#include "text/jinja/lexer.hpp"

#include <algorithm>

#include "text/jinja/fault.hpp"
#include "text/jinja/literal.hpp"
#include "text/jinja/python_text.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::end, at_, at_, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const { throw Fault(FaultKind::syntax, message, line_); }

  char char_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  bool follows(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  void add(TokenKind kind, std::size_t begin, std::size_t end, std::string text) {
    tokens_.push_back({kind, line_, begin, end, std::move(text)});
  }

  // Moves on to `end`, counting lines; remembers whether a line begins there.
  void advance(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_begins_ = end > at_ && source_[end - 1] == '\n';
    at_ = end;
  }

  std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      const CodePoint next = code_point_at(source_, at);
      if (!is_python_space(next.value)) break;
      at += next.size;
    }
    return at;
  }

  // Where the next tag begins, or the end.
  std::size_t find_tag() const {
    for (std::size_t at = source_.find('{', at_); at != kNone; at = source_.find('{', at + 1))
      if (const char next = char_at(at + 1); next == '%' || next == '{' || next == '#') return at;
    return source_.size();
  }

  // The text up to a tag, less the white space that the tag's sign or its line takes away.
  std::string_view data_before(std::size_t tag, char sign, bool is_variable) const {
    const std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') return strip_end(text);
    if (sign == '+' || is_variable) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == kNone ? 0 : newline + 1;
    const bool starts = line > 0 || line_begins_;
    return starts && strip_end(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  void read_data() {
    const std::size_t tag = find_tag();
    if (tag == source_.size()) {
      add(TokenKind::data, at_, tag, std::string(source_.substr(at_)));
      return advance(tag);
    }
    const char kind = source_[tag + 1];
    const char sign = char_at(tag + 2) == '-' || char_at(tag + 2) == '+' ? char_at(tag + 2) : '\0';
    const std::string_view data = data_before(tag, sign, kind == '{');
    if (!data.empty()) add(TokenKind::data, at_, tag, std::string(data));
    advance(tag);
    const std::size_t inside = tag + (sign ? 3 : 2);
    if (kind == '#') return read_comment(inside);
    if (kind == '%')
      if (const std::size_t raw = raw_begin(inside); raw != kNone) return read_raw(raw);
    add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, tag, inside, "");
    advance(inside);
    read_tag(kind == '{' ? '}' : '%');
  }

  void read_comment(std::size_t inside) {
    if (inside >= source_.size()) return advance(source_.size());
    const std::size_t close = source_.find("#}", inside);
    if (close == kNone) refuse("Missing end of comment tag");
    const char sign = close > inside ? source_[close - 1] : '\0';
    std::size_t end = close + 2;
    if (sign == '-') end = skip_space(end);
    if (sign != '-' && sign != '+' && char_at(end) == '\n') ++end;
    advance(end);
  }

  // Past the word and the white space around it, or npos.
  std::size_t word_at(std::size_t at, std::string_view word) const {
    at = skip_space(at);
    if (!source_.substr(at).starts_with(word)) return kNone;
    return skip_space(at + word.size());
  }

  // `inside` is behind "{%" and its sign; where the raw text begins, or npos.
  std::size_t raw_begin(std::size_t inside) const {
    const std::size_t at = word_at(inside, "raw");
    if (at == kNone) return kNone;
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("-%}")) return skip_space(at + 3);
    return rest.starts_with("%}") ? at + 2 : kNone;
  }

  void read_raw(std::size_t begin) {
    advance(begin);
    if (begin >= source_.size()) return;
    for (std::size_t tag = source_.find("{%", at_); tag != kNone; tag = source_.find("{%", tag + 1)) {
      const char next = char_at(tag + 2);
      const char sign = next == '-' || next == '+' ? next : '\0';
      const std::size_t at = word_at(tag + (sign ? 3 : 2), "endraw");
      if (at == kNone) continue;
      const std::size_t end = block_end(at);
      if (end == kNone) continue;
      const std::string_view data = data_before(tag, sign, false);
      if (!data.empty()) add(TokenKind::data, at_, tag, std::string(data));
      return advance(end);
    }
    refuse("Missing end of raw directive");
  }

  // Behind the block end that stands at `at`, with the white space that it takes away, or npos.
  std::size_t block_end(std::size_t at) const {
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("+%}")) return at + 3;
    if (rest.starts_with("-%}")) return skip_space(at + 3);
    if (!rest.starts_with("%}")) return kNone;
    return char_at(at + 2) == '\n' ? at + 3 : at + 2;
  }

  std::size_t variable_end(std::size_t at) const {
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("-}}")) return skip_space(at + 3);
    return rest.starts_with("}}") ? at + 2 : kNone;
  }

  void read_tag(char kind) {
    std::string open;  // the closing brackets awaited
    while (at_ < source_.size()) {
      const std::size_t end = kind == '%' ? block_end(at_) : variable_end(at_);
      if (open.empty() && end != kNone) {
        add(kind == '%' ? TokenKind::block_end : TokenKind::variable_end, at_, end, "");
        return advance(end);
      }
      if (const std::size_t next = skip_space(at_); next != at_) {
        advance(next);
      } else if (!read_number() && !read_name() && !read_text()) {
        read_operator(open);
      }
    }
  }

  void take(TokenKind kind, std::size_t end) {
    add(kind, at_, end, std::string(source_.substr(at_, end - at_)));
    advance(end);
  }

  // Digits with single underscores between them; `at` unmoved when there are none.
  std::size_t digits(std::size_t at) const {
    if (!is_digit(char_at(at))) return at;
    while (is_digit(char_at(at)) || (char_at(at) == '_' && is_digit(char_at(at + 1)))) ++at;
    return at;
  }

  std::size_t exponent(std::size_t at) const {
    if ((char_at(at) | 0x20) != 'e') return at;
    const std::size_t sign = char_at(at + 1) == '+' || char_at(at + 1) == '-' ? 1 : 0;
    const std::size_t end = digits(at + 1 + sign);
    return end == at + 1 + sign ? at : end;
  }

  bool read_number() {
    if (!is_digit(source_[at_])) return false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      const std::size_t whole = digits(at_);
      std::size_t end = char_at(whole) == '.' ? digits(whole + 1) : whole;
      if (end == whole + 1) end = whole;
      end = exponent(end);
      if (end != whole) return take(TokenKind::real, end), true;
    }
    take(TokenKind::integer, integer_end(source_, at_));
    return true;
  }

  bool read_name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const CodePoint next = code_point_at(source_, end);
      if (!is_word(next.value)) break;
      end += next.size;
    }
    if (end == at_) return false;
    const char32_t first = code_point_at(source_, at_).value;
    if (first != U'_' && !is_letter(first)) refuse("Invalid character in identifier");
    take(TokenKind::name, end);
    return true;
  }

  bool read_text() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return false;
    try {
      add(TokenKind::text, at_, end + 1, unescape(source_.substr(at_ + 1, end - at_ - 1)));
    } catch (const Fault& fault) {
      refuse(fault.what());
    }
    advance(end + 1);
    return true;
  }

  void read_operator(std::string& open) {
    static constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view op : kLong)
      if (follows(op)) return take(TokenKind::op, at_ + 2);
    const char op = source_[at_];
    if (kShort.find(op) == kNone) {
      const CodePoint next = code_point_at(source_, at_);
      refuse(fmt::format("unexpected char '{}'", source_.substr(at_, next.size)));
    }
    if (op == '{') open.push_back('}');
    if (op == '(') open.push_back(')');
    if (op == '[') open.push_back(']');
    if (op == '}' || op == ')' || op == ']') {
      if (open.empty()) refuse(fmt::format("unexpected '{}'", op));
      if (open.back() != op) refuse(fmt::format("unexpected '{}', expected '{}'", op, open.back()));
      open.pop_back();
    }
    take(TokenKind::op, at_ + 1);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "template text";
    case TokenKind::variable_begin: return "begin of print statement";
    case TokenKind::variable_end: return "end of print statement";
    case TokenKind::block_begin: return "begin of statement block";
    case TokenKind::block_end: return "end of statement block";
    case TokenKind::text: return "a string";
    case TokenKind::end: return "end of template";
    default: return token.text;
  }
}

}  // namespace tpinfer::jinja
