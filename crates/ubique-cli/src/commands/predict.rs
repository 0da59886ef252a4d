//! `ubique predict`: PNG images in, class and probabilities out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use ubique::{Device, Tensor};
use ubique_nn::{Checkpoint, Forward, Module, no_grad};

use super::OnDevice;
use crate::data::fashion::{CLASS_NAMES, SIDE};
use crate::image::{Polarity, read_png};
use crate::model::{CLASSES, Cnn};
use crate::output::{Outcome, Output};

/// Classify PNG images.
#[derive(Args, Debug)]
pub struct Predict {
    /// The trained network.
    #[arg(long, default_value = "model.safetensors")]
    model: PathBuf,
    /// The images are dark on light, as photographs of clothes on a white ground are.
    #[arg(long)]
    invert: bool,
    #[command(flatten)]
    on: OnDevice,
    /// PNG files of any size; they are fitted to 28 x 28 gray pixels.
    #[arg(required = true)]
    images: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Prediction<'a> {
    image: &'a Path,
    class: usize,
    name: &'static str,
    probability: f32,
    probabilities: Vec<f32>,
}

/// A network with the weights of a file.
pub fn load(path: &Path, device: &Device) -> Result<Cnn> {
    let model = Cnn::new(device)?;
    let checkpoint = Checkpoint::load(path, device)?;
    let fits = model.load_state_dict(&checkpoint.tensors, true);
    fits.with_context(|| format!("{} does not hold the weights of this network", path.display()))?;
    Ok(model)
}

impl Predict {
    /// Classifies each image.
    pub fn run(self, output: &mut Output) -> Result<Outcome> {
        let device = self.on.open()?;
        let model = load(&self.model, &device)?;
        model.eval()?;
        let polarity = if self.invert { Polarity::DarkOnLight } else { Polarity::LightOnDark };
        for path in &self.images {
            let image = read_png(path, polarity)?.fit_square(SIDE as u32)?;
            let pixels: Vec<f32> = image.pixels().iter().map(|&p| p as f32 / 255.0).collect();
            let x = Tensor::from_vec(pixels, [1, 1, SIDE, SIDE], &device)?;
            let logits = no_grad(&model, || model.forward(&x))?;
            let prediction = best(path, logits.softmax(-1)?.to_vec::<f32>()?);
            output.result(&prediction, || text(&prediction))?;
        }
        Ok(Outcome::Done)
    }
}

fn best(image: &Path, probabilities: Vec<f32>) -> Prediction<'_> {
    let class = (0..CLASSES).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b])).unwrap_or(0);
    Prediction { image, class, name: CLASS_NAMES[class], probability: probabilities[class], probabilities }
}

fn text(p: &Prediction<'_>) -> String {
    let mut order: Vec<usize> = (0..p.probabilities.len()).collect();
    order.sort_by(|&a, &b| p.probabilities[b].total_cmp(&p.probabilities[a]));
    let others = order[1..3].iter().map(|&c| format!("{} {:.1} %", CLASS_NAMES[c], 100.0 * p.probabilities[c]));
    let others = others.collect::<Vec<_>>().join(", ");
    format!("{}: {} {:.1} % ({others})", p.image.display(), p.name, 100.0 * p.probability)
}
