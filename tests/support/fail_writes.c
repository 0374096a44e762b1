/* Makes writing to some files fail, for tests. TPINFER_FAIL is KIND:SUFFIX:AFTER: for files whose name ends in SUFFIX,
   after AFTER bytes (write, short) or calls (sync). write: ENOSPC from then on; short: half of what is asked is written
   first; sync: fsync and fdatasync give EIO. lock: byte-range locks give the errno AFTER at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long used;

/* the kind of fault meant for this descriptor, 0 for none; *after is its third word */
static char fault(int fd, long long* after) {
  const char* rule = getenv("TPINFER_FAIL");
  char kind[16], suffix[64], link[64], path[4096];
  if (!rule || sscanf(rule, "%15[^:]:%63[^:]:%lld", kind, suffix, after) != 3) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  size_t length = strlen(suffix);
  if (n < (ssize_t)length) return 0;
  path[n] = 0;
  return strcmp(path + n - length, suffix) == 0 ? kind[1] : 0;
}

static ssize_t part(int fd, const void* bytes, size_t count, off_t offset) {
  ssize_t (*real)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
  long long after = 0;
  char kind = fault(fd, &after);
  if (kind != 'r' && kind != 'h') return real(fd, bytes, count, offset);
  if (used + (long long)count > after) {
    if (kind == 'h' && used <= after) {
      used = after + 1;
      return real(fd, bytes, count / 2 + 1, offset);
    }
    errno = ENOSPC;
    return -1;
  }
  used += (long long)count;
  return real(fd, bytes, count, offset);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) { return part(fd, bytes, count, offset); }
ssize_t pwrite64(int fd, const void* bytes, size_t count, off_t offset) { return part(fd, bytes, count, offset); }

static int sync_with(const char* name, int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, name);
  long long after = 0;
  if (fault(fd, &after) != 'y' || ++used <= after) return real(fd);
  errno = EIO;
  return -1;
}

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

static int control(const char* name, int fd, int command, void* argument) {
  int (*real)(int, int, ...) = dlsym(RTLD_NEXT, name);
  long long number = 0;
  if ((command != F_OFD_SETLK && command != F_SETLK) || fault(fd, &number) != 'o') return real(fd, command, argument);
  errno = (int)number;
  return -1;
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return control("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  return control("fcntl64", fd, command, argument);
}
