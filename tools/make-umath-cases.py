#!/usr/bin/env python3
"""Pack numpy's validation sets of elementary functions, which `umath.rs` tests against.

    pip install numpy
    python tools/make-umath-cases.py --to crates/ubique-conformance/tests/data/umath

Reads the files `umath-validation-set-*.csv` of the installed numpy, whose rows give a dtype, the bits of an operand and
the bits of the result, and writes for each function and dtype a tensor `[rows, 2]` of those bits (u32 or u64) to
`values.safetensors`. The output depends on nothing but those files.
"""

import argparse
import csv
import json
import pathlib
import struct

import numpy

PREFIX = "umath-validation-set-"
# How a row's dtype is called here, its bits' type in safetensors and in `struct`.
DTYPES = {"np.float32": ("f32", "U32", "I"), "np.float64": ("f64", "U64", "Q")}


def read(path):
    """The rows of a file by dtype: flat lists of operand and result."""
    found = {}
    with path.open() as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines):
            found.setdefault(row["dtype"], []).extend(int(row[key], 16) for key in ("input", "output"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    to = parser.parse_args().to
    folder = pathlib.Path(numpy.__file__).parent / "_core" / "tests" / "data"
    tensors = []
    for path in sorted(folder.glob(f"{PREFIX}*.csv")):
        name = path.stem.removeprefix(PREFIX)
        for dtype, values in sorted(read(path).items()):
            short, stored, code = DTYPES[dtype]
            tensors.append((f"{name}.{short}", stored, struct.pack(f"<{len(values)}{code}", *values), len(values) // 2))
    # The wider ones first, so that all are aligned.
    tensors.sort(key=lambda tensor: (tensor[1] != "U64", tensor[0]))
    header, data = {}, b""
    for name, stored, packed, rows in tensors:
        header[name] = {"dtype": stored, "shape": [rows, 2], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    to.mkdir(parents=True, exist_ok=True)
    (to / "values.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{len(tensors)} tensors, {sum(tensor[3] for tensor in tensors)} rows")


if __name__ == "__main__":
    main()
