#include "comm/mailbox.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "mpi_test.hpp"

namespace tpinfer::testing {
namespace {

std::vector<std::byte> letter_of(int rank, int number, std::size_t size) {
  std::vector<std::byte> bytes(size, static_cast<std::byte>(rank * 31 + number));
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Letters of all sizes from every rank to every other one; those of one sender come in order and whole.
TEST(Mailbox, LettersComeWholeAndInOrder) {
  const auto mail = make_mailbox(world(), "test");
  constexpr int kLetters = 60;
  const auto size_of = [](int number) {
    return number % 20 == 7 ? std::size_t{3} << 20 : std::size_t(8 + number * 13);
  };
  std::vector<int> next(static_cast<std::size_t>(world().size()), 0);
  int received = 0;
  const auto receive = [&] {
    while (const auto letter = mail->receive()) {
      const int number = next[static_cast<std::size_t>(letter->from)]++;
      ASSERT_EQ(letter->bytes, letter_of(letter->from, number, size_of(number)));
      ++received;
    }
  };
  for (int number = 0; number < kLetters; ++number) {
    for (int to = 0; to < world().size(); ++to)
      if (to != world().rank()) mail->send(to, letter_of(world().rank(), number, size_of(number)));
    if (number % 3 == 0) receive();
  }
  const auto start = std::chrono::steady_clock::now();
  while ((received < kLetters * (world().size() - 1) || !mail->sent_all()) &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    receive();
    std::this_thread::yield();
  }
  EXPECT_EQ(received, kLetters * (world().size() - 1));
  EXPECT_TRUE(mail->sent_all());
  EXPECT_FALSE(mail->receive());
  world().barrier("all letters are read");
}

TEST(Mailbox, SendingWaitsForNobody) {
  const auto mail = make_mailbox(world(), "test");
  if (world().rank() == 0) {
    const auto start = std::chrono::steady_clock::now();
    for (int to = 1; to < world().size(); ++to)
      for (int number = 0; number < 10; ++number) mail->send(to, letter_of(0, number, std::size_t{1} << 20));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    for (int number = 0; number < 10;) number += mail->receive() ? 1 : 0;
  }
  while (!mail->sent_all()) std::this_thread::yield();
  world().barrier("all letters are read");
}

}  // namespace
}  // namespace tpinfer::testing
