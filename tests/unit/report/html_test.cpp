#include "report/html.hpp"

#include <gtest/gtest.h>

namespace tpinfer::test {
namespace {

using namespace std::string_literals;

TEST(ReportHtml, TextIsNeverMarkup) {
  EXPECT_EQ(escaped("<script>alert(\"1\" + '&')</script>"),
            "&lt;script&gt;alert(&quot;1&quot; + &#39;&amp;&#39;)&lt;/script&gt;");
  const std::string hostile = "\"><img src=x onerror=alert(1)>";
  EXPECT_EQ(html("<a title=\"{}\">{}</a>", hostile, 5).markup(),
            "<a title=\"&quot;&gt;&lt;img src=x onerror=alert(1)&gt;\">5</a>");
  EXPECT_EQ(html("{}{}", html("<b>{}</b>", "<"), std::string_view(">")).markup(), "<b>&lt;</b>&gt;");
}

TEST(ReportHtml, WhatIsNoTextBecomesVisible) {
  EXPECT_EQ(escaped("a\0b\x1B[31m\x7F\r"s), "a\u2400b\u241B[31m\u2421\u240D");
  EXPECT_EQ(escaped("line\n\ttab"), "line\n\ttab");
  EXPECT_EQ(escaped("\xFF"
                    "a\xC3"),
            "\uFFFD"
            "a\uFFFD");
  EXPECT_EQ(escaped("\xC0\xBC"), "\uFFFD\uFFFD");            // "<" in two bytes
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(escaped("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escaped("a\u0085b\u202Ec\u2066d"), "a\uFFFDb\uFFFDc\uFFFDd");  // next line, marks of direction
  EXPECT_EQ(escaped("Grüße 👋 日本"), "Grüße 👋 日本");
}

TEST(ReportHtml, LongTextsAreCutByCharacters) {
  EXPECT_EQ(shortened("  a \n\n b\tc  ", 10), "a b c");
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
  EXPECT_EQ(shortened("0123456789a", 10), "012345678…");
  EXPECT_EQ(shortened("日本日本", 3), "日本…");
  EXPECT_EQ(escaped(shortened("<b>&</b>", 4)), "&lt;b&gt;…");
}

TEST(ReportHtml, ATableEscapesAndAligns) {
  HtmlTable table({"<id>", "n"});
  EXPECT_TRUE(table.empty());
  table.row(std::vector<std::string>{"a&b", "1"});
  table.row(std::vector<Html>{html("<b>{}</b>", "x"), html("{}", 2)});
  const std::string markup = table.done().markup();
  EXPECT_NE(markup.find("<th>&lt;id&gt;</th><th class=\"n\">n</th>"), std::string::npos) << markup;
  EXPECT_NE(markup.find("<td>a&amp;b</td><td class=\"n\">1</td>"), std::string::npos) << markup;
  EXPECT_NE(markup.find("<td><b>x</b></td><td class=\"n\">2</td>"), std::string::npos) << markup;
}

}  // namespace
}  // namespace tpinfer::test
