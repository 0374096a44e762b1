#include "app/cmd_schema.hpp"

#include "app/print.hpp"
#include "core/error.hpp"
#include "job/schema.hpp"

namespace tpinfer {

int run_schema() {
  print_all(job_schema().dump(1) + "\n");
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
