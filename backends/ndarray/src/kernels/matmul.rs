//! Matrix products: `ndarray`'s for floats, sums of rows for integers.

use bytemuck::Pod;
use ndarray::linalg::{general_mat_mul, general_mat_vec_mul};
use ndarray::{
    ArrayView1, ArrayView2, ArrayViewD, ArrayViewMut1, ArrayViewMut2, ArrayViewMutD, Axis, Ix2, IxDyn, LinalgScalar,
    Zip,
};
use num_traits::Zero;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::matmul::Extents;
use ubique_core::{DType, Error, Layout, Result, Shape, TensorSpec};

use super::dtype::{Bits, Real, WithBits, with_bits};
use crate::view::{array, elements, of_layout};

/// numpy's `matmul`.
pub fn matmul(pool: &HostPool, a: &View, b: &View, out: &TensorSpec) -> Result<Buffer> {
    struct OnBits<'a>(&'a HostPool, Product, &'a View, &'a View, &'a TensorSpec);
    impl WithBits for OnBits<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let OnBits(pool, product, a, b, out) = self;
            product.run::<B>(pool, [a, b], None, out, &|a, b, c, _| integers(a, b, c))
        }
    }
    let product = Product::new(&a.layout, &b.layout)?;
    match out.dtype {
        DType::F32 => product.run::<f32>(pool, [a, b], None, out, &floats),
        DType::F64 => product.run::<f64>(pool, [a, b], None, out, &floats),
        dtype => with_bits(dtype, OnBits(pool, product, a, b, out)),
    }
}

/// A fully connected layer: x·Wᵀ, and a bias where there is one.
pub fn linear(pool: &HostPool, inputs: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let (x, weight, bias) = match *inputs {
        [x, weight] => (x, weight, None),
        [x, weight, bias] => (x, weight, Some(bias)),
        _ => return Err(Error::backend(format!("linear has 2 or 3 operands, not {}", inputs.len()))),
    };
    let product = Product::new(&x.layout, &weight.layout.permute(&[1, 0]))?;
    match out.dtype {
        DType::F32 => product.run::<f32>(pool, [x, weight], bias, out, &floats),
        DType::F64 => product.run::<f64>(pool, [x, weight], bias, out, &floats),
        other => Err(Error::backend(format!("linear has no kernel for {other}"))),
    }
}

/// The product of two matrices, put into or added to a third.
type Kernel<T> = dyn Fn(ArrayView2<'_, T>, ArrayView2<'_, T>, ArrayViewMut2<'_, T>, bool);

/// Batches of matrices, with the same leading axes.
struct Product {
    left: Layout,
    right: Layout,
    /// The result's extents.
    out: Shape,
    /// The summed extent.
    k: usize,
}

impl Product {
    /// The operands of `matmul` as batches of matrices: vectors become rows or columns.
    fn new(a: &Layout, b: &Layout) -> Result<Product> {
        let Extents { batch, m, k, n } = Extents::new(a.shape(), b.shape())?;
        let matrix = |layout: &Layout, rows, columns| match layout.shape().rank() {
            // An axis of extent 1 is put in, which strides can always express.
            1 => layout
                .reshape(&Shape::from([rows, columns]))
                .ok_or_else(|| Error::backend(format!("{} is no vector", layout.shape()))),
            _ => Ok(layout.clone()),
        };
        let full = |rows, columns| batch.iter().copied().chain([rows, columns]).collect::<Shape>();
        let (left, right) = (matrix(a, m, k)?, matrix(b, k, n)?);
        if batch.is_empty() {
            return Ok(Product { left, right, out: Shape::from([m, n]), k });
        }
        if right.shape().rank() == 2
            && let Some(rows) = batch.elements()?.checked_mul(m)
            && let Some(left) = left.reshape(&Shape::from([rows, k]))
        {
            // One matrix for all: the rows of the batch are the rows of one product.
            return Ok(Product { left, right, out: Shape::from([rows, n]), k });
        }
        Ok(Product { left: left.expand(&full(m, k))?, right: right.expand(&full(k, n))?, out: full(m, n), k })
    }

    fn run<T: Pod + Zero>(
        self,
        pool: &HostPool,
        [a, b]: [&View; 2],
        bias: Option<&View>,
        spec: &TensorSpec,
        kernel: &Kernel<T>,
    ) -> Result<Buffer> {
        let count = spec.shape.elements()?;
        let mut out = UninitBuffer::<T>::new(pool, count)?;
        let target = out.fill(T::zero());
        if count > 0 {
            let mut target = ArrayViewMutD::from_shape(IxDyn(&self.out), target).map_err(no_array)?;
            if let Some(bias) = bias {
                let bias = array::<T>(bias)?;
                target.assign(&bias.broadcast(IxDyn(&self.out)).ok_or_else(|| no_array("the bias is too long"))?);
            }
            if self.k > 0 {
                let (a, b) = (of_layout(elements(a)?, &self.left)?, of_layout(elements(b)?, &self.right)?);
                batches(&a, &b, &mut target, &|a, b, c| kernel(a, b, c, bias.is_some()))?;
            }
        }
        // SAFETY: `fill` writes every element.
        Ok(unsafe { out.assume_init() })
    }
}

fn no_array(why: impl std::fmt::Display) -> Error {
    Error::backend(format!("an operand of a product is no matrix: {why}"))
}

/// Calls `f` with each matrix of three batches of the same leading extents.
fn batches<T>(
    a: &ArrayViewD<'_, T>,
    b: &ArrayViewD<'_, T>,
    c: &mut ArrayViewMutD<'_, T>,
    f: &dyn Fn(ArrayView2<'_, T>, ArrayView2<'_, T>, ArrayViewMut2<'_, T>),
) -> Result<()> {
    if c.ndim() > 2 {
        let operands = a.outer_iter().zip(b.outer_iter());
        return operands.zip(c.outer_iter_mut()).try_for_each(|((a, b), mut c)| batches(&a, &b, &mut c, f));
    }
    f(
        a.view().into_dimensionality::<Ix2>().map_err(no_array)?,
        b.view().into_dimensionality::<Ix2>().map_err(no_array)?,
        c.view_mut().into_dimensionality::<Ix2>().map_err(no_array)?,
    );
    Ok(())
}

/// A product of floats. A matrix of one row or column has faster ways than the general one.
fn floats<T: Real + LinalgScalar>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, mut c: ArrayViewMut2<'_, T>, add: bool) {
    match c.dim() {
        (_, 1) => vector(a, b.column(0), c.column_mut(0), add),
        (1, _) => vector(b.t(), a.row(0), c.row_mut(0), add),
        _ => general_mat_mul(T::one(), &a, &b, if add { T::one() } else { T::zero() }, &mut c),
    }
}

/// A matrix times a vector, put into or added to `y`.
fn vector<T: Real + LinalgScalar>(
    matrix: ArrayView2<'_, T>,
    x: ArrayView1<'_, T>,
    mut y: ArrayViewMut1<'_, T>,
    add: bool,
) {
    if matrix.strides()[0] == 1 && y.len() > 1 {
        // Columns lie together: their sum.
        if !add {
            y.fill(T::zero());
        }
        Zip::from(matrix.columns()).and(&x).for_each(|column, &factor| y.scaled_add(factor, &column));
    } else if x.len() <= CHUNK {
        general_mat_vec_mul(T::one(), &matrix, &x, if add { T::one() } else { T::zero() }, &mut y);
    } else {
        Zip::from(matrix.rows()).and(&mut y).for_each(|row, y| {
            let start = if add { y.to_f64().unwrap_or(f64::NAN) } else { 0.0 };
            *y = T::from(start + long_dot(row, x)).unwrap_or_else(T::nan);
        });
    }
}

/// Elements whose products are added up in their own type.
const CHUNK: usize = 1024;

/// A product of long vectors: what chunks give is added up in f64.
fn long_dot<T: Real + LinalgScalar>(a: ArrayView1<'_, T>, b: ArrayView1<'_, T>) -> f64 {
    let chunks = a.axis_chunks_iter(Axis(0), CHUNK).zip(b.axis_chunks_iter(Axis(0), CHUNK));
    chunks.map(|(a, b)| a.dot(&b).to_f64().unwrap_or(f64::NAN)).sum()
}

/// A product of integers, which wraps, added to `c`.
fn integers<B: Bits>(a: ArrayView2<'_, B>, b: ArrayView2<'_, B>, mut c: ArrayViewMut2<'_, B>) {
    let product = |sum: B, a: B, b: B| sum.wrapping_add(&a.wrapping_mul(&b));
    for (a, mut c) in a.rows().into_iter().zip(c.rows_mut()) {
        if b.strides()[0] == 1 {
            // Columns of the right matrix lie together.
            Zip::from(&mut c).and(b.columns()).for_each(|c, column| {
                *c = Zip::from(&a).and(&column).fold(*c, |sum, &a, &b| product(sum, a, b));
            });
        } else {
            Zip::from(&a).and(b.rows()).for_each(|&factor, row| {
                Zip::from(&mut c).and(&row).for_each(|c, &b| *c = product(*c, factor, b));
            });
        }
    }
}
