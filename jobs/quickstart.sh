#!/usr/bin/env bash
# From a clone to answers on Debian 12: installs the packages, builds Release, runs jobs/quickstart.yaml on 2 ranks and shows what came out.
set -euo pipefail
cd "$(dirname "$0")/.."
bash jobs/install_packages.sh jobs/packages.txt
if [ ! -f build/release/build.ninja ]; then
  cmake --preset release -DTPINFER_TESTS=OFF >build.log 2>&1 || { cat build.log >&2; exit 1; }
  rm -f build.log
fi
echo "building tpinfer, which takes some minutes the first time"
cmake --build build/release --target tpinfer man | tail -n 1
. jobs/mpi_env.sh
mpirun -np 2 build/release/bin/tpinfer jobs/quickstart.yaml
echo
build/release/bin/tpinfer show jobs/quickstart.h5
echo
build/release/bin/tpinfer show jobs/quickstart.h5 --memory
cat <<'TXT'

The results lie in jobs/quickstart.h5:
  build/release/bin/tpinfer show jobs/quickstart.h5 --id 2      one answer, whole
  python3 -c "import h5py; print(h5py.File('jobs/quickstart.h5')['results/text'].asstr()[:])"
  h5dump -d /results/text jobs/quickstart.h5
TXT
