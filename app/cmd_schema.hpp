#pragma once

namespace tpinfer {

/// `tpinfer schema`: the JSON Schema of the job file on standard output. -> exit code.
int run_schema();

}  // namespace tpinfer
