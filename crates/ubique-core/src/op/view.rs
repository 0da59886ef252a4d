//! Ops that look at the same elements in another way, without moving them, and the copy that makes a view row-major.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::op::case::Case;
use crate::op::index::index_tensor;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::{Dims, Shape, TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// Another look at the same elements. Executors never see these: dispatch changes the layout only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The same elements in row-major order under another shape.
    Reshape(Shape),
    /// Axes in a new order.
    Permute(Dims<usize>),
    /// Broadcast to a larger shape.
    Expand(Shape),
    /// Along `axis`, `len` elements from `start` in steps of `step`, which may be negative.
    Slice {
        /// The axis.
        axis: usize,
        /// The first element.
        start: usize,
        /// The distance of neighbours.
        step: isize,
        /// How many.
        len: usize,
    },
    /// Windows of `size` elements along `axis`, `step` apart; they become a new last axis.
    Unfold {
        /// The axis.
        axis: usize,
        /// Elements in a window.
        size: usize,
        /// Distance of windows.
        step: usize,
    },
}

impl View {
    fn apply(&self, layout: &Layout) -> Result<Option<Layout>> {
        Ok(match self {
            View::Reshape(shape) => layout.reshape(shape),
            View::Permute(axes) => Some(layout.permute(axes)),
            View::Expand(shape) => Some(layout.expand(shape)?),
            View::Slice { axis, start, step, len } => Some(layout.slice(*axis, *start, *step, *len)?),
            View::Unfold { axis, size, step } => Some(layout.unfold(*axis, *size, *step)?),
        })
    }
}

impl Rule for View {
    fn name(&self) -> &'static str {
        match self {
            View::Reshape(_) => "reshape",
            View::Permute(_) => "permute",
            View::Expand(_) => "expand",
            View::Slice { .. } => "slice",
            View::Unfold { .. } => "unfold",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        let shape = match self {
            View::Reshape(shape) => {
                if shape.elements()? != x.shape.elements()? {
                    return Err(Error::shape(format!(
                        "{} has {} elements, {shape} has {}",
                        x.shape,
                        x.shape.elements()?,
                        shape.elements()?
                    )));
                }
                shape.clone()
            }
            View::Permute(axes) => {
                let mut seen = vec![false; x.shape.rank()];
                for &axis in axes.iter() {
                    if seen.get(axis) != Some(&false) {
                        return Err(Error::shape(format!(
                            "{axes} is not a permutation of the {} axes",
                            x.shape.rank()
                        )));
                    }
                    seen[axis] = true;
                }
                if axes.len() != x.shape.rank() {
                    return Err(Error::shape(format!("{axes} names {} of {} axes", axes.len(), x.shape.rank())));
                }
                axes.iter().map(|&a| x.shape[a]).collect()
            }
            View::Expand(shape) => {
                shape.bytes(x.dtype)?;
                Layout::contiguous(x.shape.clone()).expand(shape)?.shape().clone()
            }
            View::Slice { axis, start, step, len } => {
                Layout::contiguous(x.shape.clone()).slice(*axis, *start, *step, *len)?;
                x.shape.with(*axis, *len)
            }
            View::Unfold { axis, size, step } => {
                Layout::contiguous(x.shape.clone()).unfold(*axis, *size, *step)?.shape().clone()
            }
        };
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn view(&self, input: &Layout) -> Result<Option<Layout>> {
        self.apply(input)
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound().view()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (g, x) = (call.grad(0)?, call.spec(0)?);
        let grad = match self {
            View::Reshape(_) => g.reshape(&x.shape)?,
            View::Permute(axes) => {
                let mut inverse = vec![0isize; axes.len()];
                for (i, &axis) in axes.iter().enumerate() {
                    inverse[axis] = i as isize;
                }
                g.permute(&inverse)?
            }
            View::Expand(_) => g.sum_to(&x.shape)?,
            View::Slice { axis, start, step, len } => {
                if *step == 1 {
                    let after = x.shape[*axis] - start - len;
                    g.pad_axis(*axis as isize, *start, after, 0)?
                } else {
                    let index: Vec<i64> = (0..*len as i64).map(|i| *start as i64 + i * *step as i64).collect();
                    scatter_back(g, &x.shape, *axis, index)?
                }
            }
            View::Unfold { axis, size, step } => {
                let windows = g.shape()[*axis];
                // [.., windows, .., size] -> [.., windows * size, ..], then each element goes back to where it came from.
                let moved = g.movedim(-1, *axis as isize + 1)?;
                let flat = moved.reshape(x.shape.with(*axis, windows * size))?;
                let index = (0..windows).flat_map(|w| (0..*size).map(move |i| (w * step + i) as i64)).collect();
                scatter_back(&flat, &x.shape, *axis, index)?
            }
        };
        Ok(Cotangents::one(grad))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let layout = Layout::contiguous(inputs[0].spec.shape.clone());
        let layout = self.apply(&layout)?.unwrap_or_else(|| Layout::contiguous(outputs[0].shape.clone()));
        Ok(vec![inputs[0].gather(&outputs[0], layout.positions())])
    }

    fn cases() -> Vec<Case> {
        let slice = |axis, start, step, len| View::Slice { axis, start, step, len };
        vec![
            Case::new(View::Reshape(Shape::from([3, 4]))).input([2, 6], DType::F32),
            Case::new(View::Reshape(Shape::empty())).input([1, 1], DType::I32),
            Case::new(View::Reshape(Shape::from([0, 7]))).input([2, 0], DType::F32),
            Case::new(View::Permute(Dims::from([2, 0, 1]))).input([2, 3, 4], DType::F64),
            Case::new(View::Permute(Dims::empty())).input((), DType::F32),
            Case::new(View::Expand(Shape::from([4, 2, 3]))).input([2, 1], DType::F32),
            Case::new(View::Expand(Shape::from([0, 3]))).input([1, 3], DType::F32),
            Case::new(slice(1, 1, 1, 2)).input([2, 4], DType::F32),
            Case::new(slice(0, 4, -2, 3)).input([5, 2], DType::F32),
            Case::new(slice(1, 3, -1, 4)).input([2, 4], DType::U8),
            Case::new(slice(0, 0, 1, 0)).input([3], DType::F32),
            Case::new(View::Unfold { axis: 0, size: 3, step: 2 }).input([7, 2], DType::F32),
            Case::new(View::Unfold { axis: 1, size: 2, step: 1 }).input([2, 4, 3], DType::F64),
        ]
    }
}

/// Adds slices of `g` along `axis` into zeros of `shape` at the given indices.
fn scatter_back(g: &Tensor, shape: &Shape, axis: usize, index: Vec<i64>) -> Result<Tensor> {
    let count = index.len();
    let index = index_tensor(index, [count], g.device())?;
    Tensor::zeros(shape, g.dtype(), g.device())?.index_add(axis as isize, &index, g)
}

/// A row-major copy of a view.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Contiguous;

impl Rule for Contiguous {
    fn name(&self) -> &'static str {
        "contiguous"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [_] = operands(inputs)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(call.grad(0)?.clone()))
    }

    fn reference(&self, inputs: &[RefTensor], _outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(vec![inputs[0].clone()])
    }

    fn cases() -> Vec<Case> {
        let shapes: [&[usize]; 4] = [&[3, 4, 5], &[], &[0, 2], &[70, 90]];
        DType::ALL.into_iter().flat_map(|dtype| shapes.map(|s| Case::new(Contiguous).input(s, dtype))).collect()
    }
}

fn view(tensor: &Tensor, view: View) -> Result<Tensor> {
    run::call(Op::View(view), [tensor.into()])
}

/// Turns a possibly negative position into one in `0..=extent`, clamped as numpy does for ranges.
pub(crate) fn clamp_position(position: isize, extent: usize) -> usize {
    let position = if position < 0 { position.saturating_add(extent as isize) } else { position };
    position.clamp(0, extent as isize) as usize
}

impl Tensor {
    /// The same elements in row-major order under another shape with as many elements.
    /// Copies only where strides cannot express it.
    ///
    /// # Errors
    /// Where the element counts differ.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if *self.shape() == shape {
            return Ok(self.clone());
        }
        view(self, View::Reshape(shape))
    }

    /// Axes in the order of `axes`, a permutation of all of them; negative ones count from the end.
    ///
    /// # Errors
    /// Where `axes` is not a permutation.
    pub fn permute(&self, axes: &[isize]) -> Result<Tensor> {
        let axes: Result<Dims<usize>> =
            axes.iter().map(|&a| normalize_axis(a, self.rank())).collect::<Result<Vec<_>>>().map(Dims::from);
        view(self, View::Permute(axes.map_err(|e| e.with_op("permute", &[self.spec()]))?))
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// Where an axis is out of range.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let at = |axis| normalize_axis(axis, self.rank()).map_err(|e| e.with_op("transpose", &[self.spec()]));
        let (a, b) = (at(a)?, at(b)?);
        let mut axes: Dims<usize> = (0..self.rank()).collect();
        axes.as_mut_slice().swap(a, b);
        view(self, View::Permute(axes))
    }

    /// The last two axes exchanged: a matrix's transpose, or that of each matrix of a batch.
    ///
    /// # Errors
    /// Where the rank is below 2.
    pub fn t(&self) -> Result<Tensor> {
        self.transpose(-2, -1)
    }

    /// One axis moved to another place, the others keeping their order.
    ///
    /// # Errors
    /// Where an axis is out of range.
    pub fn movedim(&self, from: isize, to: isize) -> Result<Tensor> {
        let at = |axis| normalize_axis(axis, self.rank()).map_err(|e| e.with_op("movedim", &[self.spec()]));
        let (from, to) = (at(from)?, at(to)?);
        let axes = (0..self.rank()).collect::<Dims<usize>>().removed(from).inserted(to, from);
        view(self, View::Permute(axes))
    }

    /// Broadcast to a larger shape, without copying.
    ///
    /// # Errors
    /// Where the shape does not broadcast to `shape`.
    pub fn expand(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if *self.shape() == shape {
            return Ok(self.clone());
        }
        view(self, View::Expand(shape))
    }

    /// Elements `start..end` of an axis in steps of `step`, as Python's `[start:end:step]`: negative positions count
    /// from the end, positions beyond the ends are clamped, and a negative step walks backwards.
    /// `None` stands for the end in the direction of the walk.
    ///
    /// # Errors
    /// Where the axis is out of range or the step is 0.
    pub fn slice(&self, axis: isize, start: Option<isize>, end: Option<isize>, step: isize) -> Result<Tensor> {
        let spec = || [self.spec()];
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("slice", &spec()))?;
        let extent = self.shape()[axis];
        if step == 0 {
            return Err(Error::value("the step is 0").with_op("slice", &spec()));
        }
        let at = |position: isize| clamp_position(position, extent) as isize;
        let (start, len) = if step > 0 {
            let (start, end) = (start.map_or(0, at), end.map_or(extent as isize, at));
            (start, (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
        } else {
            // Walking down, -1 stands for "before the first element".
            let below = |position: isize| {
                let p = if position < 0 { position.saturating_add(extent as isize) } else { position };
                p.clamp(-1, extent as isize - 1)
            };
            let (start, end) = (start.map_or(extent as isize - 1, below), end.map_or(-1, below));
            (start, (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
        };
        view(self, View::Slice { axis, start: if len == 0 { 0 } else { start as usize }, step, len })
    }

    /// `len` elements of an axis from `start` on (negative positions count from the end).
    ///
    /// # Errors
    /// Where the range leaves the axis.
    pub fn narrow(&self, axis: isize, start: isize, len: usize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("narrow", &[self.spec()]);
        let axis = normalize_axis(axis, self.rank()).map_err(fail)?;
        let extent = self.shape()[axis];
        let from = if start < 0 { start.saturating_add(extent as isize) } else { start };
        let fits = usize::try_from(from).ok().filter(|f| f.checked_add(len).is_some_and(|end| end <= extent));
        let start = fits.ok_or_else(|| {
            fail(Error::index(format!("{len} elements from {start} leave axis {axis} of extent {extent}")))
        })?;
        view(self, View::Slice { axis, start: if len == 0 { 0 } else { start }, step: 1, len })
    }

    /// Axes walked backwards.
    ///
    /// # Errors
    /// Where an axis is out of range or named twice.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let mut out = self.clone();
        if axes.is_empty() {
            return Ok(out);
        }
        for axis in crate::shape::normalize_axes(axes, self.rank()).map_err(|e| e.with_op("flip", &[self.spec()]))? {
            out = out.slice(axis as isize, None, None, -1)?;
        }
        Ok(out)
    }

    /// Without an axis of extent 1.
    ///
    /// # Errors
    /// Where the axis is out of range or its extent is not 1.
    pub fn squeeze(&self, axis: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("squeeze", &[self.spec()]);
        let at = normalize_axis(axis, self.rank()).map_err(fail)?;
        if self.shape()[at] != 1 {
            return Err(fail(Error::shape(format!("axis {axis} has extent {}, not 1", self.shape()[at]))));
        }
        self.reshape(self.shape().removed(at))
    }

    /// With a new axis of extent 1 before `axis` (-1 puts it last).
    ///
    /// # Errors
    /// Where the position is out of range.
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let at = normalize_axis(axis, self.rank() + 1).map_err(|e| e.with_op("unsqueeze", &[self.spec()]))?;
        self.reshape(self.shape().inserted(at, 1))
    }

    /// Axes `start..=end` joined into one.
    ///
    /// # Errors
    /// Where an axis is out of range or `end` lies before `start`.
    pub fn flatten(&self, start: isize, end: isize) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.reshape([1]);
        }
        let fail = |e: Error| e.with_op("flatten", &[self.spec()]);
        let (a, b) =
            (normalize_axis(start, self.rank()).map_err(fail)?, normalize_axis(end, self.rank()).map_err(fail)?);
        if b < a {
            return Err(fail(Error::shape(format!("axis {end} lies before axis {start}"))));
        }
        let joined = self.shape()[a..=b].iter().product();
        let shape = self.shape()[..a].iter().copied().chain([joined]).chain(self.shape()[b + 1..].iter().copied());
        self.reshape(shape.collect::<Shape>())
    }

    /// Pieces of the given lengths along an axis; together they must cover it.
    ///
    /// # Errors
    /// Where the lengths do not add up to the extent.
    pub fn split(&self, lengths: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        let fail = |e: Error| e.with_op("split", &[self.spec()]);
        let at = normalize_axis(axis, self.rank()).map_err(fail)?;
        let total = lengths.iter().try_fold(0usize, |sum, &l| sum.checked_add(l));
        if total != Some(self.shape()[at]) {
            return Err(fail(Error::shape(format!(
                "lengths {lengths:?} do not add up to the extent {} of axis {axis}",
                self.shape()[at]
            ))));
        }
        let mut start = 0;
        lengths
            .iter()
            .map(|&len| {
                let piece = self.narrow(at as isize, start as isize, len);
                start += len;
                piece
            })
            .collect()
    }

    /// At most `count` pieces along an axis, all of the same length but the last, which may be shorter.
    ///
    /// # Errors
    /// Where `count` is 0 or the axis is out of range.
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Tensor>> {
        let fail = |e: Error| e.with_op("chunk", &[self.spec()]);
        let at = normalize_axis(axis, self.rank()).map_err(fail)?;
        if count == 0 {
            return Err(fail(Error::value("0 chunks")));
        }
        let extent = self.shape()[at];
        let size = extent.div_ceil(count).max(1);
        let mut lengths: Vec<usize> = (0..extent.div_ceil(size)).map(|i| size.min(extent - i * size)).collect();
        if lengths.is_empty() {
            lengths.push(0);
        }
        self.split(&lengths, axis)
    }

    /// Sliding windows: `axis` becomes the number of windows, and a new last axis holds the `size` elements of each.
    /// Windows begin `step` elements apart. No copy is made.
    ///
    /// # Errors
    /// Where `size` or `step` is 0 or no window fits.
    pub fn unfold(&self, axis: isize, size: usize, step: usize) -> Result<Tensor> {
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("unfold", &[self.spec()]))?;
        view(self, View::Unfold { axis, size, step })
    }

    /// A row-major copy, or the tensor itself where it already is row-major.
    ///
    /// # Errors
    /// Where memory cannot be had.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.layout().is_contiguous() {
            return Ok(self.clone());
        }
        run::call(Op::Contiguous(Contiguous), [self.into()])
    }
}
