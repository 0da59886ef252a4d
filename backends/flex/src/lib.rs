//! Eager pure-Rust CPU backend.
