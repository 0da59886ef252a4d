//! Data sets: the IDX file format, and Fashion-MNIST in it.

pub mod fashion;
pub mod idx;
