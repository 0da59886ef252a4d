//! IDX files of images and labels, gzipped or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ubique_cli::data::idx::{read_images, read_labels};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_images("images", bytes);
    let _ = read_labels("labels", bytes, 10);
});
