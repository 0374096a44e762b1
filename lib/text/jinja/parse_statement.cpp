#include <algorithm>
#include <array>

#include "text/jinja/parser.hpp"

namespace tpinfer::jinja {
namespace {

constexpr int kMostBlocks = 100;

// Tags of the reference that no chat template needs.
constexpr std::string_view kRefusedTags[] = {"include", "import", "from", "extends", "block", "autoescape"};

}  // namespace

Parser::Parser(std::string source) : tokens_(tokenize(source)) { program_.source = std::move(source); }

Program Parser::parse() {
  program_.body = parse_body({});
  return std::move(program_);
}

Token Parser::take() {
  const Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) refuse(fmt::format("expected token '{}', got '{}'", op, describe(current())));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) refuse(fmt::format("expected token '{}', got '{}'", name, describe(current())));
}

void Parser::expect(TokenKind kind) {
  if (current().kind != kind)
    refuse(fmt::format("expected token '{}', got '{}'", describe({kind, 0, 0, 0, ""}), describe(current())));
  take();
}

std::string Parser::expect_identifier() {
  if (current().kind != TokenKind::name) refuse(fmt::format("expected token 'name', got '{}'", describe(current())));
  return take().text;
}

void Parser::refuse(const std::string& message) const { throw Fault(FaultKind::syntax, message, current().line); }

NameId Parser::name_id(const std::string& name) {
  const auto [at, is_new] = ids_.emplace(name, static_cast<NameId>(program_.names.size()));
  if (is_new) program_.names.push_back(name);
  return at->second;
}

bool Parser::at_end_word(std::initializer_list<std::string_view> ends) const {
  return current().kind == TokenKind::name && std::ranges::find(ends, current().text) != ends.end();
}

// Up to a tag that begins with one of `ends`, which stays the current token.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  Body body;
  for (;;) {
    const Token token = take();
    if (token.kind == TokenKind::end) {
      if (ends.size() == 0) return body;
      refuse(fmt::format("Unexpected end of template, looking for '{}'", fmt::join(ends, "' or '")));
    }
    Stmt stmt(StmtKind::text);
    stmt.line = token.line;
    if (token.kind == TokenKind::data) {
      stmt.text = token.text;
      body.push_back(std::move(stmt));
    } else if (token.kind == TokenKind::variable_begin) {
      stmt.kind = StmtKind::output;
      stmt.expr = parse_tuple(true);
      body.push_back(std::move(stmt));
      expect(TokenKind::variable_end);
    } else {
      if (at_end_word(ends)) return body;
      parse_statement(body);
      expect(TokenKind::block_end);
    }
  }
}

// The inside of a block; `end` is the word of the tag that ends it, which is taken.
Body Parser::parse_block(std::initializer_list<std::string_view> ends, std::string_view& end) {
  if (++level_ > kMostBlocks) refuse("blocks are nested too deeply");
  skip_op(":");
  expect(TokenKind::block_end);
  Body body = parse_body(ends);
  end = *std::ranges::find(ends, take().text);
  --level_;
  return body;
}

Body Parser::parse_block(std::string_view end) {
  std::string_view found;
  return parse_block({end}, found);
}

// The inside of what the reference makes a function of: no loop outside of it can be left.
Body Parser::parse_function_block(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  Body body = parse_block(end);
  loops_ = loops;
  return body;
}

void Parser::parse_statement(Body& out) {
  using Parse = Stmt (Parser::*)();
  static constexpr std::pair<std::string_view, Parse> kTags[] = {{"if", &Parser::parse_if},
                                                                 {"for", &Parser::parse_for},
                                                                 {"set", &Parser::parse_set},
                                                                 {"with", &Parser::parse_with},
                                                                 {"macro", &Parser::parse_macro},
                                                                 {"call", &Parser::parse_call},
                                                                 {"break", &Parser::parse_loop_control},
                                                                 {"continue", &Parser::parse_loop_control},
                                                                 {"filter", &Parser::parse_filter_block},
                                                                 {"generation", &Parser::parse_generation}};
  if (current().kind != TokenKind::name) refuse("tag name expected");
  const int line = current().line;
  for (const auto& [tag, parse] : kTags) {
    if (!is_name(tag)) continue;
    Stmt stmt = (this->*parse)();
    stmt.line = line;
    out.push_back(std::move(stmt));
    return;
  }
  const std::string& tag = current().text;
  if (std::ranges::find(kRefusedTags, tag) != std::end(kRefusedTags))
    refuse(fmt::format("the tag '{}' is not supported", tag));
  refuse(fmt::format("Encountered unknown tag '{}'.", tag));
}

Stmt Parser::parse_if() {
  Stmt stmt(StmtKind::condition);
  std::string_view end;
  take();
  do {
    Branch branch;
    branch.test = parse_tuple(false);
    branch.body = parse_block({"elif", "else", "endif"}, end);
    stmt.branches.push_back(std::move(branch));
  } while (end == "elif");
  if (end == "else") stmt.branches.push_back({nullptr, parse_block("endif")});
  return stmt;
}

Stmt Parser::parse_for() {
  take();
  Stmt stmt(StmtKind::loop);
  stmt.targets.push_back(parse_target(false));
  expect_name("in");
  stmt.expr = parse_tuple(false);
  if (skip_name("if")) stmt.test = parse_expression();
  if (is_name("recursive")) refuse("recursive loops are not supported");
  std::string_view end;
  ++loops_;
  stmt.body = parse_block({"endfor", "else"}, end);
  --loops_;
  if (end == "else") stmt.other = parse_block("endfor");
  return stmt;
}

Stmt Parser::parse_set() {
  take();
  Stmt stmt(StmtKind::set);
  stmt.targets.push_back(parse_target(true));
  if (skip_op("=")) {
    stmt.expr = parse_tuple(true);
    return stmt;
  }
  stmt.kind = StmtKind::set_block;
  while (skip_op("|")) stmt.expr = parse_filter(std::move(stmt.expr));
  stmt.body = parse_block("endset");
  return stmt;
}

Stmt Parser::parse_with() {
  take();
  Stmt stmt(StmtKind::with);
  while (current().kind != TokenKind::block_end) {
    if (!stmt.targets.empty()) expect_op(",");
    stmt.targets.push_back(parse_target(false));
    expect_op("=");
    stmt.values.push_back(parse_expression());
  }
  stmt.body = parse_block("endwith");
  return stmt;
}

void Parser::parse_signature(Macro& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const std::string name = expect_identifier();
    const NameId id = name_id(name);
    if (std::ranges::find(macro.parameters, id) != macro.parameters.end())
      refuse(fmt::format("duplicate argument '{}' in function definition", name));
    if (name == "caller" || name == "varargs" || name == "kwargs")
      refuse(fmt::format("a parameter named '{}' is not supported", name));
    macro.parameters.push_back(id);
    if (skip_op("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      refuse("non-default argument follows default argument");
    }
  }
  expect_op(")");
}

Stmt Parser::parse_macro() {
  take();
  Stmt stmt(StmtKind::macro);
  stmt.macro = std::make_unique<Macro>();
  stmt.macro->name = expect_identifier();
  stmt.targets.push_back({Target::Kind::name, name_id(stmt.macro->name), "", {}});
  parse_signature(*stmt.macro);
  stmt.macro->body = parse_function_block("endmacro");
  return stmt;
}

Stmt Parser::parse_call() {
  take();
  Stmt stmt(StmtKind::call_block);
  stmt.macro = std::make_unique<Macro>();
  if (is_op("(")) parse_signature(*stmt.macro);
  stmt.expr = parse_expression();
  if (stmt.expr->kind != ExprKind::call) refuse("expected call");
  stmt.macro->body = parse_function_block("endcall");
  return stmt;
}

Stmt Parser::parse_filter_block() {
  take();
  Stmt stmt(StmtKind::filter_block);
  do {
    stmt.expr = parse_filter(std::move(stmt.expr));
  } while (skip_op("|"));
  stmt.body = parse_block("endfilter");
  return stmt;
}

Stmt Parser::parse_generation() {
  take();
  Stmt stmt(StmtKind::generation);
  stmt.body = parse_function_block("endgeneration");
  return stmt;
}

Stmt Parser::parse_loop_control() {
  const std::string word = take().text;
  if (loops_ == 0) refuse(fmt::format("'{}' outside loop", word));
  return Stmt(word == "break" ? StmtKind::leave : StmtKind::next_turn);
}

Target Parser::parse_target(bool with_attributes) {
  Target first = parse_target_item(with_attributes);
  if (!is_op(",")) return first;
  Target tuple{Target::Kind::tuple, 0, "", {}};
  tuple.parts.push_back(std::move(first));
  while (skip_op(",")) {
    if (current().kind == TokenKind::block_end || is_op(")") || is_name("in")) break;
    tuple.parts.push_back(parse_target_item(with_attributes));
  }
  return tuple;
}

Target Parser::parse_target_item(bool with_attributes) {
  if (with_attributes && current().kind == TokenKind::name && look().kind == TokenKind::op && look().text == ".") {
    const NameId name = name_id(take().text);
    take();
    return {Target::Kind::attribute, name, expect_identifier(), {}};
  }
  return target_of(*parse_primary());
}

Target Parser::target_of(const Expr& expr) const {
  if (expr.kind == ExprKind::name) return {Target::Kind::name, expr.name, "", {}};
  if (expr.kind != ExprKind::tuple) refuse("can't assign to what is no name");
  Target tuple{Target::Kind::tuple, 0, "", {}};
  for (const ExprPtr& part : expr.parts) tuple.parts.push_back(target_of(*part));
  return tuple;
}

}  // namespace tpinfer::jinja
