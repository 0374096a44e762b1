// Runs a fuzzer's inputs without libFuzzer: all files of the folders given, then inputs made of them by small random
// changes, always the same ones.
//
//   replay_NAME [--seconds S] FILE_OR_FOLDER...
//
// An input that ends the process is left in replay_NAME.input.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

// For the signal handler: what runs now.
Input current;              // NOLINT
std::string current_place;  // NOLINT

void save_current(int signal) {
  const int fd = ::creat(current_place.c_str(), 0644);
  if (::write(fd, current.data(), current.size()) < 0) ::_exit(70);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(Input input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

std::vector<Input> read_all(const std::vector<std::string>& places) {
  std::vector<std::filesystem::path> files;
  for (const std::string& place : places)
    if (std::filesystem::is_directory(place))
      for (const auto& entry : std::filesystem::recursive_directory_iterator(place)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    else
      files.emplace_back(place);
  std::ranges::sort(files);
  std::vector<Input> inputs;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
      std::exit(1);
    }
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Changes {
 public:
  explicit Changes(const std::vector<Input>& inputs) : inputs_(inputs) {}

  Input next() {
    Input input = any();
    for (std::size_t n = below(4) + 1; n > 0; --n) change(input);
    return input;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  const Input& any() { return inputs_[below(inputs_.size())]; }
  static auto at(Input& input, std::size_t n) { return input.begin() + static_cast<std::ptrdiff_t>(n); }

  void change(Input& input) {
    const std::size_t place = below(input.size() + 1);
    const std::size_t rest = input.size() - place;
    switch (below(6)) {
      case 0:
        if (rest > 0) input[place] = static_cast<std::uint8_t>(below(256));
        break;
      case 1:
        if (rest > 0) input[place] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 2: input.erase(at(input, place), at(input, place + std::min(rest, below(64) + 1))); break;
      case 3: insert_part(input, place, any()); break;
      case 4: insert_part(input, place, Input(input)); break;
      default: {
        static constexpr std::array kWords = {"0", "-1", "null", "1e308", "[",
                                              "]", "{",  "}",    "\"",    "9223372036854775808"};
        const std::string_view word = kWords[below(kWords.size())];
        input.insert(at(input, place), word.begin(), word.end());
      }
    }
  }

  void insert_part(Input& input, std::size_t place, const Input& other) {
    if (other.empty()) return;
    const std::size_t begin = below(other.size());
    const std::size_t count = std::min(other.size() - begin, below(64) + 1);
    const auto first = other.begin() + static_cast<std::ptrdiff_t>(begin);
    input.insert(at(input, place), first, first + static_cast<std::ptrdiff_t>(count));
  }

  const std::vector<Input>& inputs_;
  std::mt19937_64 random_{7};  // NOLINT: the same inputs every time
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--seconds" && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else
      places.emplace_back(argv[i]);
  current_place = std::filesystem::path(argv[0]).filename().string() + ".input";
  for (const int signal : {SIGILL, SIGTRAP, SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, save_current);
  const std::vector<Input> inputs = read_all(places);
  if (inputs.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  for (const Input& input : inputs) run(input);
  Changes changes(inputs);
  long made = 0;
  const auto start = std::chrono::steady_clock::now();
  for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; ++made)
    run(changes.next());
  std::printf("%zu inputs and %ld made of them\n", inputs.size(), made);
  return 0;
}
