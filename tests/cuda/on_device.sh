#!/usr/bin/env bash
# One prepared run on a machine with a GPU, a driver and little else.
#   tests/cuda/on_device.sh pack [BUILD]   here: builds for the GPU's architecture (ARCH, default 90) into BUILD (default
#                                          build/device) and packs programs and small libraries into out/gpu-kit.tar.xz,
#                                          which git ignores: with the tracked files it must stay below 64 MiB
#   tests/cuda/on_device.sh run [KIT]      there, in the root of a copy of the tree: tests, then figures, in $LIMIT (560)
#                                          seconds; the table goes to $OUT/gpu.md (default out/), all output to
#                                          $OUT/gpu.log
# cuBLASLt and NCCL are those of a CUDA or PyTorch installation there; CUDA_LIBRARIES names further folders. Needed there
# besides: a driver, bash, coreutils, findutils and Python 3 alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs="bin/tpinfer tests/unit/cuda/test_cuda_kernels tests/unit/cuda/test_cuda_model tests/unit/cuda/test_cuda_toolkit tests/bench/gpu_probe"

pack() {
  local build=${1:-build/device} kit=out/gpu-kit plugins
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPINFER_CUDA=ON -DTPINFER_BENCH=ON \
    -DTPINFER_CUDA_ARCHITECTURES="${ARCH:-90}-real" >/dev/null
  cmake --build "$build" --target tpinfer test_cuda_kernels test_cuda_model test_cuda_toolkit gpu_probe
  rm -rf "$kit" && mkdir -p "$kit/bin" "$kit/lib" "$kit/libc" "$kit/mpi"
  for program in $programs; do
    cp "$build/$program" "$kit/bin/"
    strip "$kit/bin/${program##*/}"
  done
  # every library but the C library's own and CUDA's
  ldd "$kit"/bin/* | awk '$3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so|libcublas|libcudart|libcuda\.|libnccl' |
    xargs -I{} cp -L {} "$kit/lib/"
  # the C library too, for a machine where it is older
  cp -L /lib64/ld-linux-x86-64.so.2 "$kit/libc/"
  ldd "$kit"/bin/* | awk '$3 ~ /\/lib(c|m|dl|rt|pthread|resolv)\.so/ {print $3}' | sort -u | xargs -I{} cp -L {} "$kit/libc/"
  pack_plugins "$kit"
  pwd >"$kit/root.txt"
  tar -C out -cJf out/gpu-kit.tar.xz gpu-kit
  rm -r "$kit"
  check_size out/gpu-kit.tar.xz
}

# Open MPI's plugins, but those that want libraries of a network; without Open MPI there its own are not to be had.
pack_plugins() {
  local kit=$1 plugins plugin
  plugins=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
  for plugin in "$plugins"/mca_*.so; do
    if ldd "$plugin" | grep -Eq 'libuc[pst]|libfabric|libpsm|libibverbs|librdma|libpmix|libflux'; then continue; fi
    cp -L "$plugin" "$kit/mpi/"
  done
  ldd "$kit"/mpi/*.so | awk '$3 ~ /\/libmca_common|\/libopen|\/libmpi|\/libevent/ {print $3}' | sort -u |
    xargs -I{} cp -L {} "$kit/lib/"
}

check_size() {
  local kit_bytes tracked
  kit_bytes=$(stat -c %s "$1")
  tracked=$(git ls-files -z | du -cb --files0-from=- | tail -n 1 | cut -f 1)
  echo "$1: $((kit_bytes >> 10)) KiB; tracked files: $((tracked >> 10)) KiB; together $(((kit_bytes + tracked) >> 10)) of 65536 KiB"
  [ $((kit_bytes + tracked)) -le $((64 << 20)) ] || { echo "that is too much to take along" && exit 1; }
}

# Folders with CUDA's libraries: a toolkit, or what PyTorch brought along.
cuda_folders() {
  local file
  for file in libcublasLt.so libnccl.so.2; do
    # shellcheck disable=SC2086
    find ${CUDA_LIBRARIES:-} /usr/local/cuda*/lib64 "$(python3 -c 'import sys; print(sys.prefix)')/lib" /usr/lib /usr/local/lib /opt -name "$file*" -printf '%h\n' 2>/dev/null || true
  done | sort -u | paste -sd:
}

# Starts the programs by the kit's own loader where the C library here is older than the one they were built with.
use_own_libc() {
  local place=$1 program
  echo "the C library here does not do: $("$place/bin/tpinfer" --version 2>&1 | head -n 1); using the kit's"
  mv "$place/bin" "$place/real" && mkdir "$place/bin"
  for program in "$place"/real/*; do
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec "%s" --library-path "%s:$LD_LIBRARY_PATH" "%s" "$@"\n' \
      "$place/libc/ld-linux-x86-64.so.2" "$place/libc" "$program" >"$place/bin/${program##*/}"
    chmod +x "$place/bin/${program##*/}"
  done
}

# One test program; tests that were skipped for want of a GPU have not passed.
test_program() {
  local said
  echo "== ${1##*/}"
  if said=$(timeout "$(least 120 "$(seconds_left)")" "$1" --gtest_brief=1 2>&1) && ! grep -q SKIPPED <<<"$said"; then
    echo "$said"
    echo "PASSED ${1##*/}"
  else
    echo "$said"
    echo "FAILED ${1##*/}"
  fi
}
least() { echo $(($1 < $2 ? $1 : $2)); }
seconds_left() { echo $((${LIMIT:-560} - SECONDS)); }

run() {
  local kit=${1:-out/gpu-kit.tar.xz} out=${OUT:-out} place root test
  place=$(mktemp -d)
  mkdir -p "$out"
  # Python unpacks it too: not every machine has xz
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$kit" "$place"
  place=$place/gpu-kit
  # the tests know the place of their models in the tree that they were built from
  root=$(cat "$place/root.txt")
  if [ ! -e "$root/tests/data" ]; then
    { mkdir -p "$(dirname "$root")" && ln -s "$PWD" "$root"; } || echo "no models at $root, where the tests look for them"
  fi
  LD_LIBRARY_PATH="$place/lib:$(cuda_folders)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_LIBRARY_PATH
  export OMPI_MCA_mca_base_component_path="$place/mpi" OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_btl=self
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  {
    nvidia-smi -L || true
    "$place/bin/tpinfer" --version >/dev/null 2>&1 || use_own_libc "$place"
    "$place/bin/tpinfer" --version || echo "FAILED to start"
    for test in test_cuda_toolkit test_cuda_kernels test_cuda_model; do test_program "$place/bin/$test"; done
    echo "== figures"
    SECONDS_LEFT=$(seconds_left) python3 tests/cuda/on_device.py "$place/bin" "$out/gpu.md" || echo "FAILED figures"
    echo "$SECONDS s in all"
  } 2>&1 | tee "$out/gpu.log"
  ! grep -q '^FAILED' "$out/gpu.log"
}

case "${1:-}" in
  pack) pack "${2:-}" ;;
  run) run "${2:-}" ;;
  *)
    sed -n '2,/^set/{/^#/p}' "$0"
    exit 2
    ;;
esac
