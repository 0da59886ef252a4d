//! The `ubique` command.
fn main() {}
