#include <deque>

#include "comm/mailbox.hpp"
#include "comm/mpi_communicator.hpp"
#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr int kLetterTag = 1;

class MpiMailbox final : public Mailbox {
 public:
  explicit MpiMailbox(std::unique_ptr<MpiCommunicator> comm) : comm_(std::move(comm)) {}
  ~MpiMailbox() override {
    if (sent_all()) return;
    for (Sent& sent : sent_) comm_->health()->kept.push_back(sent.bytes);  // the library may still read them
  }
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;

  void send(int to, std::vector<std::byte> bytes) override {
    sent_all();
    Sent& sent = sent_.emplace_back();
    sent.bytes = std::make_shared<std::vector<std::byte>>(std::move(bytes));
    check_mpi(MPI_Isend(sent.bytes->data(), checked_cast<int>(sent.bytes->size()), MPI_BYTE, to, kLetterTag,
                        comm_->handle(), &sent.request),
              "a message between replicas");
  }

  std::optional<Letter> receive() override {
    int arrived = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, kLetterTag, comm_->handle(), &arrived, &message, &status),
              "messages between replicas");
    if (!arrived) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    Letter letter{status.MPI_SOURCE, std::vector<std::byte>(static_cast<std::size_t>(count))};
    check_mpi(MPI_Mrecv(letter.bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE),
              "a message between replicas");
    return letter;
  }

  bool sent_all() override {
    while (!sent_.empty()) {
      int done = 0;
      check_mpi(MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE), "a message between replicas");
      if (!done) return false;
      sent_.pop_front();
    }
    return true;
  }

 private:
  struct Sent {
    std::shared_ptr<std::vector<std::byte>> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<MpiCommunicator> comm_;
  std::deque<Sent> sent_;
};

}  // namespace

std::unique_ptr<Mailbox> make_mailbox(Communicator& comm, std::string_view where) {
  auto* mpi = dynamic_cast<MpiCommunicator*>(&comm);
  if (!mpi) throw Error(ExitCode::internal, fmt::format("a mailbox needs MPI ({})", where));
  return std::make_unique<MpiMailbox>(mpi->split_with(0, mpi->timeout(), where));
}

}  // namespace tpinfer
