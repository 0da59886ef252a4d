#!/usr/bin/env python3
"""Record ONNX's own operator cases as a truth that `tests/recorded` tests against.

    pip install onnx==1.22.0
    python tools/make-onnx-cases.py --to crates/ubique-conformance/tests/data/onnx

Reads the node test data of the installed package: models of one node, with operands and results. Left out are cases that
are another's expansion into simpler operators, those with strings, sequences, optional values, subgraphs or dtypes that
`recorded.py` does not know, operators of other domains than ONNX's main one, and cases that are too large. The files are
those of `recorded.py`: operands are positional, attributes named. Their content depends on nothing but the package.
"""

import argparse
import collections
import pathlib

import numpy
import onnx
from onnx import numpy_helper

from recorded import Unencodable, Values, encode, walk, write

# Elements of all tensors of a case.
ELEMENTS = 10000
# ONNX's numbers of dtypes, as attributes give them.
DTYPES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64"}
DTYPES |= {12: "u32", 13: "u64", 16: "bf16"}
# Attributes that hold such a number.
OF_DTYPE = {"to", "dtype", "output_dtype", "output_datatype", "stash_type"}


def tensors(folder, kind, declared):
    """The operands or the results of a case, by name."""
    found = {}
    for i, value in enumerate(declared):
        if value.type.WhichOneof("value") != "tensor_type":
            raise Unencodable("no tensor")
        proto = onnx.load_tensor(folder / f"{kind}_{i}.pb")
        found[value.name] = numpy.asarray(numpy_helper.to_array(proto))
    return found


def attribute(proto):
    value = onnx.helper.get_attribute_value(proto)
    if proto.name in OF_DTYPE:
        if value not in DTYPES:
            raise Unencodable("dtype")
        return {"dtype": DTYPES[value]}
    if isinstance(value, onnx.GraphProto):
        raise Unencodable("a subgraph")
    if isinstance(value, onnx.TensorProto):
        return numpy.asarray(numpy_helper.to_array(value))
    if isinstance(value, (list, tuple)):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value.decode() if isinstance(value, bytes) else value


def case(folder, values):
    """A case ready for JSON."""
    model = onnx.load(folder / "model.onnx")
    (node,) = model.graph.node
    if node.domain:
        raise Unencodable("another domain")
    data = folder / "test_data_set_0"
    inputs, outputs = tensors(data, "input", model.graph.input), tensors(data, "output", model.graph.output)
    if sum(array.size for array in [*inputs.values(), *outputs.values()]) > ELEMENTS:
        raise Unencodable("too large")
    leaf = lambda v: v if isinstance(v, dict) else encode(v, values)
    named = {proto.name: attribute(proto) for proto in node.attribute}
    args = [leaf(inputs.get(name)) for name in node.input]
    results = [leaf(outputs.get(name)) for name in node.output]
    first = next(v for v in args + results if v)
    return {
        "op": node.op_type,
        "name": folder.name.removeprefix("test_"),
        "dtype": first["tensor"][0],
        "args": args,
        "kwargs": {name: value if isinstance(value, dict) else walk(value, leaf) for name, value in named.items()},
        "results": results,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    to = parser.parse_args().to
    root = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    calls, values, left_out = [], Values(), collections.Counter()
    for folder in sorted(root.iterdir()):
        if "_expanded" in folder.name:
            continue
        try:
            # Into values of its own first, so that a case that does not fit leaves nothing behind.
            case(folder, Values())
        except (Unencodable, ValueError) as error:
            left_out[str(error)] += 1
            continue
        calls.append(case(folder, values))
    write(to, calls, values)
    print(f"{len(calls)} cases of {len({c['op'] for c in calls})} operators, {values.size()} bytes")
    print("left out:", dict(left_out))


if __name__ == "__main__":
    main()
