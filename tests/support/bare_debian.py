"""A bare Debian 12 in a folder and commands inside it, for tests that run as root. What a command mounts goes with it."""
import os
import shutil
import subprocess
import unittest

MIRROR = os.environ.get("TPINFER_DEBIAN", "http://deb.debian.org/debian")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
INSIDE = 'mkdir -p "$0/dev/shm" && mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" bash -c "$1"'


def make(root):
    """Skips the test where that cannot be."""
    if not os.environ.get("TPINFER_LONG_TESTS"):
        raise unittest.SkipTest("only with TPINFER_LONG_TESTS=1")
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("unshare"):
        raise unittest.SkipTest("needs root, debootstrap and unshare")
    made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root), MIRROR], capture_output=True, text=True)
    if made.returncode != 0:
        raise unittest.SkipTest(f"debootstrap has no mirror to take packages from: {made.stdout[-300:]}")


def run(root, command, env=None):
    """-> what it prints; AssertionError unless it ends with 0."""
    r = subprocess.run(["unshare", "--mount", "sh", "-c", INSIDE, str(root), command], capture_output=True, text=True,
                       env={"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", **(env or {})})
    if r.returncode != 0:
        raise AssertionError(f"{command}: exit {r.returncode}: {r.stdout[-1500:]}{r.stderr[-1500:]}")
    return r.stdout
