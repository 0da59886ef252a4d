//! Floating-point elements and the type that kernels accumulate them in.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use ubique_core::dtype::Element;

use crate::simd::{Real, half as conversions};

/// The accumulator of a floating-point element: the type itself, or `f32` for half precision.
pub trait Wide:
    Float<Wide = Self> + Real + PartialOrd + std::ops::AddAssign + std::ops::Div<Output = Self> + 'static
{
    /// Elements in a vector of 32 bytes.
    const LANES: usize = 32 / size_of::<Self>();
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
}

/// A floating-point element.
pub trait Float: Element {
    /// What its sums are held in.
    type Wide: Wide;

    /// The value in the accumulator's type.
    fn wide(self) -> Self::Wide;

    /// The nearest element.
    fn narrow(value: Self::Wide) -> Self;

    /// The elements themselves, where they are of the accumulator's type.
    fn as_wide(elements: &[Self]) -> Option<&[Self::Wide]>;

    /// [`Float::wide`] of each element; lengths must agree.
    fn widen_slice(source: &[Self], target: &mut [Self::Wide]);

    /// [`Float::narrow`] of each value; lengths must agree. Initialises all of `target`.
    fn narrow_slice(source: &[Self::Wide], target: &mut [MaybeUninit<Self>]);
}

macro_rules! wide {
    ($($ty:ty)*) => {$(
        impl Wide for $ty {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $ty
            }
        }

        impl Float for $ty {
            type Wide = $ty;

            #[inline(always)]
            fn wide(self) -> $ty {
                self
            }

            #[inline(always)]
            fn narrow(value: $ty) -> $ty {
                value
            }

            #[inline(always)]
            fn as_wide(elements: &[$ty]) -> Option<&[$ty]> {
                Some(elements)
            }

            #[inline(always)]
            fn widen_slice(source: &[$ty], target: &mut [$ty]) {
                target.copy_from_slice(source);
            }

            #[inline(always)]
            fn narrow_slice(source: &[$ty], target: &mut [MaybeUninit<$ty>]) {
                target.write_copy_of_slice(source);
            }
        }
    )*};
}
wide!(f32 f64);

macro_rules! half {
    ($($ty:ty)*) => {$(
        impl Float for $ty {
            type Wide = f32;

            #[inline(always)]
            fn wide(self) -> f32 {
                self.to_f32()
            }

            #[inline(always)]
            fn narrow(value: f32) -> $ty {
                <$ty>::from_f32(value)
            }

            #[inline(always)]
            fn as_wide(_elements: &[$ty]) -> Option<&[f32]> {
                None
            }

            fn widen_slice(source: &[$ty], target: &mut [f32]) {
                // SAFETY: `widen` initialises its target.
                conversions::widen(source, unsafe { crate::simd::uninit::as_uninit(target) });
            }

            fn narrow_slice(source: &[f32], target: &mut [MaybeUninit<$ty>]) {
                conversions::narrow(source, target);
            }
        }
    )*};
}
half!(f16 bf16);
