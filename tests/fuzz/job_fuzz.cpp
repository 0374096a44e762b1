// A job file, JSON where it begins with a brace, else YAML. It must end in complaints about the job, or in a job that
// its resolved form gives again.

#include "fuzz_folder.hpp"
#include "job/job.hpp"
#include "job/resolved.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  const std::string_view text = fuzz::text_of(data, size);
  const std::string name = text.starts_with('{') ? "job.json" : "job.yaml";
  fuzz::may_refuse(ExitCode::usage, [&] {
    const Job job = load_job(fuzz::write(name, text));
    const Job again = load_job(fuzz::write("again.json", job_json(job, {}).dump()));
    fuzz::require(job_json(again, {}) == job_json(job, {}));
  });
  return 0;
}
