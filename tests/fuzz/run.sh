#!/usr/bin/env bash
# Builds the libFuzzer programs with Clang and the address and undefined sanitizers and runs them, two at a time.
#   tests/fuzz/run.sh [SECONDS [NAME...]]     default: 60 s each, all of them; what was found before is kept in build/fuzz/corpus
# An input that ends a program lies in build/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
cmake --preset fuzz > /dev/null
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do file=${file##*/}; names+=("${file%_fuzz.cpp}"); done
fi
cmake --build --preset fuzz --target "${names[@]/#/fuzz_}"
mkdir -p build/fuzz/found
fuzz() {
  local name=$1 own=build/fuzz/corpus/$1 seeds
  mkdir -p "$own"
  mapfile -t seeds < "build/fuzz/tests/fuzz/$name.inputs"
  for seed in "${seeds[@]}"; do cp "$seed" "$own/first-$(sha1sum < "$seed" | cut -c1-16)"; done
  build/fuzz/tests/fuzz/fuzz_"$name" -max_total_time="$seconds" -max_len=20000 -timeout=30 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "$own" > "build/fuzz/$name.log" 2>&1 || echo "$name: FOUND SOMETHING, see build/fuzz/$name.log"
  echo "$name: $(grep -c . <(ls "$own")) inputs, $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log") runs"
}
export -f fuzz
export seconds
printf '%s\n' "${names[@]}" | xargs -P 2 -I{} bash -c 'fuzz {}'
[ -z "$(ls build/fuzz/found)" ]
