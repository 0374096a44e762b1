#include <cstdlib>

#include "comm/communicator.hpp"

namespace tpinfer {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  int local_size() const noexcept override { return 1; }
  int host() const noexcept override { return 0; }

  void barrier(std::string_view) override {}
  void broadcast(std::vector<std::byte>&, int root, std::string_view where) override { check_root(root, where); }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                             std::string_view where) override {
    check_root(root, where);
    return {std::vector<std::byte>(bytes.begin(), bytes.end())};
  }
  std::vector<std::int64_t> all_gather(std::int64_t value, std::string_view) override { return {value}; }
  std::unique_ptr<Communicator> split(int, std::string_view) override { return make_self_communicator(); }
  [[noreturn]] void abort(ExitCode code) noexcept override { std::_Exit(static_cast<int>(code)); }

 private:
  static void check_root(int root, std::string_view where) {
    if (root != 0) throw Error(ExitCode::internal, fmt::format("root {} in a world of one ({})", root, where));
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() { return std::make_unique<SelfCommunicator>(); }

}  // namespace tpinfer
