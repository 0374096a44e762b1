#!/usr/bin/env bash
# One prepared run on a machine with a GPU, a driver and little else.
#   tests/cuda/on_device.sh pack [BUILD]   here: builds for the GPU's architecture (ARCH, default 90) into BUILD (default
#                                          build/device) and packs programs and small libraries into out/gpu-kit.tar.xz
#   tests/cuda/on_device.sh run [KIT]      there, in the root of a copy of the tree: tests, then figures; the table goes
#                                          to $OUT/gpu.md (default out/), all output to $OUT/gpu.log
# cuBLASLt and NCCL are those of a CUDA or PyTorch installation there; CUDA_LIBRARIES names further folders.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs="bin/tpinfer tests/unit/cuda/test_cuda_kernels tests/unit/cuda/test_cuda_model tests/unit/cuda/test_cuda_toolkit tests/bench/gpu_probe"

pack() {
  local build=${1:-build/device} kit=out/gpu-kit plugins
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPINFER_CUDA=ON -DTPINFER_BENCH=ON \
    -DTPINFER_CUDA_ARCHITECTURES="${ARCH:-90}-real" >/dev/null
  cmake --build "$build" --target tpinfer test_cuda_kernels test_cuda_model test_cuda_toolkit gpu_probe
  rm -rf "$kit" && mkdir -p "$kit/bin" "$kit/lib" "$kit/mpi"
  for program in $programs; do
    cp "$build/$program" "$kit/bin/"
    strip "$kit/bin/${program##*/}"
  done
  # every library but the C library's own and CUDA's
  ldd "$kit"/bin/* | awk '$3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so|libcublas|libcudart|libcuda\.|libnccl' |
    xargs -I{} cp -L {} "$kit/lib/"
  # of Open MPI's plugins those that one rank needs
  plugins=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
  for name in ess_singleton shmem_mmap shmem_posix pmix_isolated schizo_ompi pml_ob1 bml_r2 btl_self coll_basic \
    coll_libnbc coll_self coll_inter coll_sm coll_tuned mpool_hugepage rcache_grdma allocator_basic allocator_bucket \
    osc_rdma osc_sm io_ompio op_avx; do
    [ ! -e "$plugins/mca_$name.so" ] || cp -L "$plugins/mca_$name.so" "$kit/mpi/"
  done
  pwd >"$kit/root.txt"
  tar -C out -cJf out/gpu-kit.tar.xz gpu-kit
  ls -l out/gpu-kit.tar.xz
}

# Folders with CUDA's libraries: a toolkit, or what PyTorch brought along.
cuda_folders() {
  local file
  for file in libcublasLt.so libnccl.so.2; do
    # shellcheck disable=SC2086
    find ${CUDA_LIBRARIES:-} /usr/local/cuda*/lib64 /usr/lib /usr/local/lib /opt -name "$file*" -printf '%h\n' 2>/dev/null || true
  done | sort -u | paste -sd:
}

run() {
  local kit=${1:-out/gpu-kit.tar.xz} out=${OUT:-out} place root
  place=$(mktemp -d)
  mkdir -p "$out"
  tar -C "$place" -xJf "$kit"
  place=$place/gpu-kit
  # the tests know the place of their models in the tree that they were built from
  root=$(cat "$place/root.txt")
  if [ ! -e "$root/tests/data" ]; then
    mkdir -p "$(dirname "$root")"
    ln -s "$PWD" "$root"
  fi
  export LD_LIBRARY_PATH="$place/lib:$(cuda_folders)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export OMPI_MCA_mca_base_component_path="$place/mpi" OMPI_MCA_ess_singleton_isolated=1
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  {
    nvidia-smi -L || true
    "$place/bin/tpinfer" --version
    for test in test_cuda_toolkit test_cuda_kernels test_cuda_model; do
      echo "== $test"
      timeout 120 "$place/bin/$test" --gtest_brief=1 && echo "PASSED $test" || echo "FAILED $test"
    done
    echo "== figures"
    python3 tests/cuda/on_device.py "$place/bin" "$out/gpu.md" || echo "FAILED figures"
  } 2>&1 | tee "$out/gpu.log"
  ! grep -q '^FAILED' "$out/gpu.log"
}

case "${1:-}" in
  pack) pack "${2:-}" ;;
  run) run "${2:-}" ;;
  *)
    sed -n 2,8p "$0"
    exit 2
    ;;
esac
