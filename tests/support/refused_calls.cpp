#include "refused_calls.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <vector>

namespace tpinfer::testing {
namespace {

std::atomic<int> refused{0};
std::atomic<int> last{-1};

void note_call(int, siginfo_t* info, void* context) {
  last = info->si_syscall;
  ++refused;
#if defined(__x86_64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -EAGAIN;
#else
  (void)context;
#endif
}

}  // namespace

bool refuse_system_calls(std::initializer_list<int> allowed) {
  struct sigaction action = {};
  action.sa_sigaction = note_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  std::vector<int> numbers(allowed);
  numbers.insert(numbers.end(), {SYS_rt_sigreturn, SYS_exit, SYS_exit_group});
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int number : numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

RefusedCalls refused_calls() noexcept { return {refused, last}; }

}  // namespace tpinfer::testing
