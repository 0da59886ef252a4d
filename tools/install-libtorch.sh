#!/usr/bin/env bash
# Installs LibTorch from PyPI and the backend on it as a plugin, which every program of ubique then finds.
#   tools/install-libtorch.sh [--cuda]
# Without --cuda only what the CPU needs is downloaded (0.6 GB); with it CUDA's libraries, too (several GB).
# Needs Python 3.10 or later with venv, a C++ compiler and Rust. To remove it, delete the two folders that it names.
set -euo pipefail
cd "$(dirname "$0")/.."

case "$(uname)" in
    Darwin) data=$HOME/Library/Application\ Support suffix=dylib ;;
    *) data=${XDG_DATA_HOME:-$HOME/.local/share} suffix=so ;;
esac
folder=${UBIQUE_LIBTORCH:-$data/ubique/libtorch}
plugins=$data/ubique/plugins
python=${PYTHON:-python3}

case "${1:-}" in
    --cuda | "") ;;
    *) sed -n '2,5s/^# \?//p' "$0" >&2; exit 2 ;;
esac

echo "LibTorch goes to $folder"
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-deps -r backends/libtorch/requirements.txt
# Of what is installed, now with all that it needs.
[ "${1:-}" != --cuda ] || "$folder/bin/pip" install --quiet torch
LIBTORCH=$(echo "$folder"/lib/python3*/site-packages/torch)
export LIBTORCH

echo "the plugin goes to $plugins"
cargo build --release --locked --manifest-path backends/libtorch/Cargo.toml --target-dir target
mkdir -p "$plugins"
cp "target/release/libubique_libtorch.$suffix" "$plugins/"
echo "done; see it with: cargo run --release -- devices"
