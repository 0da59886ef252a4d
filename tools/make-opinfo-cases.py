#!/usr/bin/env python3
"""Record calls of PyTorch's operators, with results and gradients, as a truth that `tests/recorded` tests against.

    pip install torch==2.13.0 expecttest scipy
    python tools/make-opinfo-cases.py --to crates/ubique-conformance/tests/data/opinfo

The calls are sample inputs of PyTorch's own operator tests (`op_db`). Results and gradients are computed in float64,
whatever the dtype of the inputs. A complex tensor is recorded as its real and its imaginary part: as a list of two among the
arguments, as two results, and with a gradient for each. The files are those of `recorded.py`; their content depends on nothing
but the version of PyTorch.
"""

import argparse
import dataclasses
import json
import pathlib
import random

import numpy
import torch
from torch.nn.functional import ctc_loss
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, SampleInput, UnaryUfuncInfo

from recorded import Unencodable, Values, encode, walk, write

UNARY = """abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite
isinf isnan log log10 log1p log2 logical_not neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.hardsigmoid
nn.functional.hardtanh nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.mish nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.softplus"""
BINARY = """add addcdiv addcmul atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
div/no_rounding_mode div/trunc_rounding eq floor_divide fmod ge gt hypot le lerp logaddexp logical_and logical_or
logical_xor lt max/binary maximum min/binary minimum mul ne pow remainder rsub sub true_divide"""
REDUCTIONS = """all amax amin any argmax argmin bincount count_nonzero cummax cummin cumprod cumsum dist histc histogram
linalg.vector_norm log_softmax logsumexp max/reduction_no_dim max/reduction_with_dim mean median min/reduction_no_dim
min/reduction_with_dim nn.functional.softmin norm norm/fro norm/inf prod quantile softmax std std/unbiased std_mean sum
sum_to_size var var/unbiased var_mean"""
PRODUCTS = """addmm addmv addr baddbmm bmm cross dot einsum inner kron linalg.cross linalg.multi_dot linalg.vecdot
matmul mm mv nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.linear
nn.functional.scaled_dot_product_attention outer tensordot"""
WINDOWS = """nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.unfold unfold"""
IMAGES = """grid_sampler_2d nn.functional.grid_sample nn.functional.interpolate/bicubic
nn.functional.interpolate/bilinear nn.functional.interpolate/linear nn.functional.interpolate/nearest
nn.functional.interpolate/trilinear nn.functional.upsample_bilinear nn.functional.upsample_nearest"""
LAYERS = """nn.functional.batch_norm nn.functional.binary_cross_entropy_with_logits nn.functional.cross_entropy
nn.functional.ctc_loss nn.functional.embedding nn.functional.group_norm nn.functional.huber_loss
nn.functional.instance_norm nn.functional.kl_div nn.functional.nll_loss nn.functional.smooth_l1_loss
nn.functional.layer_norm nn.functional.mse_loss nn.functional.l1_loss nn.functional.one_hot nn.functional.rms_norm"""
PLACES = """argsort argwhere broadcast_to bucketize cat chunk clamp clamp_max clamp_min constant_pad_nd diag diag_embed
diagonal diff expand flatten flip fliplr flipud gather hstack index_add index_copy index_fill index_put index_select
linalg.diagonal masked_fill masked_select meshgrid/list_of_tensors meshgrid/variadic_tensors movedim msort nan_to_num
narrow nn.functional.pad/circular nn.functional.pad/constant nn.functional.pad/reflect nn.functional.pad/replicate
nonzero permute repeat repeat_interleave reshape roll scatter scatter_add scatter_reduce/amax scatter_reduce/amin
scatter_reduce/prod scatter_reduce/sum searchsorted select select_scatter sort split split_with_sizes squeeze stack t
take take_along_dim tile topk trace transpose tril triu unbind unflatten unsqueeze view vstack where"""
MATRICES = """cholesky linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.lstsq/grad_oriented
linalg.lu linalg.matrix_norm linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_triangular
linalg.svd linalg.svdvals logdet mT norm/nuc pinverse"""
FOURIER = """fft.fft fft.fft2 fft.fftn fft.fftshift fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.irfft2
fft.irfftn fft.rfft fft.rfft2 fft.rfftn"""
OPERATORS = "__radd__ __rand__ __rdiv__ __rmatmul__ __rmul__ __ror__ __rsub__ __rxor__"
CASTS = "bool float half int long"
MADE = "arange eye full full_like linspace ones ones_like zeros zeros_like"
FAMILIES = [UNARY, BINARY, REDUCTIONS, PRODUCTS, WINDOWS, IMAGES, LAYERS, PLACES, MATRICES, FOURIER, OPERATORS, CASTS, MADE]
NAMES = " ".join(FAMILIES).split()

# Calls for each op and dtype, elements of a call's tensors, and bytes for each op and dtype.
DTYPES = {torch.float64: 7, torch.float32: 5, torch.int64: 4, torch.bool: 2, torch.complex128: 5, torch.complex64: 3}
# Operators that are recorded with complex operands too.
COMPLEX = FOURIER.split()
ELEMENTS, BYTES = 512, 14000
# Operands of functions of one operand are cut to this many rows of at most 20.
ROWS = 4
SEED = 20240607


@dataclasses.dataclass
class Pair:
    """The real and the imaginary part of a complex tensor."""

    re: torch.Tensor
    im: torch.Tensor

    @staticmethod
    def of(value):
        return Pair(value.real.contiguous(), value.imag.contiguous()) if is_complex(value) else value

    @staticmethod
    def joined(value):
        return torch.complex(value.re, value.im) if isinstance(value, Pair) else value


def is_complex(value):
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def symmetric(x):
    return (x + x.mT) / 2


def signs(vectors):
    """Of each column the sign of the first of its largest elements, within 1 % of the largest."""
    sizes = vectors.detach().abs()
    if 0 in sizes.shape:
        return torch.ones_like(sizes.sum(-2, keepdim=True))
    first = (sizes >= 0.99 * sizes.amax(-2, keepdim=True)).double().argmax(-2, keepdim=True)
    return vectors.detach().gather(-2, first).sign()


def qr(x, mode="reduced"):
    q, r = torch.linalg.qr(x, mode)
    sign = r.detach().diagonal(dim1=-2, dim2=-1).sign()
    sign = torch.where(sign == 0, 1.0, sign)
    rest = torch.ones(*sign.shape[:-1], q.shape[-1] - sign.shape[-1], dtype=sign.dtype)
    sign = torch.cat([sign, rest], -1)
    return q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)


def svd(x, full_matrices=True):
    if full_matrices and x.shape[-1] != x.shape[-2]:
        raise Unencodable("vectors that are not unique")
    u, s, vh = torch.linalg.svd(x, full_matrices)
    sign = signs(u)
    return u * sign, s, vh * sign.mT


def eigh(x, UPLO="L"):
    values, vectors = torch.linalg.eigh(symmetric(x), UPLO)
    return values, vectors * signs(vectors)


# What is recorded in the place of an operator: with signs that are unique, of the symmetric part of a matrix where PyTorch
# looks at one triangle alone, and without results that are not defined or not the point.
INSTEAD = {
    "cholesky": lambda x, upper=False: torch.cholesky(symmetric(x), upper),
    "linalg.cholesky": lambda x, *, upper=False: torch.linalg.cholesky(symmetric(x), upper=upper),
    "linalg.eigh": eigh,
    "linalg.eigvalsh": lambda x, UPLO="L": torch.linalg.eigvalsh(symmetric(x), UPLO),
    "linalg.lstsq/grad_oriented": lambda a, b, driver=None: torch.linalg.lstsq(a, b, driver=driver).solution,
    "linalg.qr": qr,
    "linalg.svd": svd,
    # Its gradient leaves out what log_softmax takes away again.
    "nn.functional.ctc_loss": lambda x, *args, **kwargs: ctc_loss(x.log_softmax(-1), *args, **kwargs),
    "median": lambda x, **kwargs: torch.median(x, **kwargs).values if kwargs else torch.median(x),
}


# Operands cut where their samples are too large.
CUT = {
    "bmm": lambda x, y: (x[:2], y[:2]),
    "grid_sampler_2d": lambda x, grid, *options: (x[:1, :2, :5, :4], grid[:1, :3, :3], *options),
    "kron": lambda x, y: (x[..., :3], y[..., :2]),
    "nn.functional.grid_sample": lambda x, grid: (x[:1, :2], grid[:1, :3, :3]),
}


def losses_of_sequences(dtype):
    """The samples of `ctc_loss` are too large: some of our own. The last target of the third is too long."""
    logits = torch.randn(6, 3, 4, dtype=torch.float64).to(dtype)
    padded, times = torch.tensor([[1, 2, 3], [2, 2, 1], [3, 3, 3]]), torch.tensor([6, 5, 4])
    joined = torch.tensor([1, 2, 2, 3, 1])
    for reduction in ("none", "mean", "sum"):
        sizes = {"input_lengths": times, "target_lengths": torch.tensor([3, 2, 1]), "reduction": reduction}
        yield SampleInput(logits, args=(padded,), kwargs=sizes)
    sizes = {"input_lengths": times, "target_lengths": torch.tensor([2, 2, 1])}
    yield SampleInput(logits, args=(joined,), kwargs={**sizes, "blank": 0})
    sizes = {"input_lengths": times, "target_lengths": torch.tensor([3, 2, 3])}
    yield SampleInput(logits, args=(padded,), kwargs={**sizes, "zero_infinity": True})
    sizes = {"input_lengths": torch.tensor(6), "target_lengths": torch.tensor(2), "blank": 3}
    yield SampleInput(logits[:, 0], args=(torch.tensor([0, 2]),), kwargs=sizes)


# Operators with many forms, of which the first samples show few.
MANY_FORMS = """diff grid_sampler_2d histogram linalg.matrix_norm linalg.norm linalg.solve_triangular nn.functional.grid_sample
nn.functional.huber_loss nn.functional.interpolate/bicubic nn.functional.interpolate/bilinear nn.functional.kl_div
nn.functional.nll_loss nn.functional.smooth_l1_loss quantile""".split()

# Samples of operators whose own ones do not serve.
MADE_HERE = {"nn.functional.ctc_loss": losses_of_sequences}


def leaves(value):
    found = []

    def add(value):
        if isinstance(value, Pair):
            found.extend([value.re, value.im])
        elif isinstance(value, torch.Tensor):
            found.append(value)

    walk(value, add)
    return found


def put(value, values):
    if isinstance(value, Pair):
        return [put(value.re, values), put(value.im, values)]
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
    arguments, named = walk(arguments, Pair.of), walk(named, Pair.of)

    def exact(value):
        if isinstance(value, Pair):
            return Pair(exact(value.re), exact(value.im))
        if not is_float(value):
            return value
        return value.detach().double().clone().requires_grad_(differentiable)

    args, kwargs = walk(arguments, exact), walk(named, exact)
    function = INSTEAD.get(full_name(op), op.op)
    results = function(*walk(args, Pair.joined), **walk(kwargs, Pair.joined))
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    results = leaves(walk(results, Pair.of))
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
    made = MADE_HERE.get(full_name(op))
    found = list(made(dtype) if made else (op.reference_inputs if elementwise else op.sample_inputs)("cpu", dtype))
    for sample in found:
        if full_name(op) in CUT:
            sample.input, *args = CUT[full_name(op)](sample.input, *sample.args)
            sample.args = tuple(args)
        if isinstance(op, UnaryUfuncInfo) and sample.input.numel() > ROWS * 20:
            sample.input = sample.input.flatten()[: ROWS * 20].clone()
    sizes = [[t.numel() for t in leaves([s.input, s.args, s.kwargs])] for s in found]
    fits = [(s, size) for s, size in zip(found, sizes) if sum(size) <= ELEMENTS]
    # There are many empty ones and many of rank 0; one of each says as much.
    empty = [s for s, size in fits if 0 in size]
    single = [s for s, size in fits if size and max(size) == 1]
    rest = [s for s, size in fits if not size or min(size) > 0 and max(size) > 1]
    count = DTYPES[dtype] - len(empty[:1] + single[:1]) if full_name(op) in MANY_FORMS else 4 * DTYPES[dtype]
    return empty[:1] + single[:1] + spread(rest, count)


def spread(items, count):
    """At most `count` items at even distances."""
    if len(items) <= count:
        return items
    return [items[i * len(items) // count] for i in range(count)]


def fits_integers(entry, dtype):
    """Integers that become floats on the way are another function of floats."""
    flat = leaves_of(entry["results"])
    return not is_whole(dtype) or all(name in ("i64", "bool") for name in flat)


def is_whole(dtype):
    return not (dtype.is_floating_point or dtype.is_complex)


def leaves_of(results):
    return [r["tensor"][0] for r in results if isinstance(r, dict) and "tensor" in r]


def record(op, dtype):
    """The calls of an op in a dtype, each kept apart with its values until it is known to fit."""
    kept, size = [], 0
    for sample in samples(op, dtype):
        values = Values()
        differentiable = op.supports_autograd and not is_whole(dtype)
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
            if dtype not in op.dtypes or dtype.is_complex and name not in COMPLEX:
                continue
            for sample, differentiable in record(op, dtype):
                entry = call(op, sample, differentiable, values)
                real = dtype.to_real() if dtype.is_complex else dtype
                calls.append({"op": name, "dtype": str(real).removeprefix("torch."), **entry})
    write(to, calls, values)
    print(f"{len(calls)} calls of {len({c['op'] for c in calls})} ops")


if __name__ == "__main__":
    main()
