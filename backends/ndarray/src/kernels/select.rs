//! Choice by a mask, by bit pattern.

use ndarray::Zip;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::select::MaskedFill;
use ubique_core::{Layout, Result, Shape, TensorSpec};

use super::dtype::{Bits, WithBits, with_bits};
use super::walk::{collapse, target};
use crate::view::{elements, strided};

/// Where the mask is true the first, elsewhere the second operand's element.
pub fn select(pool: &HostPool, mask: &View, a: &View, b: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, [&'a View; 3], &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, [mask, a, b], TensorSpec { shape, .. }) = self;
            let mut out = UninitBuffer::<B>::new(pool, shape.elements()?)?;
            if shape.elements()? > 0 {
                let wide = |x: &View| x.layout.expand(shape);
                let layouts = [&wide(mask)?, &wide(a)?, &wide(b)?, &Layout::contiguous(shape.clone())];
                let (extents, [m, left, right, _]) = collapse(layouts);
                let m = strided(elements::<u8>(mask)?, &extents, &m, mask.layout.offset())?;
                let a = strided(elements::<B>(a)?, &extents, &left, a.layout.offset())?;
                let b = strided(elements::<B>(b)?, &extents, &right, b.layout.offset())?;
                let choose = |&m: &u8, &a: &B, &b: &B| if m != 0 { a } else { b };
                Zip::from(m).and(a).and(b).map_assign_into(target(out.as_mut_slice(), &extents)?, choose);
            }
            // SAFETY: the walk writes every element of the result.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(out.dtype, Go(pool, [mask, a, b], out))
}

/// A value where the mask is true.
pub fn masked_fill(pool: &HostPool, op: &MaskedFill, x: &View, mask: &View) -> Result<Buffer> {
    struct Value<'a>(&'a HostPool, &'a MaskedFill, &'a View);
    impl WithBits for Value<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Value(pool, op, x) = self;
            let mut out = UninitBuffer::<B>::new(pool, 1)?;
            out.fill(op.value.to_bits(x.dtype)?);
            // SAFETY: `fill` writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    // One element, which lies in its handle.
    let value = with_bits(x.dtype, Value(pool, op, x))?;
    let value = View::new(value, Layout::contiguous(Shape::empty()), x.dtype);
    select(pool, mask, &value, x, &x.spec())
}
