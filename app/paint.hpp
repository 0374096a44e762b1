#pragma once

#include <string>
#include <string_view>

namespace tpinfer {

/// Colours for one stream of a terminal, or none.
class Paint {
 public:
  Paint() = default;
  /// `wish` is the value of --color. `auto`: where stream `fd` is a terminal that knows colours, NO_COLOR is not set
  /// and mpirun does not stand between.
  Paint(std::string_view wish, int fd);

  std::string good(std::string_view text) const { return dress(text, "32"); }
  std::string warning(std::string_view text) const { return dress(text, "33"); }
  std::string error(std::string_view text) const { return dress(text, "1;31"); }
  std::string heading(std::string_view text) const { return dress(text, "1"); }

 private:
  std::string dress(std::string_view text, std::string_view code) const;

  bool on_ = false;
};

}  // namespace tpinfer
