//! What the `ubique` command is made of: data sets, images, reports, and how it speaks to people and programs.

pub mod data;
pub mod image;
pub mod output;
pub mod report;
pub mod signal;

pub use ubique_nn::atomic_file;
