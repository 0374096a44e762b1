#!/usr/bin/env bash
# From the sources to a Debian package in FOLDER, on a bare Debian 12: the first stage of the container recipes.
#   bash jobs/container/build.sh FOLDER [options of cmake]
set -euo pipefail
folder=$(realpath -m "$1")
shift
cd "$(dirname "$0")/../.."
bash jobs/install_packages.sh jobs/packages.txt jobs/container/packages.txt
cmake --preset release -DTPINFER_TESTS=OFF "$@"
cmake --build build/release
cpack --config build/release/CPackConfig.cmake -B "$folder"
