#!/usr/bin/env bash
# Runs every fuzz target for a while (seconds each, 60 unless told) on the stable toolchain, and stops at the first crash.
#   tools/fuzz.sh [SECONDS] [TARGET…]
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | tail -n +2)
# Coverage feedback without the sanitizers, which need a nightly toolchain.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg=fuzzing"
host=$(rustc -vV | sed -n 's/^host: //p')
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" artifacts
    # With a target triple the flags are for the fuzzed code only, not for build scripts.
    cargo build --release --target "$host" --bin "$target"
    "target/$host/release/$target" "corpus/$target" -max_total_time="$seconds" -artifact_prefix="artifacts/$target-" -rss_limit_mb=4096 -timeout=10
done
