//! Eager pure-Rust CPU backend.
pub mod simd;
