//! The library that lies beside the test, loaded as a program loads it.

use std::sync::LazyLock;

use ubique_core::Device;
use ubique_libtorch as _;
use ubique_plugin as _;

/// Makes the library a plugin. Every test begins with it.
pub fn load() {
    static LOADED: LazyLock<()> = LazyLock::new(|| {
        let program = std::env::current_exe().expect("a program has a path");
        let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let library = program.with_file_name(format!("{prefix}ubique_libtorch{suffix}"));
        // SAFETY: the other tests wait here, and nothing has asked for the environment yet.
        unsafe { std::env::set_var("UBIQUE_PLUGIN_PATH", library) };
        ubique_core::backend::registry::backends();
    });
    *LOADED
}

pub fn device() -> Device {
    load();
    Device::new("libtorch").expect("LibTorch has a CPU everywhere")
}
