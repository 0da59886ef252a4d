//! Compiles the few lines of C++ that `tch` lacks, and tells the plugin where LibTorch's libraries lie, so that it finds
//! them wherever it is loaded from.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-changed=src/shim.cpp");
    // Where it is not set, `torch-sys` says what to do.
    let Ok(libtorch) = env::var("LIBTORCH") else { return };
    println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    let include = Path::new(&libtorch).join("include");
    cc::Build::new().cpp(true).std("c++20").include(include).warnings(false).file("src/shim.cpp").compile("shim");
}
