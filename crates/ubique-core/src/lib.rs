//! Tensors, operations, dispatch, autodiff and the backend contract.

pub mod random;
