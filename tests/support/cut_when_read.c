// Preloaded into a run: changes a file at the moment when one rank has mapped or read a part of it, which no other
// process could hit. CHANGE_FILE: its path; CHANGE_RANK; CHANGE_CALL: mmap or pread; CHANGE_AFTER: how many such calls
// of the rank on the file come before; CHANGE_TO: its new length, or "touched" for another time of change.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void look(const char* call, int fd) {
  static atomic_int seen;
  const char* file = getenv("CHANGE_FILE");
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (fd < 0 || !file || strcmp(getenv("CHANGE_CALL"), call) != 0) return;
  if (strcmp(rank ? rank : "0", getenv("CHANGE_RANK")) != 0) return;
  char link[64], name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 0) return;
  name[length] = '\0';
  if (strcmp(name, file) != 0 || atomic_fetch_add(&seen, 1) != atoi(getenv("CHANGE_AFTER"))) return;
  const char* to = getenv("CHANGE_TO");
  if (strcmp(to, "touched") == 0 ? utimensat(AT_FDCWD, file, NULL, 0) : truncate(file, atol(to))) abort();
}

void* mmap(void* at, size_t length, int protection, int flags, int fd, off_t offset) {
  void* mapped = (void*)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
  if (mapped != MAP_FAILED) look("mmap", fd);
  return mapped;
}

ssize_t pread(int fd, void* to, size_t count, off_t offset) {
  const ssize_t got = syscall(SYS_pread64, fd, to, count, offset);
  look("pread", fd);
  return got;
}

void* mmap64(void* at, size_t length, int protection, int flags, int fd, off_t offset) {
  return mmap(at, length, protection, flags, fd, offset);
}
ssize_t pread64(int fd, void* to, size_t count, off_t offset) { return pread(fd, to, count, offset); }
