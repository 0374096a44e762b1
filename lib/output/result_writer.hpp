#pragma once

#include <filesystem>
#include <string>

#include "output/part_file.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// Writes the result file (HDF5, layout in result_layout.hpp) by way of FILE.part: synced, renamed, folder synced, so
/// that FILE is whole or untouched. Answers may come in any order and are stored by prompt_index, sample_index; steps
/// are thinned to 10,000 rows. A text that HDF5 cannot hold (NUL, invalid UTF-8) is stored with U+2400 and U+FFFD, and
/// text_lossy set; its token ids tell the truth. Error(output) with the file and the cause; Error(internal) when rows
/// contradict each other.
void write_result_file(const std::filesystem::path& file, const RunResult& result);

/// "1.10.8": the HDF5 library in use.
std::string hdf5_library_version();
/// That of the header which this program was built with.
std::string hdf5_build_version();

}  // namespace tpinfer
