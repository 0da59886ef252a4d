#!/usr/bin/env python3
"""Record calls of PyTorch's operators, with results and gradients, as a truth that `tests/recorded` tests against.

    pip install torch==2.13.0 expecttest scipy
    python tools/make-opinfo-cases.py --to crates/ubique-conformance/tests/data/opinfo

The calls are sample inputs of PyTorch's own operator tests (`op_db`). Results and gradients are computed in float64,
whatever the dtype of the inputs. The files are those of `recorded.py`; their content depends on nothing but the version
of PyTorch.
"""

import argparse
import json
import pathlib
import random

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

from recorded import Unencodable, Values, encode, walk, write

UNARY = """abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite
isinf isnan log log10 log1p log2 logical_not neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.hardsigmoid
nn.functional.hardtanh nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.mish nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.softplus"""
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor div/no_rounding_mode
div/trunc_rounding eq ge gt hypot le logical_and logical_or logical_xor lt max/binary maximum min/binary minimum mul ne
pow remainder rsub sub true_divide"""
REDUCTIONS = """all amax amin any argmax argmin count_nonzero cummax cummin cumprod cumsum linalg.vector_norm log_softmax
logsumexp max/reduction_no_dim max/reduction_with_dim mean min/reduction_no_dim min/reduction_with_dim
nn.functional.softmin norm norm/fro norm/inf prod softmax std std/unbiased sum var var/unbiased"""
PRODUCTS = """addmm baddbmm bmm dot matmul mm mv nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.linear
nn.functional.scaled_dot_product_attention outer"""
WINDOWS = """nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d unfold"""
LAYERS = """nn.functional.batch_norm nn.functional.cross_entropy nn.functional.embedding nn.functional.group_norm
nn.functional.layer_norm nn.functional.mse_loss nn.functional.l1_loss nn.functional.one_hot nn.functional.rms_norm"""
PLACES = """argsort argwhere cat chunk clamp clamp_max clamp_min constant_pad_nd expand flatten flip fliplr flipud gather
index_add index_select masked_fill masked_select movedim msort narrow nn.functional.pad/circular
nn.functional.pad/constant nn.functional.pad/reflect nn.functional.pad/replicate nonzero permute repeat
repeat_interleave reshape roll scatter scatter_add select sort split split_with_sizes squeeze stack t take_along_dim tile
topk transpose unsqueeze view where"""
MADE = "arange eye linspace"
NAMES = " ".join([UNARY, BINARY, REDUCTIONS, PRODUCTS, WINDOWS, LAYERS, PLACES, MADE]).split()

# Calls for each op and dtype, elements of a call's tensors, and bytes for each op and dtype.
DTYPES = {torch.float64: 7, torch.float32: 5, torch.int64: 4, torch.bool: 2}
ELEMENTS, BYTES = 512, 14000
# Operands of functions of one operand are cut to this many rows of at most 20.
ROWS = 4
SEED = 20240607


def leaves(value):
    found = []
    walk(value, lambda v: found.append(v) if isinstance(v, torch.Tensor) else None)
    return found


def put(value, values):
    if isinstance(value, torch.Tensor):
        return encode(value.detach().resolve_neg().numpy(), values)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    return encode(value, values)


def is_float(value):
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def weight(index, output):
    """The factor of each element of the result number `index` in the sum whose gradient is recorded: a multiple of 1/4 in
    [-5/4, 5/4] that the test finds by the same rule."""
    place = torch.arange(output.numel()) * 7 + index * 3
    return ((place % 11 - 5).double() / 4).reshape(output.shape)


def gradients(results, inputs):
    """Gradients of the weighted sum of all results; None for operands that it does not depend on."""
    floats = [t for t in inputs if t.requires_grad]
    terms = [(weight(i, r) * r).sum() for i, r in enumerate(results) if is_float(r) and r.requires_grad]
    if not terms:
        return None
    found = iter(torch.autograd.grad(sum(terms), floats, allow_unused=True))
    return [next(found) if t.requires_grad else None for t in inputs]


def call(op, sample, differentiable, values):
    """A call with its results, ready for JSON."""
    # Sorted by name, as readers of JSON may give them: gradients come in the order of the arguments.
    arguments, named = [sample.input, *sample.args], dict(sorted(sample.kwargs.items()))

    def exact(value):
        if not is_float(value):
            return value
        return value.detach().double().clone().requires_grad_(differentiable)

    args, kwargs = walk(arguments, exact), walk(named, exact)
    results = op.op(*args, **kwargs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    inputs = leaves([args, kwargs])
    if sum(t.numel() for t in inputs) > ELEMENTS or sum(t.numel() for t in results) > ELEMENTS:
        raise Unencodable("too large")
    grads = gradients(results, inputs) if differentiable else None
    leaf = lambda v: put(v, values)
    entry = {
        "args": walk(arguments, leaf),
        "kwargs": walk(named, leaf),
        "results": walk(results, leaf),
    }
    if grads is not None:
        entry["grads"] = walk(grads, leaf)
    return entry


def samples(op, dtype):
    """The samples of an op; of elementwise functions with extreme values."""
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)
    elementwise = isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo))
    found = list((op.reference_inputs if elementwise else op.sample_inputs)("cpu", dtype))
    for sample in found:
        if isinstance(op, UnaryUfuncInfo) and sample.input.numel() > ROWS * 20:
            sample.input = sample.input.flatten()[: ROWS * 20].clone()
    sizes = [[t.numel() for t in leaves([s.input, s.args, s.kwargs])] for s in found]
    fits = [(s, size) for s, size in zip(found, sizes) if sum(size) <= ELEMENTS]
    # There are many empty ones and many of rank 0; one of each says as much.
    empty = [s for s, size in fits if 0 in size]
    single = [s for s, size in fits if size and max(size) == 1]
    rest = [s for s, size in fits if not size or min(size) > 0 and max(size) > 1]
    return empty[:1] + single[:1] + spread(rest, 4 * DTYPES[dtype])


def spread(items, count):
    """At most `count` items at even distances."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]


def fits_integers(entry, dtype):
    """Integers that become floats on the way are another function of floats."""
    flat = leaves_of(entry["results"])
    return dtype.is_floating_point or all(name in ("i64", "bool") for name in flat)


def leaves_of(results):
    return [r["tensor"][0] for r in results if isinstance(r, dict) and "tensor" in r]


def record(op, dtype):
    """The calls of an op in a dtype, each kept apart with its values until it is known to fit."""
    kept, size = [], 0
    for sample in samples(op, dtype):
        values = Values()
        differentiable = op.supports_autograd and dtype.is_floating_point
        try:
            entry = call(op, sample, differentiable, values)
        except (Unencodable, RuntimeError, TypeError, ValueError):
            continue
        added = values.size() + len(json.dumps(entry)) // 2
        if fits_integers(entry, dtype) and size + added <= BYTES and len(kept) < DTYPES[dtype]:
            size += added
            kept.append((sample, differentiable))
    return kept


def full_name(op):
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    to = parser.parse_args().to
    torch.set_num_threads(1)
    values, calls = Values(), []
    known = {full_name(op): op for op in op_db}
    for name in sorted(NAMES):
        op = known[name]
        for dtype in DTYPES:
            if dtype not in op.dtypes:
                continue
            for sample, differentiable in record(op, dtype):
                entry = call(op, sample, differentiable, values)
                calls.append({"op": name, "dtype": str(dtype).removeprefix("torch."), **entry})
    write(to, calls, values)
    print(f"{len(calls)} calls of {len({c['op'] for c in calls})} ops")


if __name__ == "__main__":
    main()
