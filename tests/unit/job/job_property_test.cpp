// Random jobs survive their resolved text; random bytes end in an Error and nothing else.
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>

#include "job/fields.hpp"
#include "job/resolved.hpp"
#include "job_support.hpp"

namespace tpinfer {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return static_cast<std::size_t>(random() % count); }

std::string random_text(Random& random) {
  static const std::vector<std::string> kPieces = {
      "a",    "Z",    "0",   " ", "\n", "\t",   ":",    "#",   "'",  "\"",       "\\",
      "{",    "}",    "${",  "$", "~",  "null", "true", "1e5", "- ", "\xc3\xa9", "\xf0\x9f\x98\x80",
      "\x7f", "\x01", "yes", ","};
  std::string out;
  for (std::size_t i = below(random, 6) + 1; i-- > 0;) out += kPieces[below(random, kPieces.size())];
  return out;
}

// The visitor of visit_job that fills with random values, about half of the keys.
class Scrambler {
 public:
  explicit Scrambler(Random& random) : random_(random) {}

  template <class Body>
  void section(std::string_view, Body&& body) {
    body();
  }
  template <class T, class Codec>
  void field(std::string_view, T& value, const Codec& codec) {
    if (random_() % 2) set(value, codec);
  }
  template <class T, class Codec>
  void required(std::string_view, T& value, const Codec& codec) {
    set(value, codec);
  }
  void sampling(SamplingRequest& request) {
    SamplingParams unused;
    DoSample mode = DoSample::automatic;
    visit_sampling(
        [&](std::string_view, auto& given, auto&, const auto& codec) {
          if (random_() % 2) return;
          typename std::remove_reference_t<decltype(given)>::value_type value{};
          set(value, codec);
          given = value;
        },
        request, unused, mode);
    if (request.max_new_tokens == 0) request.max_new_tokens = 1;
    if (request.min_new_tokens)
      request.min_new_tokens = *request.min_new_tokens % (request.max_new_tokens.value_or(256) + 1);
  }

 private:
  void set(bool& out, const Flag&) { out = random_() % 2; }
  void set(DoSample& out, const DoSampleWord&) { out = static_cast<DoSample>(random_() % 3); }
  void set(std::int64_t& out, const Int& codec) {
    const auto span = static_cast<std::uint64_t>(codec.most) - static_cast<std::uint64_t>(codec.least);
    out = codec.least +
          static_cast<std::int64_t>(random_() % 4 ? random_() % std::min<std::uint64_t>(span, 1000) : random_() % span);
  }
  void set(std::int64_t& out, const IntOf& codec) { out = codec.values[below(random_, codec.values.size())]; }
  void set(double& out, const Real& codec) {
    out = std::max(codec.least, 0.0) +
          std::ldexp(1.0 + static_cast<double>(random_() >> 11), -53 - static_cast<int>(random_() % 40));
    if (codec.most > 1 && random_() % 2) out *= std::ldexp(1.0, static_cast<int>(random_() % 200));
  }
  void set(std::string& out, const Text&) { out = random_text(random_); }
  void set(std::string& out, const PathText&) { out = "/base/p" + random_path(); }
  void set(std::uint64_t& out, const Size&) {
    out = random_() % 2 ? 1 + random_() % 100000 : (1 + random_() % 1000) << 30;
  }
  void set(double& out, const Duration& codec) {
    out = codec.least + static_cast<double>(random_() % 10'000'000) / 1000;
  }
  void set(DType& out, const WeightType&) { out = static_cast<DType>(random_() % 3); }
  void set(std::string& out, const ShardText&) { out = "3/16"; }
  void set(KvCacheLimit& out, const KvCache&) {
    std::uint64_t value = 1 + random_() % 1'000'000;
    if (random_() % 2)
      out = {.bytes = value, .tokens = {}};
    else
      out = {.bytes = {}, .tokens = value};
  }
  void set(TimeLimit& out, const TimeLimitText&) { out = {.automatic = false, .seconds = 77.5}; }
  void set(LogitBias& out, const LogitBiasMap&) { out = {{3, -1.5}, {70000, 2}}; }
  void set(std::vector<std::string>& out, const List<PathText>& codec) { out.resize(1), set(out[0], codec.item); }
  template <class T, class Codec>
  void set(std::vector<T>& out, const List<Codec>& codec) {
    out.resize(random_() % 4);
    for (T& item : out) set(item, codec.item);
  }
  template <class E>
  void set(E& out, const Choice<E>& codec) {
    out = static_cast<E>(below(random_, codec.names.size()));
  }
  template <class T, class Codec>
  void set(std::optional<T>& out, const Or<Codec>& codec) {
    out.reset();
    if (random_() % 4) set(out.emplace(), codec.codec);
  }
  std::string random_path() {
    std::string out;
    for (const char c : random_text(random_))
      if (static_cast<unsigned char>(c) >= 0x20) out += c;
    return out;
  }

  Random& random_;
};

TEST(JobProperty, ResolvedTextReadsBackEqual) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Job job;
    Scrambler scrambler(random);
    visit_job(scrambler, job);
    if (job.prompts.files.at(0).find_first_of("*?") != std::string::npos) continue;
    const std::string yaml = resolved_yaml(job);
    try {
      ASSERT_TRUE(parse_job_text(yaml, "resolved.yaml", "/other") == job) << seed << "\n" << yaml;
      ASSERT_EQ(resolved_yaml(parse_job_text(yaml, "resolved.yaml", "/other")), yaml);
      ASSERT_TRUE(parse_job_text(resolved_json(job), "resolved.json", "/other") == job) << seed << "\n" << yaml;
    } catch (const Error& e) {
      FAIL() << seed << ": " << e.what() << "\n" << yaml;
    }
  }
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> kSeeds = {
      kSmallest,
      resolved_yaml(parse(kSmallest)),
      resolved_json(parse(kSmallest)),
      "model:\n  path: |\n    a\n    b\nprompts: {file: 'p'}\noutput: {file: \"a\\x41\\u00e9.h5\"}\nsampling: "
      "{max_tokens: 3, stop: [a, b]}\n",
      "%YAML 1.2\n---\nmodel: &a !!str x\n? complex\n: *a\n<<: {b: c}\n...\n",
      "- - - a\n- {b: [c, {d: e}]}\n- >+\n  folded\n\n- |2-\n    x\n"};
  return kSeeds;
}

std::string mutate(Random& random, std::string text) {
  static const std::vector<std::string> kTokens = {
      ":",  ": ", "- ",  "? ", "[",  "]", "{",  "}",    ",",  "&a ", "*a",           "!",
      "!!", "|",  ">",   "'",  "\"", "#", "\n", "\r\n", "\t", "%",   "---\n",        "...\n",
      "~",  "\\", "\\u", "<<", "@",  "`", "  ", "0",    "-",  "${",  "\xef\xbb\xbf", "\xc2\x85"};
  for (std::size_t i = below(random, 4) + 1; i-- > 0;) {
    const std::size_t at = below(random, text.size() + 1);
    switch (random() % 5) {
      case 0: text.insert(at, kTokens[below(random, kTokens.size())]); break;
      case 1: text.erase(at, 1 + below(random, 8)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 3: text.insert(at, text.substr(below(random, text.size() + 1), below(random, 40))); break;
      default: text.resize(at);
    }
  }
  return text;
}

TEST(JobFuzz, OnlyErrorsComeOut) {
  const char* more = std::getenv("TPINFER_FUZZ_SECONDS");
  const double seconds = more ? std::atof(more) : 2.0;
  const auto start = std::chrono::steady_clock::now();
  Random random(more ? static_cast<std::uint64_t>(start.time_since_epoch().count()) : 42);
  std::size_t runs = 0, good = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    const std::string text = mutate(random, seeds()[below(random, seeds().size())]);
    JobOverrides overrides;
    if (random() % 4 == 0) overrides.sets.push_back(mutate(random, "sampling.top_k=3"));
    ++runs;
    try {
      const Job job = parse_job_text(text, random() % 4 ? "job.yaml" : "job.json", "/base", overrides);
      ++good;
      ASSERT_TRUE(parse_job_text(resolved_yaml(job), "again", "/") == job) << text;
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::usage) << e.what() << "\n" << text;
    } catch (const std::exception& e) {
      FAIL() << e.what() << "\n" << text;
    }
  }
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(runs, 100U);
  EXPECT_GT(good, 0U);
  std::printf("%zu texts, %zu of them good jobs\n", runs, good);
}

}  // namespace
}  // namespace tpinfer
