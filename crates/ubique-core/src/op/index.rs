//! Elements taken from and put to places that an index tensor names.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::{Device, run};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostTensor;
use crate::layout::Layout;
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands, require_same_dtype};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// Whether an index may have this dtype.
pub(crate) fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::I32 | DType::U32)
}

fn require_index(spec: &TensorSpec) -> Result<()> {
    match is_index(spec.dtype) {
        true => Ok(()),
        false => Err(Error::dtype(format!("the index is {}; it must be i64, i32 or u32", spec.dtype))),
    }
}

/// The extent of an axis.
pub(crate) fn require_axis(shape: &Shape, axis: usize) -> Result<usize> {
    shape
        .get(axis)
        .copied()
        .ok_or_else(|| Error::shape(format!("axis {axis} is out of range for rank {}", shape.rank())))
}

/// Refuses an index outside `0..extent`.
///
/// # Errors
/// Where it is outside; the error names it.
#[inline]
pub fn check_index(index: i128, extent: usize) -> Result<usize> {
    if (0..extent as i128).contains(&index) {
        return Ok(index as usize);
    }
    Err(Error::index(format!("index {index} is outside an axis of extent {extent}")))
}

/// Positions as an index of the dtype that the device has for it.
///
/// # Errors
/// Where a position does not fit that dtype, or there are more or fewer than elements of the shape.
pub(crate) fn index_tensor(places: Vec<i64>, shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
    let dtype = device.default_int();
    if dtype == DType::I64 {
        return Tensor::from_vec(places, shape, device);
    }
    let fits = |&place: &i64| dtype.wrap(place.into()) == place.into();
    if let Some(place) = places.iter().find(|place| !fits(place)) {
        return Err(Error::index(format!("position {place} does not fit {dtype}, the device's dtype of indices")));
    }
    Tensor::from_host(HostTensor::from_scalars(places.into_iter().map(Scalar::Int), dtype, shape)?, device)
}

/// Element `[i, j, k]` of the result is `x[index[i, j, k], j, k]` (for axis 0): the index has the operand's rank, and its
/// other extents do not exceed the operand's. The result has the index's shape.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gather {
    /// The axis that the index is of.
    pub axis: usize,
}

fn gather_shapes(axis: usize, x: &TensorSpec, index: &TensorSpec) -> Result<()> {
    require_index(index)?;
    require_axis(&x.shape, axis)?;
    let fits = index.shape.rank() == x.shape.rank()
        && index.shape.iter().zip(x.shape.iter()).enumerate().all(|(i, (n, m))| i == axis || n <= m);
    if !fits {
        return Err(Error::shape(format!("the index {} does not fit {} outside axis {axis}", index.shape, x.shape)));
    }
    Ok(())
}

/// For each element of the index, where in `x` it points.
fn gather_positions(axis: usize, x: &Shape, index: &RefTensor) -> Result<Vec<usize>> {
    let extent = x[axis];
    let base = Layout::contiguous(x.clone());
    let stride = base.strides()[axis] as usize;
    let starts = base.expand_prefix(index.shape(), axis);
    starts.zip(index.ints()).map(|(start, i)| Ok(start + stride * check_index(i, extent)?)).collect()
}

impl Layout {
    /// Positions of the index's elements in a larger layout, as if the index along `axis` were 0.
    fn expand_prefix(&self, index: &Shape, axis: usize) -> impl Iterator<Item = usize> {
        let strides = self.strides().with(axis, 0);
        let reach = self.elements().max(1);
        Layout::strided(index.clone(), strides, 0, reach)
            .unwrap_or_else(|_| Layout::contiguous(Shape::from([0])))
            .positions()
    }
}

impl Rule for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, index] = operands(inputs)?;
        gather_shapes(self.axis, x, index)?;
        index.shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape: index.shape.clone(), dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[1])).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (g, x) = (call.grad(0)?, call.spec(0)?);
        let zeros = Tensor::zeros(&x.shape, x.dtype, g.device())?;
        Ok(Cotangents::one(zeros.scatter(self.axis as isize, call.input(1)?, g, Combine::Add)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let positions = gather_positions(self.axis, inputs[0].shape(), &inputs[1])?;
        Ok(vec![inputs[0].gather(&outputs[0], positions.into_iter())])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            for index in [DType::I64, DType::I32, DType::U32] {
                cases.push(Case::new(Gather { axis: 0 }).input([5, 3], dtype).input_with(
                    [4, 3],
                    index,
                    Fill::Uniform(0.0, 5.0),
                ));
            }
            let at = |axis| Case::new(Gather { axis });
            cases.push(at(1).input([2, 5, 3], dtype).input_with([2, 7, 2], DType::I64, Fill::Uniform(0.0, 5.0)));
            cases.push(at(1).input([2, 5], dtype).input([0, 2], DType::I64));
            cases.push(at(0).input([1200], dtype).input_with([1500], DType::I64, Fill::Uniform(0.0, 1200.0)));
        }
        cases
    }
}

/// How a scattered element meets what is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// It replaces it; of several for one place, the last in row-major order stays.
    Set,
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Combine {
    /// Every way.
    pub const ALL: [Combine; 5] = [Combine::Set, Combine::Add, Combine::Mul, Combine::Min, Combine::Max];

    fn float(self, a: f64, b: f64) -> f64 {
        use crate::op::binary::Binary;
        match self {
            Combine::Set => b,
            Combine::Add => a + b,
            Combine::Mul => a * b,
            Combine::Min => Binary::Min.eval_float(a, b),
            Combine::Max => Binary::Max.eval_float(a, b),
        }
    }

    fn int(self, a: i128, b: i128, dtype: DType) -> i128 {
        dtype.wrap(match self {
            Combine::Set => b,
            Combine::Add => a + b,
            Combine::Mul => a.wrapping_mul(b),
            Combine::Min => a.min(b),
            Combine::Max => a.max(b),
        })
    }
}

/// The first operand with the third's elements put to where the index (second operand) says, as in [`Gather`].
/// Index and source have the same shape.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scatter {
    /// The axis that the index is of.
    pub axis: usize,
    /// How elements meet.
    pub combine: Combine,
}

impl Rule for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, index, source] = operands(inputs)?;
        require_same_dtype(x, source)?;
        gather_shapes(self.axis, x, index)?;
        if source.shape != index.shape {
            return Err(Error::shape(format!("the index {} and the source {} differ", index.shape, source.shape)));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        let traits = match self.combine {
            Combine::Set | Combine::Add => Traits::own(Saves::only(&[1])),
            _ => Traits::own(Saves::BOTH),
        };
        match self.combine {
            Combine::Set => traits.memory_bound().moves(),
            _ => traits.memory_bound(),
        }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (index, g, axis) = (call.input(1)?, call.grad(0)?, self.axis as isize);
        let taken = || g.gather(axis, index);
        let (base, source) = match self.combine {
            Combine::Add => (g.clone(), taken()?),
            Combine::Set => {
                // Only the element that stayed gets the gradient: number the sources, and see whose number stayed.
                let count = index.elements();
                let number =
                    Tensor::arange(0, count, 1, g.device().default_int(), g.device())?.reshape(index.shape())?;
                let none = Tensor::full(&call.spec(0)?.shape, -1, number.dtype(), g.device())?;
                let stayed = none.scatter(axis, index, &number, Combine::Set)?;
                let mine = stayed.gather(axis, index)?.eq(&number)?;
                (g.masked_fill(&stayed.ge(0)?, 0)?, taken()?.masked_fill(&mine.not()?, 0)?)
            }
            Combine::Mul => {
                return Err(Error::gradient(
                    "multiplying scatter has no gradient; use log and adding scatter, or gather and prod",
                ));
            }
            Combine::Min | Combine::Max => {
                // Everything equal to the result shares the gradient evenly.
                let (x, source, y) = (call.input(0)?, call.input(2)?, call.output(0)?);
                let dtype = g.dtype();
                let base_hit = x.eq(y)?.cast(dtype)?;
                let source_hit = source.eq(&y.gather(axis, index)?)?.cast(dtype)?;
                let share = (g / base_hit.scatter(axis, index, &source_hit, Combine::Add)?.maximum(1)).tensor()?;
                ((base_hit * &share).tensor()?, (source_hit * share.gather(axis, index)).tensor()?)
            }
        };
        let mut out = Cotangents::none(3);
        out.set(0, base);
        out.set(2, source);
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let positions = gather_positions(self.axis, inputs[0].shape(), &inputs[1])?;
        let dtype = outputs[0].dtype;
        let values = match (&inputs[0].values, &inputs[2].values) {
            (Values::Float(x), Values::Float(source)) => {
                let mut x = x.clone();
                positions.iter().zip(source).for_each(|(&p, &s)| x[p] = self.combine.float(x[p], s));
                Values::Float(x)
            }
            _ => {
                let mut x = inputs[0].ints();
                positions.iter().zip(inputs[2].ints()).for_each(|(&p, s)| x[p] = self.combine.int(x[p], s, dtype));
                Values::Int(x)
            }
        };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for combine in Combine::ALL {
            let dtypes = if combine == Combine::Set { &DType::ALL[..] } else { &DType::COMPUTED[..] };
            for &dtype in dtypes {
                let at = |axis| {
                    let case = Case::new(Scatter { axis, combine });
                    if combine == Combine::Mul { case.not_smooth() } else { case }
                };
                let index = Fill::Uniform(0.0, 5.0);
                let values = |case: Case, shape: &[usize]| case.input_with(shape, dtype, Fill::Distinct(-2.0, 3.0));
                cases.push(values(values(at(0), &[5, 3]).input_with([4, 3], DType::I64, index.clone()), &[4, 3]));
                cases.push(values(
                    values(at(1), &[2, 5, 3]).input_with([2, 7, 2], DType::I32, index.clone()),
                    &[2, 7, 2],
                ));
                cases.push(values(values(at(0), &[3]).input([0], DType::I64), &[0]));
            }
        }
        cases
    }
}

/// Whole slices along an axis, in the order of a rank-1 index.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexSelect {
    /// The axis.
    pub axis: usize,
}

fn check_slices(axis: usize, x: &TensorSpec, index: &TensorSpec) -> Result<Shape> {
    require_index(index)?;
    require_axis(&x.shape, axis)?;
    match index.shape[..] {
        [count] => Ok(x.shape.with(axis, count)),
        _ => Err(Error::shape(format!("the index has rank {}, not 1", index.shape.rank()))),
    }
}

/// A rank-1 index broadcast to a whole shape, as [`Gather`] and [`Scatter`] want it.
fn full_index(index: &Tensor, shape: &Shape, axis: usize) -> Result<Tensor> {
    let wide = Shape::repeat(1, shape.rank()).with(axis, index.elements());
    index.reshape(wide)?.expand(shape)
}

fn expand_reference(index: &RefTensor, shape: &Shape, axis: usize) -> Result<RefTensor> {
    let wide = Shape::repeat(1, shape.rank()).with(axis, index.len());
    RefTensor::int(wide, index.spec.dtype, index.ints()).expand(shape)
}

impl Rule for IndexSelect {
    fn name(&self) -> &'static str {
        "index_select"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, index] = operands(inputs)?;
        let shape = check_slices(self.axis, x, index)?;
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[1])).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (g, x) = (call.grad(0)?, call.spec(0)?);
        let zeros = Tensor::zeros(&x.shape, x.dtype, g.device())?;
        Ok(Cotangents::one(zeros.index_add(self.axis as isize, call.input(1)?, g)?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, index] = inputs else { return Ok(None) };
        let shape = x.shape().with(self.axis, index.elements());
        Ok(Some(vec![x.gather(self.axis as isize, &full_index(index, &shape, self.axis)?)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let extent = inputs[0].shape()[self.axis];
        inputs[1].ints().into_iter().try_for_each(|i| check_index(i, extent).map(drop))?;
        let index = expand_reference(&inputs[1], &outputs[0].shape, self.axis)?;
        Gather { axis: self.axis }.reference(&[inputs[0].clone(), index], outputs)
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            let at = |axis| Case::new(IndexSelect { axis });
            let index = Fill::Uniform(0.0, 5.0);
            cases.push(at(0).input([5, 3], dtype).input_with([7], DType::I64, index.clone()));
            cases.push(at(1).input([2, 5, 3], dtype).input_with([2], DType::I32, index.clone()));
            cases.push(at(2).input([2, 1, 5], dtype).input_with([4], DType::U32, index));
            cases.push(at(0).input([5, 3], dtype).input([0], DType::I64));
            cases.push(at(0).input([300, 7], dtype).input_with([310], DType::I64, Fill::Uniform(0.0, 300.0)));
        }
        cases
    }
}

/// The first operand with the third's slices added along an axis at the places that a rank-1 index names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexAdd {
    /// The axis.
    pub axis: usize,
}

impl Rule for IndexAdd {
    fn name(&self) -> &'static str {
        "index_add"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, index, source] = operands(inputs)?;
        require_same_dtype(x, source)?;
        let shape = check_slices(self.axis, x, index)?;
        if source.shape != shape {
            return Err(Error::shape(format!("the source is {}, not {shape}", source.shape)));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[1])).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = call.grad(0)?;
        let mut out = Cotangents::none(3);
        out.set(0, g.clone());
        if call.wants(2) {
            out.set(2, g.index_select(self.axis as isize, call.input(1)?)?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, index, source] = inputs else { return Ok(None) };
        let index = full_index(index, source.shape(), self.axis)?;
        Ok(Some(vec![x.scatter(self.axis as isize, &index, source, Combine::Add)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let extent = inputs[0].shape()[self.axis];
        inputs[1].ints().into_iter().try_for_each(|i| check_index(i, extent).map(drop))?;
        let index = expand_reference(&inputs[1], inputs[2].shape(), self.axis)?;
        let scatter = Scatter { axis: self.axis, combine: Combine::Add };
        scatter.reference(&[inputs[0].clone(), index, inputs[2].clone()], outputs)
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::COMPUTED {
            let at = |axis| Case::new(IndexAdd { axis });
            let index = Fill::Uniform(0.0, 5.0);
            cases.push(at(0).input([5, 3], dtype).input_with([7], DType::I64, index.clone()).input([7, 3], dtype));
            cases.push(at(1).input([2, 5, 3], dtype).input_with([2], DType::I32, index).input([2, 2, 3], dtype));
            cases.push(at(0).input([5, 3], dtype).input([0], DType::I64).input([0, 3], dtype));
        }
        cases
    }
}

impl Tensor {
    /// Element `[i, j, k]` of the result is `self[index[i, j, k], j, k]` for axis 0, and so on. The index (i64, i32 or
    /// u32) has this tensor's rank; the result has the index's shape.
    ///
    /// # Errors
    /// Where the index does not fit or, on host devices, points outside the axis.
    pub fn gather(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("gather", &[self.spec(), index.spec()]))?;
        run::call(Op::Gather(Gather { axis }), [self.into(), index.into()])
    }

    /// This tensor with the elements of `source` put to the places that `index` names, as [`Tensor::gather`] reads them.
    ///
    /// # Errors
    /// Where index and source do not fit, dtypes differ, or, on host devices, an index points outside the axis.
    pub fn scatter(&self, axis: isize, index: &Tensor, source: &Tensor, combine: Combine) -> Result<Tensor> {
        let specs = || [self.spec(), index.spec(), source.spec()];
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("scatter", &specs()))?;
        run::call(Op::Scatter(Scatter { axis, combine }), [self.into(), index.into(), source.into()])
    }

    /// Whole slices along an axis, in the order of a rank-1 index (i64, i32 or u32).
    ///
    /// # Errors
    /// Where the index has another rank or, on host devices, points outside the axis.
    pub fn index_select(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let axis =
            normalize_axis(axis, self.rank()).map_err(|e| e.with_op("index_select", &[self.spec(), index.spec()]))?;
        run::call(Op::IndexSelect(IndexSelect { axis }), [self.into(), index.into()])
    }

    /// This tensor with the slices of `source` added along an axis at the places that a rank-1 index names.
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit or, on host devices, an index points outside the axis.
    pub fn index_add(&self, axis: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let specs = || [self.spec(), index.spec(), source.spec()];
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("index_add", &specs()))?;
        run::call(Op::IndexAdd(IndexAdd { axis }), [self.into(), index.into(), source.into()])
    }
}
