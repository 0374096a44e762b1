#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace tpinfer {

struct Letter {
  int from = 0;
  std::vector<std::byte> bytes;
};

/// Messages between ranks that nobody waits for. Those of one sender arrive in the order in which they were sent.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  /// Returns at once; the bytes are kept until they are taken over.
  virtual void send(int to, std::vector<std::byte> bytes) = 0;
  /// A message that has arrived, if there is one.
  virtual std::optional<Letter> receive() = 0;
  /// True when all that was sent has been taken over. A mailbox must not be destroyed before.
  virtual bool sent_all() = 0;
};

/// A mailbox between the ranks of `comm`; collective.
std::unique_ptr<Mailbox> make_mailbox(Communicator& comm, std::string_view where);

}  // namespace tpinfer
