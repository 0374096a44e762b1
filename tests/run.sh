#!/usr/bin/env bash
# Installs what is needed, builds with warnings as errors and runs all tests that this machine can run.
#   tests/run.sh          the short run
#   tests/run.sh --all    also the long tests, the sanitizer builds and the fuzzers
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
[ "${1:-}" = "--all" ] && all=1
packages=(jobs/packages.txt tests/packages.txt)
[ $all -eq 1 ] && packages+=(tests/packages_long.txt)
bash jobs/install_packages.sh "${packages[@]}"
. jobs/mpi_env.sh
export PYTHONDONTWRITEBYTECODE=1

echo "== layout of the code (clang-format)"
git ls-files '*.hpp' '*.cpp' '*.cu' | xargs clang-format --dry-run -Werror

run_preset() {
  echo "== build: $1"
  cmake --preset "$1" -DTPINFER_TESTS=ON -DTPINFER_CUDA_ARCHITECTURES=90 "${@:2}" >/dev/null
  cmake --build "build/$1"
  echo "== tests: $1"
  ctest --test-dir "build/$1" --output-on-failure -j 3  # ranks wait for each other much of the time
}

run_preset release
if [ $all -eq 1 ]; then
  TPINFER_LONG_TESTS=1 ctest --test-dir build/release --output-on-failure -L long
  for preset in asan ubsan; do run_preset "$preset"; done
  bash tests/fuzz/run.sh 120
fi
