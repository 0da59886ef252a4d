//! What other systems compute, against the f64 references and the flex backend: PyTorch's operator samples and ONNX's
//! operator cases, as `tools/make-opinfo-cases.py` and `tools/make-onnx-cases.py` record them.
//!
//! `UBIQUE_OP=softmax cargo test -p ubique-conformance --test recorded opinfo` checks the operators of that name.

mod call;
mod compare;
mod onnx;
mod opinfo;
mod record;
mod reference;
mod tally;
