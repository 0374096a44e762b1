#pragma once

namespace tpinfer {

struct ModelsOptions {
  bool json = false;
  bool markdown = false;  ///< the table of the README
};

/// `tpinfer models`: the families, their architecture names, and what of each is split and how, as the family tables
/// and role rules have it. -> exit code.
int run_models(const ModelsOptions& options);

}  // namespace tpinfer
