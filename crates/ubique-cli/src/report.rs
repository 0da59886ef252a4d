//! A training run as one HTML page that needs nothing else: no script, no network, light and dark.

mod chart;
mod confusion;
mod page;

use serde::{Deserialize, Serialize};

pub use confusion::Confusion;
pub use page::html;

use crate::image::GrayImage;

/// What a run did, as plain data. [`html`] makes a page of it; serialised, it is the run's summary as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// The device that did the work.
    pub device: String,
    /// Time that training took, in seconds.
    pub seconds: f64,
    /// How many parameters were trained.
    pub parameters: u64,
    /// Images trained on per second.
    pub images_per_second: f64,
    /// Anything else worth a line: optimiser, batch size, seed.
    pub facts: Vec<Fact>,
    /// One entry an epoch, in order.
    pub epochs: Vec<Epoch>,
    /// Predictions on the validation set, by class.
    pub confusion: Confusion,
    /// Some predicted images. Their classes are indices into the confusion matrix's.
    pub samples: Vec<Sample>,
}

/// A named value for people.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// How much or which, with its unit.
    pub value: String,
}

/// Losses (mean per image) and accuracies (0 to 1) after one epoch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Epoch {
    /// Mean loss over the training images.
    pub train_loss: f64,
    /// Share of training images predicted right.
    pub train_accuracy: f64,
    /// Mean loss over the validation images.
    pub validation_loss: f64,
    /// Share of validation images predicted right.
    pub validation_accuracy: f64,
}

/// One image and what the model made of it.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The image as the model saw it; only the page shows it.
    #[serde(skip)]
    pub image: GrayImage,
    /// The class that the model found most likely.
    pub predicted: usize,
    /// The class it really has, where that is known.
    pub truth: Option<usize>,
    /// The probability that the model gave its prediction, 0 to 1.
    pub confidence: f64,
}
