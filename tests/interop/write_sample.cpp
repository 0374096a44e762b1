#include <exception>
#include <iostream>
#include <string_view>

#include "output/result_writer.hpp"
#include "sample_result.hpp"

/// write_sample full|empty FILE: the result file that result_file_test.py opens.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const bool full = std::string_view(argv[1]) == "full";
    tpinfer::write_result_file(argv[2], full ? tpinfer::test::sample_result() : tpinfer::RunResult{});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
