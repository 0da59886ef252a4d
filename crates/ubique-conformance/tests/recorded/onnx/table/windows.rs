//! Convolutions and pooling.

use ubique_core::op::conv::ConvOptions;
use ubique_core::op::pad::PadMode;
use ubique_core::op::pool::PoolOptions;
use ubique_core::{DType, Result, Scalar, Tensor};

use super::products::centred;
use super::shapes::pad_or_crop;
use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("AveragePool", average_pool),
    ("CausalConvWithState", causal_conv),
    ("Col2Im", col2im),
    ("Conv", |n| conv(n, n.x(0)?, n.x(1)?, n.maybe(2)?)),
    ("ConvInteger", conv_integer),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", deform_conv),
    ("GlobalAveragePool", |n| one(n.x(0)?.adaptive_avg_pool([1]))),
    ("GlobalMaxPool", |n| one(n.x(0)?.adaptive_max_pool([1]))),
    ("LpPool", lp_pool),
    ("MaxPool", max_pool),
    ("MaxUnpool", max_unpool),
];

/// How windows move, and what stands before and after each spatial axis.
struct Frame {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    pads: Vec<(usize, usize)>,
    ceil: bool,
}

impl Frame {
    fn new(n: &Node<'_>, x: &Tensor, kernel: Vec<usize>) -> Outcome<Frame> {
        let axes = x.rank() - 2;
        let (stride, dilation) = (n.sizes("strides", axes, 1)?, n.sizes("dilations", axes, 1)?);
        let pads = n.sizes("pads", 2 * axes, 0)?;
        let mut pads: Vec<_> = (0..axes).map(|i| (pads[i], pads[axes + i])).collect();
        let auto = n.text("auto_pad", "NOTSET")?;
        if auto.starts_with("SAME") {
            for (i, pair) in pads.iter_mut().enumerate() {
                let (extent, span) = (x.shape()[i + 2], (kernel[i] - 1) * dilation[i] + 1);
                let total = ((extent.div_ceil(stride[i]) - 1) * stride[i] + span).saturating_sub(extent);
                let small = total / 2;
                *pair = if auto == "SAME_UPPER" { (small, total - small) } else { (total - small, small) };
            }
        }
        Ok(Frame { kernel, stride, dilation, pads, ceil: n.flag("ceil_mode", false)? })
    }

    /// The padding where it is the same on both sides, and at most `most` of the kernel.
    fn even(&self, most: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
        let fits = |(&(before, after), &kernel): (&(usize, usize), &usize)| before == after && before <= most(kernel);
        let all = self.pads.iter().zip(&self.kernel).all(fits);
        all.then(|| self.pads.iter().map(|pair| pair.0).collect())
    }

    /// The tensor with its padding.
    fn padded(&self, x: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let pads: Vec<_> = [(0, 0), (0, 0)].into_iter().chain(self.pads.iter().copied()).collect();
        x.pad(&pads, PadMode::Constant(value.into()))
    }

    fn conv(&self, padding: Vec<usize>, groups: usize) -> ConvOptions {
        ConvOptions::new().stride(self.stride.clone()).padding(padding).dilation(self.dilation.clone()).groups(groups)
    }

    fn pool(&self, padding: Vec<usize>) -> PoolOptions {
        PoolOptions::new().stride(self.stride.clone()).padding(padding).ceil_mode(self.ceil)
    }

    /// Sums over windows of a tensor that has its padding; in ceil mode beyond its end too.
    fn sums(&self, x: &Tensor) -> Result<Tensor> {
        let mut out = x.clone();
        for (i, (&kernel, &stride)) in self.kernel.iter().zip(&self.stride).enumerate() {
            let (axis, span) = (i as isize + 2, (kernel - 1) * self.dilation[i] + 1);
            let (room, inside) = (out.shape()[i + 2] - span, out.shape()[i + 2] - self.pads[i].1);
            let last = room.next_multiple_of(stride);
            if self.ceil && last < inside {
                out = out.pad_axis(axis, 0, last - room, 0)?;
            }
            let windows = out.unfold(axis, span, stride)?;
            out = windows.slice(-1, None, None, self.dilation[i] as isize)?.sum(&[-1])?;
        }
        Ok(out)
    }
}

/// The kernel of a pooling operator.
fn pool_frame(n: &Node<'_>, x: &Tensor) -> Outcome<Frame> {
    Frame::new(n, x, n.sizes("kernel_shape", x.rank() - 2, 1)?)
}

pub fn conv(n: &Node<'_>, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Outcome {
    n.ignore("kernel_shape");
    let frame = Frame::new(n, x, weight.shape()[2..].to_vec())?;
    let groups = n.int("group", 1)?.unsigned_abs();
    match frame.even(|_| usize::MAX) {
        Some(padding) => one(x.conv(weight, bias, &frame.conv(padding, groups))),
        None => one(frame.padded(x, 0)?.conv(weight, bias, &frame.conv(vec![0], groups))),
    }
}

fn deform_conv(n: &Node<'_>) -> Outcome {
    let (x, weight) = (n.x(0)?, n.x(1)?);
    let frame = Frame::new(n, x, weight.shape()[2..].to_vec())?;
    // The operands say them too.
    n.ignore("kernel_shape");
    n.ignore("offset_group");
    let Some(padding) = frame.even(|_| usize::MAX) else {
        return unmapped("padding of one side more than of the other");
    };
    let options = frame.conv(padding, n.int("group", 1)?.unsigned_abs());
    one(x.deform_conv2d(n.x(2)?, weight, n.maybe(3)?, n.maybe(4)?, &options))
}

/// Zero points are taken away first; that of the weight may be one for each output channel.
fn conv_integer(n: &Node<'_>) -> Outcome {
    let weight = n.x(1)?.cast(DType::I32)?;
    let weight = match n.maybe(3)? {
        Some(zero) => {
            let zero = zero.cast(DType::I32)?.reshape([zero.elements(), 1, 1, 1])?;
            weight.sub(&zero)?
        }
        None => weight,
    };
    conv(n, &centred(n, 0, 2)?, &weight, None)
}

/// Windows see the past alone, which may begin with the end of what came before.
fn causal_conv(n: &Node<'_>) -> Outcome {
    let (x, weight) = (n.x(0)?, n.x(1)?);
    let taps = weight.shape()[2] - 1;
    let line = match n.maybe(3)? {
        Some(past) => Tensor::concat(&[past, x], 2)?,
        None => x.pad_axis(2, taps, 0, 0)?,
    };
    let y = line.conv(weight, n.maybe(2)?, &ConvOptions::new().groups(x.shape()[1]))?;
    let y = match n.text("activation", "none")? {
        "silu" | "swish" => y.silu()?,
        _ => y,
    };
    Ok(vec![y, line.narrow(2, -(taps as isize), taps)?])
}

/// All that the windows reach, then cut or padded as the attributes say.
fn conv_transpose(n: &Node<'_>) -> Outcome {
    let (x, weight) = (n.x(0)?, n.x(1)?);
    n.ignore("kernel_shape");
    let frame = Frame::new(n, x, weight.shape()[2..].to_vec())?;
    let axes = frame.kernel.len();
    let more = n.sizes("output_padding", axes, 0)?;
    let (wanted, auto) = (n.sizes("output_shape", axes, 0)?, n.text("auto_pad", "NOTSET")?);
    let full = x.conv_transpose(weight, None, &frame.conv(vec![0], n.int("group", 1)?.unsigned_abs()))?;
    let mut pads = vec![(0, 0); 2];
    for i in 0..axes {
        let reached = full.shape()[i + 2] + more[i];
        let given = match wanted[i] {
            0 if auto.starts_with("SAME") => Some(x.shape()[i + 2] * frame.stride[i]),
            0 => None,
            wanted => Some(wanted),
        };
        let (before, after) = match given {
            Some(wanted) => {
                let total = reached as isize - wanted as isize;
                let half = total.div_euclid(2);
                if auto == "SAME_UPPER" { (half, total - half) } else { (total - half, half) }
            }
            None => (frame.pads[i].0 as isize, frame.pads[i].1 as isize),
        };
        pads.push((-before, more[i] as isize - after));
    }
    let y = pad_or_crop(&full, &pads, PadMode::Constant(0.into()))?;
    match n.maybe(2)? {
        Some(bias) => one(y.add(&bias.reshape([vec![bias.elements()], vec![1; axes]].concat())?)),
        None => Ok(vec![y]),
    }
}

fn average_pool(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    let (frame, whole) = (pool_frame(n, x)?, n.flag("count_include_pad", false)?);
    let plain = frame.dilation.iter().all(|&dilation| dilation == 1);
    if let (true, Some(padding)) = (plain, frame.even(|kernel| kernel / 2)) {
        return one(x.avg_pool(frame.kernel.clone(), &frame.pool(padding).count_include_pad(whole)));
    }
    let ones = x.ones_like()?;
    let counts = frame.sums(&frame.padded(&ones, whole as i64)?)?;
    one(frame.sums(&frame.padded(x, 0)?)?.div(&counts))
}

fn lp_pool(n: &Node<'_>) -> Outcome {
    let (x, p) = (n.x(0)?, n.float("p", 2.0)?);
    let frame = pool_frame(n, x)?;
    one(frame.sums(&frame.padded(&x.abs()?.pow(p)?, 0)?)?.pow(1.0 / p))
}

/// What every element exceeds or equals.
fn least(dtype: DType) -> Scalar {
    match dtype.int_range() {
        Some((least, _)) => (least as i64).into(),
        None => f64::NEG_INFINITY.into(),
    }
}

/// The second result says where in the whole operand each element stands.
fn max_pool(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    let (frame, columns_first) = (pool_frame(n, x)?, n.flag("storage_order", false)?);
    let (x, padding) = match frame.even(|kernel| kernel / 2) {
        Some(padding) => (x.clone(), padding),
        None if n.results > 1 => return unmapped("places in uneven padding"),
        None => (frame.padded(x, least(x.dtype()))?, vec![0]),
    };
    let options = frame.pool(padding).dilation(frame.dilation.clone());
    let (values, mut places) = x.max_pool_with_indices(frame.kernel.clone(), &options)?;
    let spatial: usize = x.shape()[2..].iter().product();
    if let (true, &[.., height, width]) = (columns_first, &**x.shape()) {
        places = (places.rem(width)? * height as i64 + places.div(width)?).tensor()?;
    }
    let planes = Tensor::arange(0, x.shape()[0] * x.shape()[1], 1, DType::I64, n.device())?.mul(spatial)?;
    let planes = planes.reshape([x.shape()[..2].to_vec(), vec![1; x.rank() - 2]].concat())?;
    Ok(vec![values, places.add(&planes)?])
}

/// Elements back to where pooling found them, and 0 elsewhere; a larger result has more zeros at its ends.
fn max_unpool(n: &Node<'_>) -> Outcome {
    let (x, places) = (n.x(0)?, n.x(1)?);
    let frame = pool_frame(n, x)?;
    let extent = |i: usize| {
        let (before, after) = frame.pads[i];
        (x.shape()[i + 2] - 1) * frame.stride[i] + frame.kernel[i] - before - after
    };
    let shape: Vec<usize> = x.shape()[..2].iter().copied().chain((0..frame.kernel.len()).map(extent)).collect();
    let flat = Tensor::zeros([shape.iter().product::<usize>()], x.dtype(), n.device())?;
    let (places, values) = (places.reshape([x.elements()])?, x.reshape([x.elements()])?);
    let out = flat.scatter(0, &places, &values, ubique_core::op::index::Combine::Set)?.reshape(shape.clone())?;
    let wanted = n.extents(2)?;
    let more = |(i, &extent): (usize, &usize)| (0, wanted.get(i).map_or(0, |wanted| wanted - extent));
    one(out.pad(&shape.iter().enumerate().map(more).collect::<Vec<_>>(), PadMode::Constant(0.into())))
}

fn col2im(n: &Node<'_>) -> Outcome {
    let (x, output, kernel) = (n.x(0)?, n.extents(1)?, n.extents(2)?);
    let axes = output.len();
    let pads = n.sizes("pads", 2 * axes, 0)?;
    if pads[..axes] != pads[axes..] {
        return unmapped("uneven padding");
    }
    let options = ConvOptions::new()
        .stride(n.sizes("strides", axes, 1)?)
        .dilation(n.sizes("dilations", axes, 1)?)
        .padding(pads[..axes].to_vec());
    one(x.col2im(output, kernel, &options))
}
