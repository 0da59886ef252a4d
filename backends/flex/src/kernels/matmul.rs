//! Matrix products: floats through `gemm`, integers by rows.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::matmul::Extents;
use ubique_core::{DType, Element, Error, Layout, Result, Shape, TensorSpec};

use super::dtype::for_int;
use crate::executor::Context;
use crate::kernels::cast::cast;
use crate::kernels::copy::contiguous;
use crate::kernels::float::Wide;
use crate::memory::elements;
use crate::simd::{Isa, Kernel, vectorize};

/// Multiplications below which `gemm`'s preparations cost more than they save.
const TINY: usize = 512;
/// Multiplications below which a product stays on one thread.
const GRAIN: usize = 1 << 18;

/// A product, as [`ubique_core::Tensor::matmul`] defines it.
pub fn matmul(context: &Context, a: &View, b: &View, out: &TensorSpec) -> Result<Buffer> {
    if is_half(out.dtype) {
        return in_f32(context, &[a, b], out, |x, out| matmul(context, &x[0], &x[1], out));
    }
    let Extents { batch, m, k, n } = Extents::new(a.shape(), b.shape())?;
    let left = Operand::new(&a.layout, &batch, true)?;
    let right = Operand::new(&b.layout, &batch, false)?;
    Product { m, k, n, left, right }.run(context, a, b, None, out)
}

/// x·Wᵀ + b.
pub fn linear(context: &Context, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    if is_half(out.dtype) {
        return in_f32(context, operands, out, |x, out| linear(context, &x.iter().collect::<Vec<_>>(), out));
    }
    let [x, weight, bias @ ..] = operands else { return Err(Error::backend("linear takes 2 or 3 operands")) };
    let transposed = weight.layout.permute(&[1, 0]);
    let Extents { batch, m, k, n } = Extents::new(x.shape(), transposed.shape())?;
    let left = Operand::new(&x.layout, &batch, true)?;
    let right = Operand::new(&transposed, &batch, false)?;
    Product { m, k, n, left, right }.run(context, x, weight, bias.first().copied(), out)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Half precision: the operands as f32, and the result rounded.
fn in_f32(
    context: &Context,
    operands: &[&View],
    out: &TensorSpec,
    run: impl FnOnce(&[View], &TensorSpec) -> Result<Buffer>,
) -> Result<Buffer> {
    let view = |buffer, shape: &Shape| View::new(buffer, Layout::contiguous(shape.clone()), DType::F32);
    let widen = |x: &&View| Ok(view(cast(context, x, DType::F32)?, x.shape()));
    let wide = operands.iter().map(widen).collect::<Result<Vec<_>>>()?;
    let result = run(&wide, &TensorSpec { shape: out.shape.clone(), dtype: DType::F32 })?;
    cast(context, &view(result, &out.shape), out.dtype)
}

/// The matrices of an operand.
struct Operand {
    /// Where each begins in the buffer.
    starts: Layout,
    /// Distance of rows.
    row: isize,
    /// Distance of columns.
    column: isize,
}

impl Operand {
    /// An operand broadcast to a batch. A vector is a row on the left, a column on the right.
    fn new(layout: &Layout, batch: &Shape, is_left: bool) -> Result<Operand> {
        let strides = layout.strides();
        let (lead, [row, column]) = match **strides {
            [ref lead @ .., row, column] => (lead, [row, column]),
            [step] if is_left => (&[][..], [0, step]),
            [step] => (&[][..], [step, 0]),
            [] => return Err(Error::backend("an operand of a product has no axes")),
        };
        let starts =
            Layout::strided(layout.shape()[..lead.len()].into(), lead.into(), layout.offset(), isize::MAX as usize)?;
        Ok(Operand { starts: starts.expand(batch)?, row, column })
    }

    /// Whether the batch is one matrix with more rows: the matrices follow each other as the rows within do.
    fn is_joined(&self, rows: usize) -> bool {
        let (extents, [strides]) = Layout::collapse([&self.starts]);
        match (extents.len(), strides.first()) {
            (0, _) => true,
            (1, Some(&step)) => step == self.row * rows as isize,
            _ => false,
        }
    }

    /// Whether all of the batch is the same matrix.
    fn is_one(&self) -> bool {
        let axes = self.starts.shape().iter().zip(self.starts.strides().iter());
        axes.into_iter().all(|(&extent, &stride)| extent == 1 || stride == 0)
    }
}

/// A product of two batches of matrices.
struct Product {
    m: usize,
    k: usize,
    n: usize,
    left: Operand,
    right: Operand,
}

impl Product {
    fn run(self, context: &Context, a: &View, b: &View, bias: Option<&View>, out: &TensorSpec) -> Result<Buffer> {
        match out.dtype {
            DType::F32 => self.floats::<f32>(context, a, b, bias, out),
            DType::F64 => self.floats::<f64>(context, a, b, bias, out),
            other => for_int!(other, T => self.integers::<T>(context, a, b, out)),
        }
    }

    fn floats<T: Wide>(
        mut self,
        context: &Context,
        a: &View,
        b: &View,
        bias: Option<&View>,
        out: &TensorSpec,
    ) -> Result<Buffer> {
        let mut target = UninitBuffer::<T>::new(&context.pool, out.shape.elements()?)?;
        let (a, b) = (elements::<T>(a)?, elements::<T>(b)?);
        if let Some(bias) = bias {
            let data = elements::<T>(bias)?;
            let row: Vec<T> = bias.layout.positions().map(|p| data[p]).collect();
            for target in target.as_mut_slice().chunks_exact_mut(row.len().max(1)) {
                target.write_copy_of_slice(&row);
            }
        }
        let add = bias.is_some();
        if self.k == 0 && !add {
            target.fill(T::default());
        }
        if self.m * self.n * self.k > 0 {
            let mut count = self.left.starts.elements();
            if count > 1 && self.right.is_one() && self.left.is_joined(self.m) {
                // One matrix for all: the rows of the batch are the rows of one product.
                (self.m, count) = (self.m * count, 1);
            }
            let work = self.m * self.n * self.k;
            let (lefts, rights) = (self.left.starts.positions(), self.right.starts.positions());
            let starts: Vec<(usize, usize)> = lefts.zip(rights).take(count).collect();
            let size = self.m * self.n;
            let threads = context.threads.count();
            let target = target.as_mut_slice();
            if count < 2 * threads && threads > 1 && work > GRAIN {
                context.threads.install(|| {
                    for (&start, target) in starts.iter().zip(target.chunks_exact_mut(size)) {
                        self.one(a, b, start, target, add, gemm::Parallelism::Rayon(threads));
                    }
                });
            } else {
                context.threads.rows(target, size, (GRAIN / work).max(1), &|first, part: &mut [_]| {
                    for (&start, target) in starts[first..].iter().zip(part.chunks_exact_mut(size)) {
                        self.one(a, b, start, target, add, gemm::Parallelism::None);
                    }
                });
            }
        }
        // SAFETY: all elements were written: the bias, zeros or products. Where both m·n and k are above 0, each of the
        // batch's matrices was, and otherwise there are none or they are sums of nothing.
        Ok(unsafe { target.assume_init() })
    }

    /// The product of two matrices that begin at `start`, or, where `add`, that and what is in `target`.
    fn one<T: Wide>(
        &self,
        a: &[T],
        b: &[T],
        start: (usize, usize),
        target: &mut [MaybeUninit<T>],
        add: bool,
        parallelism: gemm::Parallelism,
    ) {
        let Product { m, k, n, ref left, ref right } = *self;
        if m * n * k <= TINY {
            let element =
                |data: &[T], start: usize, row: isize, column: isize| data[(start as isize + row + column) as usize];
            for (i, row) in target.chunks_exact_mut(n).enumerate() {
                for (j, slot) in row.iter_mut().enumerate() {
                    // SAFETY: where `add`, the target was initialised.
                    let mut sum = if add { unsafe { slot.assume_init() } } else { T::default() };
                    for p in 0..k as isize {
                        let x = element(a, start.0, i as isize * left.row, p * left.column);
                        sum += x * element(b, start.1, p * right.row, j as isize * right.column);
                    }
                    slot.write(sum);
                }
            }
            return;
        }
        let one = T::from_f64(1.0);
        // SAFETY: the layouts of both operands lie within their buffers, and the target has m·n elements. Where `add`
        // is not set, the target is not read.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                target.as_mut_ptr().cast::<T>(),
                1,
                n as isize,
                add,
                a.as_ptr().add(start.0),
                left.column,
                left.row,
                b.as_ptr().add(start.1),
                right.column,
                right.row,
                one,
                one,
                false,
                false,
                false,
                parallelism,
            );
        }
    }

    fn integers<T: Integer>(self, context: &Context, a: &View, b: &View, out: &TensorSpec) -> Result<Buffer> {
        let mut target = UninitBuffer::<T>::new(&context.pool, out.shape.elements()?)?;
        let Product { k, n, .. } = self;
        let copy;
        let (b, right) = match self.right.column == 1 || n == 1 {
            true => (elements::<T>(b)?, self.right),
            false => {
                // Rows of the right matrix are read as slices.
                let layout = Layout::contiguous(b.shape().clone());
                copy = View::new(contiguous(context, b)?, layout, b.dtype);
                (elements::<T>(&copy)?, Operand::new(&copy.layout, self.left.starts.shape(), false)?)
            }
        };
        let a = elements::<T>(a)?;
        let starts: Vec<(usize, usize)> = self.left.starts.positions().zip(right.starts.positions()).collect();
        let grain = GRAIN / (n * k).max(1);
        context.threads.rows(target.as_mut_slice(), n, grain.max(1), &|first, part: &mut [_]| {
            for (i, target) in part.chunks_exact_mut(n).enumerate() {
                let (start, row) = (starts[(first + i) / self.m], (first + i) % self.m);
                let left = start.0 as isize + row as isize * self.left.row;
                target.fill(MaybeUninit::new(T::default()));
                // SAFETY: all were written above.
                let target = unsafe { target.assume_init_mut() };
                let factors = (0..k as isize).map(|p| {
                    let from = (start.1 as isize + p * right.row) as usize;
                    (a[(left + p * self.left.column) as usize], &b[from..from + n])
                });
                vectorize(Sum { factors, target });
            }
        });
        // SAFETY: each row was written; there are none where n is 0.
        Ok(unsafe { target.assume_init() })
    }
}

/// Integers with wrapping arithmetic.
trait Integer: Element {
    /// `self + a·b`, wrapping.
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Integer for $ty {
            #[inline(always)]
            fn add_product(self, a: $ty, b: $ty) -> $ty {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}
integers!(i64 i32 i16 i8 u64 u32 u16 u8);

/// A sum of rows, each times a factor, added to the target.
struct Sum<'a, T, F> {
    factors: F,
    target: &'a mut [T],
}

impl<'a, T: Integer, F: Iterator<Item = (T, &'a [T])>> Kernel for Sum<'a, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for (factor, row) in self.factors {
            self.target.iter_mut().zip(row).for_each(|(t, &x)| *t = t.add_product(factor, x));
        }
    }
}
