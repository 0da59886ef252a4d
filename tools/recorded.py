"""The files of recorded calls that `tests/recorded` reads.

`calls.json` says what was called with what, and what came of it: a call has `op`, `dtype`, `args`, `kwargs`, `results`, and
where they are known `name` and `grads`. `values.safetensors` holds one flat tensor for each dtype, into which `calls.json`
points with `{"tensor": [dtype, shape, offset]}`.
"""

import json
import math
import struct

import numpy

# How a dtype is called in `calls.json`, and in safetensors.
FLAT = {
    "float64": ("f64", "F64"),
    "float32": ("f32", "F32"),
    "float16": ("f16", "F16"),
    "bfloat16": ("bf16", "BF16"),
    "int64": ("i64", "I64"),
    "int32": ("i32", "I32"),
    "int16": ("i16", "I16"),
    "int8": ("i8", "I8"),
    "uint64": ("u64", "U64"),
    "uint32": ("u32", "U32"),
    "uint16": ("u16", "U16"),
    "uint8": ("u8", "U8"),
    "bool": ("bool", "BOOL"),
}


class Unencodable(Exception):
    """An argument that no file can hold."""


class Values:
    """One flat byte string for each dtype; equal tensors are stored once."""

    def __init__(self):
        self.flat = {}
        self.places = {}

    def put(self, array):
        if array.dtype.name not in FLAT:
            raise Unencodable(array.dtype)
        name, data = FLAT[array.dtype.name][0], array.tobytes()
        size, flat = self.flat.setdefault(name, (array.dtype.itemsize, bytearray()))
        if (name, data) not in self.places:
            self.places[name, data] = len(flat) // size
            flat += data
        return {"tensor": [name, list(array.shape), self.places[name, data]]}

    def size(self):
        return sum(len(flat) for _, flat in self.flat.values())

    def write(self, path):
        header, data = {}, b""
        # The wider ones first, so that all are aligned.
        tensors = [(*self.flat[name], name, stored) for name, stored in FLAT.values() if name in self.flat]
        for size, flat, name, stored in sorted(tensors, key=lambda tensor: -tensor[0]):
            offsets = [len(data), len(data) + len(flat)]
            header[name] = {"dtype": stored, "shape": [len(flat) // size], "data_offsets": offsets}
            data += flat
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def walk(value, f):
    """The same nest of lists and dicts with `f` of each leaf."""
    if isinstance(value, (list, tuple)):
        return [walk(v, f) for v in value]
    if isinstance(value, dict):
        return {k: walk(v, f) for k, v in value.items()}
    return f(value)


def encode(value, values):
    """A leaf as JSON says it; arrays go to the values."""
    if isinstance(value, numpy.ndarray):
        return values.put(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Unencodable(value)


def write(to, calls, values):
    """Both files, a line of JSON for each call."""
    to.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(call, separators=(",", ":")) for call in calls)
    (to / "calls.json").write_text(f"[\n{lines}\n]\n")
    values.write(to / "values.safetensors")
