//! What the `ubique` command is made of: its commands, data sets, images, reports, and how it speaks to people and programs.

pub mod commands;
pub mod data;
pub mod image;
pub mod model;
pub mod output;
pub mod report;
pub mod signal;
