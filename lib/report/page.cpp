#include "report/page.hpp"

#include "output/result_names.hpp"
#include "report/page_style.hpp"
#include "report/sections.hpp"

namespace tpinfer {

std::string report_page(const RunResult& r, const std::string& file) {
  const Section sections[] = {summary_section(r, file), memory_section(r), plan_section(r),
                              speed_section(r),         time_section(r),   lengths_section(r),
                              slowest_section(r),       errors_section(r), environment_section(r)};
  Html links, parts;
  for (const Section& s : sections) {
    links += html("<a href=\"#{}\">{}</a>\n", s.id, s.title);
    parts += html("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", s.id, s.title, s.body);
  }
  const std::string name = shortened(file.substr(file.find_last_of('/') + 1), 80);
  const Html page = html(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // a page that runs and fetches nothing, whatever gets into it
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">\n"
      "<title>{} - tpinfer report</title>\n<style>\n{}</style></head>\n<body>\n"
      "<header><h1>{} <span class=\"state {}\">{}</span></h1>\n<nav>{}</nav></header>\n<main>\n{}</main>\n"
      "<footer>Made by tpinfer {} from a result file; numbers are those of the run.</footer>\n</body></html>\n",
      name, Html(kPageStyle), name, name_of(r.state), name_of(r.state), links, parts, r.tpinfer_version);
  return page.markup();
}

}  // namespace tpinfer
