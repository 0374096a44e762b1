#include "core/error.hpp"

#include <system_error>

namespace tpinfer {

std::string system_message(int number) { return std::generic_category().message(number); }

}  // namespace tpinfer
