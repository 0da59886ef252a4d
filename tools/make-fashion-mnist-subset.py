#!/usr/bin/env python3
"""Make the small class-balanced Fashion-MNIST subset that the `ubique` command embeds.

Reads the four original IDX files (gzip) from --from and writes four files of the same names to --to, keeping the
first N images of each class in their original order. The output depends on nothing but the input (and the local
zlib): the gzip headers carry no time and no name.
"""

import argparse
import gzip
import pathlib
import struct

CLASSES = 10


def read_idx(path, rank):
    """Return (dimensions, payload) of a gzip IDX file of unsigned bytes."""
    data = gzip.decompress(path.read_bytes())
    magic, *dims = struct.unpack(f">{rank + 1}I", data[: 4 * (rank + 1)])
    payload = data[4 * (rank + 1) :]
    size = 1
    for dim in dims:
        size *= dim
    if magic != 0x0800 + rank or len(payload) != size:
        raise SystemExit(f"{path}: not an IDX file of unsigned bytes with rank {rank}")
    return dims, payload


def write_idx(path, dims, payload):
    header = struct.pack(f">{len(dims) + 1}I", 0x0800 + len(dims), *dims)
    path.write_bytes(gzip.compress(header + payload, compresslevel=9, mtime=0))


def choose(labels, per_class):
    """Indices of the first `per_class` items of each class, in their original order."""
    seen = [0] * CLASSES
    chosen = []
    for index, label in enumerate(labels):
        if seen[label] < per_class:
            seen[label] += 1
            chosen.append(index)
    if min(seen) < per_class:
        raise SystemExit(f"a class has fewer than {per_class} images: {seen}")
    return chosen


def subset(source, target, split, per_class):
    images_name, labels_name = f"{split}-images-idx3-ubyte.gz", f"{split}-labels-idx1-ubyte.gz"
    (count, rows, cols), pixels = read_idx(source / images_name, 3)
    (label_count,), labels = read_idx(source / labels_name, 1)
    if count != label_count:
        raise SystemExit(f"{split}: {count} images but {label_count} labels")
    chosen = choose(labels, per_class)
    size = rows * cols
    write_idx(
        target / images_name,
        (len(chosen), rows, cols),
        b"".join(pixels[i * size : (i + 1) * size] for i in chosen),
    )
    write_idx(target / labels_name, (len(chosen),), bytes(labels[i] for i in chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--to", dest="target", type=pathlib.Path, default="crates/ubique-cli/data/fashion-mnist")
    parser.add_argument("--train-per-class", type=int, default=500)
    parser.add_argument("--test-per-class", type=int, default=100)
    args = parser.parse_args()
    args.target.mkdir(parents=True, exist_ok=True)
    subset(args.source, args.target, "train", args.train_per_class)
    subset(args.source, args.target, "t10k", args.test_per_class)


if __name__ == "__main__":
    main()
