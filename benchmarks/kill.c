/* Loaded before libc (LD_PRELOAD): kills the process before its n-th change to the files of a folder, or inside a write,
   when half of it is done. Changes by any library are seen, but not writes to mapped memory. See kills in faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long last, *met; /* memory of two numbers: points met; 1 after a death before a change, 2 inside a write */

void arm(long n, const char *place, long *memory) { last = n, met = memory, strcpy(folder, place); }

static void die(long inside) { met[1] = 1 + inside; kill(getpid(), SIGKILL); pause(); }
static int due(void) { return __atomic_fetch_add(met, 1, __ATOMIC_SEQ_CST) == last; }

static int below(int place, const char *path) { /* an absolute path, or an open file or folder */
    char link[40], found[PATH_MAX];
    if (!folder[0]) return 0;
    if (path && path[0] == '/') return !strncmp(path, folder, strlen(folder));
    snprintf(link, sizeof link, "/proc/self/fd/%d", place);
    ssize_t n = readlink(link, found, sizeof found - 1);
    return n > 0 && (found[n] = 0, !strncmp(found, folder, strlen(folder)));
}

#define REAL(type, name, takes) static type (*real) takes; if (!real) real = (type (*) takes) dlsym(RTLD_NEXT, #name)
#define CHANGE(name, takes, gives, place, path) \
    int name takes { REAL(int, name, takes); if (below(place, path) && due()) die(0); return real gives; }
CHANGE(rename, (const char *a, const char *b), (a, b), -1, b)
CHANGE(renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), e, b)
CHANGE(unlink, (const char *a), (a), -1, a)
CHANGE(unlinkat, (int d, const char *a, int f), (d, a, f), d, a)
CHANGE(mkdir, (const char *a, mode_t m), (a, m), -1, a)
CHANGE(rmdir, (const char *a), (a), -1, a)
CHANGE(link, (const char *a, const char *b), (a, b), -1, b)
CHANGE(linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), e, b)
CHANGE(symlink, (const char *a, const char *b), (a, b), -1, b)
CHANGE(chmod, (const char *a, mode_t m), (a, m), -1, a)
CHANGE(truncate64, (const char *a, off64_t n), (a, n), -1, a)
CHANGE(ftruncate64, (int d, off64_t n), (d, n), d, 0)

#define OPEN(name, takes, first, place, path, flags, ...) \
    int name takes { REAL(int, name, first); va_list rest; va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; va_end(rest); \
        if (flags & (O_WRONLY | O_RDWR | O_CREAT) && below(place, path) && due()) die(0); \
        return real(__VA_ARGS__, mode); }
OPEN(open, (const char *a, int f, ...), (const char *, int, ...), -1, a, f, a, f)
OPEN(open64, (const char *a, int f, ...), (const char *, int, ...), -1, a, f, a, f)
OPEN(openat, (int d, const char *a, int f, ...), (int, const char *, int, ...), d, a, f, d, a, f)
OPEN(openat64, (int d, const char *a, int f, ...), (int, const char *, int, ...), d, a, f, d, a, f)

#define WRITE(name, takes, file, whole, half) \
    ssize_t name takes { REAL(ssize_t, name, takes); \
        if (below(file, 0)) { if (due()) die(0); if (due()) { real half; die(1); } } return real whole; }
WRITE(write, (int d, const void *b, size_t n), d, (d, b, n), (d, b, n / 2))
WRITE(pwrite64, (int d, const void *b, size_t n, off64_t o), d, (d, b, n, o), (d, b, n / 2, o))
WRITE(writev, (int d, const struct iovec *v, int n), d, (d, v, n), (d, v, n / 2))
WRITE(sendfile64, (int d, int s, off64_t *o, size_t n), d, (d, s, o, n), (d, s, o, n > 1000 ? 500 : n / 2))
WRITE(copy_file_range, (int s, off64_t *o, int d, off64_t *p, size_t n, unsigned f), d, (s, o, d, p, n, f),
      (s, o, d, p, n > 1000 ? 500 : n / 2, f))
