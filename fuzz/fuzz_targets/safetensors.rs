//! Checkpoints that are damaged, cut short or hostile.
#![no_main]

use std::io::Write;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ubique_core::Device;
use ubique_flex as _;
use ubique_nn::Checkpoint;

static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::new("flex").expect("flex opens on every machine"));

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("ubique-fuzz-{}.safetensors", std::process::id()));
    std::fs::File::create(&path)
        .and_then(|mut file| file.write_all(bytes))
        .expect("the temporary directory is writable");
    let _ = Checkpoint::load(&path, &DEVICE);
});
