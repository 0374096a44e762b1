#include <gtest/gtest.h>

#include "template_files.hpp"
#include "text/jinja/python_text.hpp"
#include "text/utf8.hpp"

namespace tpinfer::test {
namespace {

using Kind = jinja::TemplateError::Kind;

struct Counts {
  int same = 0, refused = 0;
};

// Every record against the reference. One that may be refused must then fail, and never give another text.
Counts expect_golden(const std::vector<Json>& records) {
  Counts counts;
  for (const Json& record : records) {
    const auto source = record["template"].get<std::string>();
    const Outcome got = outcome(source, record["context"]);
    if (record.value("tier", "core") == "edge" && !got.text && record.contains("rendered")) {
      ++counts.refused;
      continue;
    }
    ++counts.same;
    if (record.contains("rendered")) {
      EXPECT_EQ(got.text, record["rendered"].get<std::string>()) << source << "\n" << got.error;
    } else {
      EXPECT_FALSE(got.text) << source;
      const bool raised = record["error_kind"] == "raised";
      EXPECT_EQ(got.kind == Kind::raised, raised) << source;
      if (raised) {
        EXPECT_EQ(got.error, record["error"].get<std::string>()) << source;
      }
    }
  }
  return counts;
}

TEST(Jinja, WhatChatTemplatesUse) { EXPECT_EQ(expect_golden(read_lines(kTemplates / "core.jsonl")).same, 378); }

TEST(Jinja, ScopesTextsNumbersAndWholeTemplates) {
  const auto records = read_lines(kTemplates / "more.jsonl");
  EXPECT_GE(records.size(), 60);
  expect_golden(records);
}

TEST(Jinja, AllOfTheSharedGoldenCases) {
  const auto file = kSharedGolden / "jinja.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const Counts counts = expect_golden(read_lines(file));
  EXPECT_EQ(counts.same + counts.refused, 434);
  EXPECT_LE(counts.refused, 24);
}

TEST(Jinja, ComplaintsNameTheLineAndTheExpression) {
  EXPECT_EQ(complaint("a\n{% if true %}\n  {{ 1 + messages[0].content.x }}\n{% endif %}",
                      {{"messages", {{{"content", "hi"}}}}}),
            "T, line 3, in `1 + messages[0].content.x`: 'str object' has no attribute 'x'");
  EXPECT_EQ(complaint("\n\n{{ m.tools.first }}", {{"m", Json::object()}}),
            "T, line 3, in `m.tools.first`: 'dict object' has no attribute 'tools'");
  EXPECT_EQ(complaint("{% macro f(a) %}\n{{ a / 0 }}{% endmacro %}\n{{ f(1) }}"),
            "T, line 2, in `a / 0`: division by zero");
  EXPECT_EQ(complaint("x\n{% if a %}\ny\n"),
            "T, line 3: Unexpected end of template, looking for 'elif' or 'else' or 'endif'");
  EXPECT_EQ(complaint("{% for a in b %}\n{% endif %}"), "T, line 2: Encountered unknown tag 'endif'.");
  EXPECT_EQ(complaint("\n{{ x | urlize }}"), "T, line 2: the filter 'urlize' is not supported");
  EXPECT_EQ(complaint("\n{% include 'x' %}"), "T, line 2: the tag 'include' is not supported");
  EXPECT_EQ(complaint("{% for a in [1] %}\n{% set b, c = [1] %}{% endfor %}"),
            "T, line 2: not enough values to unpack (expected 2, got 1)");
}

TEST(Jinja, ARaisedMessageStandsAlone) {
  const Outcome got = outcome("\n\n{{ raise_exception('Roles must alternate') }}", Json::object());
  EXPECT_EQ(got.error, "Roles must alternate");
  EXPECT_EQ(got.kind, Kind::raised);
}

TEST(Jinja, KeysKeepTheirOrderInManyItems) {
  Json big = Json::object();
  std::string want;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string((i * 7919) % 300);
    big[key] = i;
    want += key + ",";
  }
  EXPECT_EQ(rendered("{% for k in d %}{{ k }},{% endfor %}", {{"d", big}}), want);
  EXPECT_EQ(rendered("{{ d.k17 }}{{ d['k299'] }}{{ d.nosuch is defined }}", {{"d", big}}),
            big["k17"].dump() + big["k299"].dump() + "False");
}

TEST(Jinja, NumbersOfTheContext) {
  const Json context = parse_json(
      R"({"a": 18446744073709551615, "b": -9223372036854775808, "c": 1e300, "d": 1.0, "e": -0.0, "f": 1e16})", "");
  EXPECT_EQ(rendered("{{ a }} {{ b }} {{ c }} {{ d }} {{ e }} {{ f }}", context),
            "18446744073709551615 -9223372036854775808 1e+300 1.0 -0.0 1e+16");
  EXPECT_NE(complaint("{{ a }}", parse_json(R"({"a": 18446744073709551616})", "")).find("64 bits"), std::string::npos);
}

TEST(Jinja, RefusesATemplateThatIsNoText) {
  EXPECT_THROW(jinja::Template("a\xFF", "T"), Error);
  EXPECT_THROW(jinja::Template(std::string(std::size_t{2} << 20, 'a'), "T"), Error);
}

// Python's own answers for characters with a case of their own.
TEST(PythonText, Cases) {
  EXPECT_EQ(jinja::upper("\u0149ßﬁi\u0131"), "\u02BCNSSFIII");
  EXPECT_EQ(jinja::title("ǆabc o'neil"), "ǅabc O'Neil");
  EXPECT_EQ(jinja::lower("\u0130ΑΣ.Σ ΑΣ:"), "i\u0307ασ.ς ας:");
  EXPECT_EQ(jinja::capitalize("ßA"), "Ssa");
  EXPECT_EQ(jinja::strip("\u3000\x1C a \u200B\u0085"), "a \u200B");
}

}  // namespace
}  // namespace tpinfer::test
