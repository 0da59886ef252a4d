//! Creation from parameters.

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::host::{WithElement, with_element};
use ubique_core::op::fill::{Arange, Fill};
use ubique_core::{Element, Result, Scalar};

use crate::executor::Context;

/// One value everywhere.
pub fn fill(context: &Context, fill: &Fill) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Fill);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let mut out = UninitBuffer::<T>::new(&self.0.pool, self.1.spec.shape.elements()?)?;
            out.fill(T::from_scalar(self.1.value));
            // SAFETY: `fill` writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_element(fill.spec.dtype, Go(context, fill))
}

/// Evenly spaced values.
pub fn arange(context: &Context, arange: &Arange) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Arange);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let Arange { start, step, len, dtype } = *self.1;
            let mut out = UninitBuffer::<T>::new(&self.0.pool, len)?;
            for (i, slot) in out.as_mut_slice().iter_mut().enumerate() {
                let value = match dtype.is_float() {
                    true => Scalar::Float(start.as_f64() + i as f64 * step.as_f64()),
                    false => {
                        let exact = start.as_i128().wrapping_add((i as i128).wrapping_mul(step.as_i128()));
                        Scalar::UInt(exact as u64)
                    }
                };
                slot.write(T::from_scalar(value));
            }
            // SAFETY: the loop writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_element(arange.dtype, Go(context, arange))
}
