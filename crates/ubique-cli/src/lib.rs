//! What the `ubique` command is made of: data sets, images, reports, and how it speaks to people and programs.

pub mod atomic_file;
pub mod data;
pub mod image;
pub mod output;
pub mod report;
pub mod signal;
