// Encodes a list of texts when told to, so that a script can run it in turns with another program.
//   bench_tokenizer FOLDER TEXTS.json      then a line each on standard input:
//     pass THREADS   encode all texts once; answers with the seconds, the CPU seconds and the number of ids
//     write FILE     encode all texts once and write the ids as 32-bit integers
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/json.hpp"
#include "text/tokenizer.hpp"

namespace {

using Texts = std::vector<std::string>;

std::size_t encode_all(const tpinfer::Tokenizer& tokenizer, const Texts& texts, unsigned threads) {
  std::atomic<std::size_t> next{0}, ids{0};
  const auto work = [&] {
    std::size_t count = 0;
    for (std::size_t i = next++; i < texts.size(); i = next++) count += tokenizer.encode(texts[i], false).size();
    ids += count;
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return ids;
}

void write_ids(const tpinfer::Tokenizer& tokenizer, const Texts& texts, const std::string& file) {
  std::ofstream out(file, std::ios::binary);
  for (const std::string& text : texts) {
    const auto ids = tokenizer.encode(text, false);
    out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(ids[0])));
  }
}

void answer(const tpinfer::Tokenizer& tokenizer, const Texts& texts, const std::string& line) {
  std::istringstream words(line);
  std::string command, argument;
  words >> command >> argument;
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  std::size_t ids = 0;
  if (command == "write") {
    write_ids(tokenizer, texts, argument);
  } else {
    ids = encode_all(tokenizer, texts, static_cast<unsigned>(std::stoul(argument)));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  fmt::print("{} {} {}\n", seconds.count(), cpu, ids);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto begin = std::chrono::steady_clock::now();
  const tpinfer::Tokenizer tokenizer = tpinfer::Tokenizer::load(argv[1]);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const auto texts = tpinfer::read_json_file(argv[2]).get<Texts>();
  fmt::print("{}\n", seconds.count());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) answer(tokenizer, texts, line);
  return 0;
}
