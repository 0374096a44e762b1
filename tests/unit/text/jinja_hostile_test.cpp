#include <gtest/gtest.h>

#include <random>

#include "template_files.hpp"
#include "text/utf8.hpp"

namespace tpinfer::test {
namespace {

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(JinjaHostile, EndlessWorkIsStopped) {
  const jinja::Limits few{.steps = 200'000, .bytes = std::size_t{8} << 20};
  const auto stops = [&few](const std::string& source) { return complaint(source, {{"x", "a"}}, few); };
  const char* const kSteps = "too many steps";
  const char* const kText = "too much text";
  EXPECT_NE(stops("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}").find(kSteps),
            std::string::npos);
  EXPECT_NE(stops("{{ 'a' * 10**9 }}").find(kText), std::string::npos);
  EXPECT_NE(stops("{{ [1] * 10**12 }}").find(kText), std::string::npos);
  EXPECT_NE(stops("{{ 'a' * 10**30 }}").find(kText), std::string::npos);
  EXPECT_NE(stops("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}")
                .find(kText),
            std::string::npos);
  EXPECT_NE(stops("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s | replace('', ns.s) %}{% "
                  "endfor %}")
                .find(kText),
            std::string::npos);
  EXPECT_NE(stops("{{ [[[1]]] | tojson(indent=10**9) }}").find(kText), std::string::npos);
  EXPECT_NE(stops("{{ 'a\\nb' | indent(10**9) }}").find(kText), std::string::npos);
  EXPECT_NE(stops("{{ [1] | batch(10**9, 0) | list }}").find("too m"), std::string::npos);
  EXPECT_NE(stops("{{ [1] | slice(10**9) | list }}").find("too m"), std::string::npos);
  EXPECT_NE(stops("{{ range(10**12) }}").find("Range too big"), std::string::npos);
  // a list that holds itself twice, and again: 2^60 items to print, compare or sort
  const std::string doubled =
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  EXPECT_NE(stops(doubled + "{{ ns.l }}").find("too m"), std::string::npos);
  EXPECT_NE(stops(doubled + "{{ ns.l | tojson }}").find("too m"), std::string::npos);
  EXPECT_NE(stops(doubled + "{% set a = ns.l %}" + doubled + "{{ a == ns.l }}").find(kSteps), std::string::npos);
}

TEST(JinjaHostile, DepthIsBounded) {
  EXPECT_NE(complaint("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("calls itself too deeply"),
            std::string::npos);
  EXPECT_NE(
      complaint("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}").find("too deeply"),
      std::string::npos);
  EXPECT_NE(complaint("{{ " + repeat("(", 100000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ " + repeat("[", 100000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ " + repeat("not ", 100000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ " + repeat("-", 100000)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ 1" + repeat("+1", 100000) + " }}").find("too long or nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ a" + repeat(".a", 100000) + " }}").find("too long or nested too deeply"), std::string::npos);
  EXPECT_NE(complaint("{{ a" + repeat(" if a else a", 50000) + " }}").find("nested too deeply"), std::string::npos);
  EXPECT_NE(complaint(repeat("{% if a %}", 50000)).find("blocks are nested too deeply"), std::string::npos);
  EXPECT_NE(complaint(repeat("{% macro a() %}", 50000)).find("blocks are nested too deeply"), std::string::npos);
  const std::string grow = "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ";
  EXPECT_NE(complaint(grow + "[ns.l] %}{% endfor %}").find("nested deeper than 256 levels"), std::string::npos);
  EXPECT_NE(complaint(grow + "{'a': ns.l} %}{% endfor %}").find("nested deeper than"), std::string::npos);
  EXPECT_NE(complaint(grow + "ns.l | map('string') %}{% endfor %}{{ ns.l | list }}").find("nested deeper than"),
            std::string::npos);
  EXPECT_NE(complaint(grow + "ns.l.count %}{% endfor %}").find("ERR"), 0U);
}

// What holds itself must neither be walked for ever nor be left behind.
TEST(JinjaHostile, ValuesThatHoldThemselves) {
  EXPECT_NE(complaint("{% set n = namespace() %}{% set n.a = n %}{{ n }}").find("nested deeper"), std::string::npos);
  EXPECT_EQ(rendered("{% set n = namespace() %}{% set n.a = [n, {'n': n}] %}{{ n.a[1].n.a[0] == n }}"), "True");
  EXPECT_EQ(
      rendered(
          "{% set n = namespace() %}{% for i in range(20000) %}{% set n.a = namespace(b=n.a) %}{% endfor %}{{ 1 }}"),
      "1");
  EXPECT_EQ(rendered("{% set n = namespace() %}{% for i in [1, 2] if n %}{{ loop.changed(loop) }}{% set n.l = loop "
                     "%}{% endfor %}"),
            "ERROR T, line 1, in `loop.changed(loop)`: comparing two of the type LoopContext is not supported");
  EXPECT_NE(
      complaint("{% set n = namespace() %}{% for i in [1] %}{% set n.l = loop %}{% endfor %}{{ n.l.changed(n.l) }}")
          .find("has ended"),
      std::string::npos);
  EXPECT_NE(complaint("{% set n = namespace() %}{% for i in [1] %}{% macro f() %}{{ i }}{% endmacro %}{% set n.f = f "
                      "%}{% endfor %}{{ n.f() }}")
                .find("outside of the block"),
            std::string::npos);
  EXPECT_EQ(rendered("{% set n = namespace() %}{% set n.g = [1] | map('default', n) %}{{ n.g | list }}"), "[1]");
}

TEST(JinjaHostile, NothingOfPythonCanBeReached) {
  for (const std::string name : {"__class__", "__init__", "__globals__", "__subclasses__", "__mro__", "__dict__"}) {
    for (const std::string object : {"''", "[]", "{}", "1", "none", "range", "x", "().count", "dict", "namespace()"}) {
      const Outcome dotted = outcome("[{{ " + object + "." + name + " }}]", {{"x", "a"}});
      const Outcome indexed = outcome("[{{ " + object + "['" + name + "'] }}]", {{"x", "a"}});
      EXPECT_TRUE(!dotted.text || *dotted.text == "[]") << object << "." << name;
      EXPECT_TRUE(!indexed.text || *indexed.text == "[]") << object << "." << name;
    }
  }
  EXPECT_NE(complaint("{{ ''.__class__ }}").find("unsafe"), std::string::npos);
  EXPECT_NE(complaint("{{ 'a' | attr('__class__') }}").find("unsafe"), std::string::npos);
  EXPECT_NE(complaint("{{ ['a'] | map(attribute='__class__') | list }}").find("unsafe"), std::string::npos);
  EXPECT_NE(complaint("{{ '{0.__class__}'.format(1) }}").find("not supported"), std::string::npos);
  EXPECT_NE(complaint("{{ x.append(1) }}", {{"x", Json::array()}}).find("unsafe"), std::string::npos);
  EXPECT_NE(complaint("{{ lipsum.__globals__ }}").find("not supported"), std::string::npos);
  EXPECT_NE(complaint("{{ self._TemplateReference__context }}").find("not supported"), std::string::npos);
}

TEST(JinjaHostile, BrokenTemplates) {
  for (const std::string source : {"{%",
                                   "{{",
                                   "{{ 'a",
                                   "{{ \"\\",
                                   "{% if",
                                   "{% for",
                                   "{% for a",
                                   "{% for a in",
                                   "{% set",
                                   "{% set a",
                                   "{% set a =",
                                   "{% macro",
                                   "{% macro a",
                                   "{% macro a(",
                                   "{% raw %}{{",
                                   "{# a",
                                   "{{ a[",
                                   "{{ a[1",
                                   "{{ a[1:",
                                   "{{ a(",
                                   "{{ a(b=",
                                   "{{ a | ",
                                   "{{ a is ",
                                   "{{ a if ",
                                   "{{ {",
                                   "{{ {1",
                                   "{{ {1:",
                                   "{{ 1e",
                                   "{{ 0x }}",
                                   "{{ a.",
                                   "{% call",
                                   "{% with",
                                   "{% filter",
                                   "{% generation",
                                   "{% endif",
                                   "{{ $ }}",
                                   "{{ a ! }}",
                                   "{{ '\\x4' }}",
                                   "{{ '\\ud800' }}",
                                   "{{ '\\N{DASH}' }}",
                                   "{{ 99999999999999999999999999999999999999999999 }}",
                                   "{{ 1e999 }}",
                                   "{% set 1 = 2 %}",
                                   "{% set true = 2 %}",
                                   "{{ f(a=1, a=2) }}",
                                   "{{ f(*a) }}",
                                   "{{ f(a=1, 2) }}",
                                   "{% macro m(a, a) %}{% endmacro %}"}) {
    const Outcome got = outcome(source, Json::object());
    EXPECT_FALSE(got.text) << source;
    EXPECT_EQ(got.kind, jinja::TemplateError::Kind::syntax) << source << ": " << got.error;
    EXPECT_TRUE(got.error.starts_with("T, line 1: ")) << got.error;
  }
}

// Pieces of good templates, cut and put together in other ways: a text or a complaint, whatever comes. The budget
// holds for each of them, and under a sanitizer so does everything else.
TEST(JinjaHostile, RandomMutations) {
  auto records = read_lines(kTemplates / "core.jsonl");
  for (Json& record : read_lines(kTemplates / "more.jsonl")) records.push_back(std::move(record));
  std::mt19937 random(20240607);
  const auto below = [&random](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  static constexpr std::string_view kTokens[] = {"{%",          "%}",
                                                 "{{",          "}}",
                                                 "{#",          "-%}",
                                                 "{%-",         " ",
                                                 "\n",          "'",
                                                 "\"",          "(",
                                                 ")",           "[",
                                                 "]",           "|",
                                                 ".",           "~",
                                                 " if ",        " in ",
                                                 " is ",        "loop",
                                                 "ns",          "**",
                                                 "9999999",     "{% endfor %}",
                                                 "{% endif %}", "\\",
                                                 "\xC3\xA9",    ":"};
  const jinja::Limits limits{.steps = 100'000, .bytes = std::size_t{4} << 20};
  int texts = 0, complaints = 0;
  for (int round = 0; round < 6000; ++round) {
    const Json& record = records[below(records.size())];
    std::string source = record["template"].get<std::string>();
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(source.size() + 1);
      const std::string other = records[below(records.size())]["template"].get<std::string>();
      switch (below(4)) {
        case 0: source.insert(at, kTokens[below(std::size(kTokens))]); break;
        case 1: source.erase(at, 1 + below(8)); break;
        case 2: source.insert(at, other.substr(below(other.size() + 1), below(30))); break;
        default: source = source.substr(0, at) + other.substr(below(other.size() + 1)); break;
      }
    }
    if (!is_valid_utf8(source)) continue;
    const Outcome got = outcome(source, record["context"], limits);
    ++(got.text ? texts : complaints);
    if (got.text) {
      EXPECT_TRUE(is_valid_utf8(*got.text)) << source;
    } else {
      EXPECT_FALSE(got.error.empty() && got.kind != jinja::TemplateError::Kind::raised) << source;
    }
  }
  EXPECT_GT(texts, 500);
  EXPECT_GT(complaints, 500);
}

}  // namespace
}  // namespace tpinfer::test
