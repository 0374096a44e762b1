#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpinfer::jinja {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,     // a string literal, its escapes resolved
  integer,  // the digits without underscores
  real,
  op,
  end,
};

struct Token {
  TokenKind kind;
  int line;
  std::size_t begin, end;  // bytes of the source
  std::string text;
};

/// The source with every line end as \n, and without the last of them.
std::string normalize_newlines(std::string_view source);

/// Cuts normalized source into tokens as jinja2 does with trim_blocks and lstrip_blocks; the last has the kind `end`.
std::vector<Token> tokenize(std::string_view source);

/// "line" of a token's beginnings for people: what was found where something else was needed.
std::string describe(const Token& token);

}  // namespace tpinfer::jinja
