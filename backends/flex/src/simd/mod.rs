//! Vector code without intrinsics: plain loops over slices, compiled once per instruction set and chosen at run time.
//!
//! [`vectorize`] runs a [`Kernel`] inside a function that has the CPU's best instruction set enabled, so the compiler
//! vectorises the kernel's loops for it. [`math`] has branch-free elementary functions that stay vectorisable,
//! [`elementwise`] maps them over slices, [`reduce`] folds slices, [`rows`] has the fused row kernels of a network.

pub mod elementwise;
pub mod half;
mod isa;
pub mod math;
pub mod reduce;
pub mod rows;
pub mod uninit;

pub use isa::{Isa, Kernel, Level, Portable, Real, prefetch, vectorize, vectorize_with};
