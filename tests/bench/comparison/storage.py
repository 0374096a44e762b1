"""How fast this machine reads files past its cache, and copies them out of it."""
import mmap
import os
import threading
import time

PIECE = 8 << 20


def run_threads(count, work):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def pieces_of(files):
    """[(path, offset)] of pieces of the files, and their bytes."""
    sizes = {f: os.path.getsize(f) for f in files}
    return [(f, at) for f, size in sizes.items() for at in range(0, size, PIECE)], sum(sizes.values())


def direct_rate(files, threads=8):
    """GB/s of reading the files with O_DIRECT, several reads under way at once."""
    pieces, total = pieces_of(files)
    opened = {f: os.open(f, os.O_RDONLY | os.O_DIRECT) for f in files}
    got = [0] * threads

    def read(i):
        with mmap.mmap(-1, PIECE) as buffer:  # aligned to a page, as O_DIRECT wants
            view = memoryview(buffer)
            for path, at in pieces[i::threads]:
                got[i] += os.preadv(opened[path], [view], at)
            view.release()

    begin = time.perf_counter()
    run_threads(threads, read)
    seconds = time.perf_counter() - begin
    for fd in opened.values():
        os.close(fd)
    if sum(got) != total:
        raise SystemExit(f"reading {', '.join(map(str, files))} past the cache gave {sum(got)} of {total} bytes")
    return total / seconds / 1e9


def back_memory(size):
    """Uses so much memory once and gives it back: in a virtual machine the first touch of a page may have to wait until
    the host finds it one, which is slow, and whoever comes next is spared it."""
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


def copy_rates(files, threads=2):
    """GB/s of copying the files, which should be in the page cache, to memory: {"fresh": never used before, as a loader's
    is, "touched": used before}."""
    pieces, total = pieces_of(files)
    starts, at = [], 0
    for path, offset in pieces:
        starts.append(at)
        at += min(PIECE, os.path.getsize(path) - offset)
    opened = {f: os.open(f, os.O_RDONLY) for f in files}
    rates, got = {}, [0] * threads
    with mmap.mmap(-1, total) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(memory)

        def copy(i):
            for k in range(len(pieces) * i // threads, len(pieces) * (i + 1) // threads):
                path, offset = pieces[k]
                with view[starts[k]:min(starts[k] + PIECE, total)] as part:
                    got[i] += os.preadv(opened[path], [part], offset)

        for kind in ("fresh", "touched"):
            begin = time.perf_counter()
            run_threads(threads, copy)
            rates[kind] = total / (time.perf_counter() - begin) / 1e9
        view.release()
    for fd in opened.values():
        os.close(fd)
    if sum(got) != 2 * total:
        raise SystemExit(f"copying {', '.join(map(str, files))} twice gave {sum(got)} of {2 * total} bytes")
    return rates
