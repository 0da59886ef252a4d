//! `ubique train`: trains the network on Fashion-MNIST, keeps checkpoints, and writes a report.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use ubique::op::cross_entropy::CrossEntropy;
use ubique::{DType, Device, HostTensor, Tensor};
use ubique_nn::data::{Loader, Options, TensorDataset};
use ubique_nn::{Adam, Checkpoint, Forward, Module, Optimizer, Schedule, atomic_file, no_grad};

use super::OnDevice;
use crate::data::fashion::{CLASS_NAMES, Dataset, SIDE, Split};
use crate::image::GrayImage;
use crate::model::{CLASSES, Cnn};
use crate::output::{Outcome, Output};
use crate::report::{self, Confusion, Epoch, Fact, Report, Sample};
use crate::signal::Interrupt;

/// Train a small convolutional network on Fashion-MNIST.
#[derive(Args, Debug)]
pub struct Train {
    #[command(flatten)]
    on: OnDevice,
    /// How many times to go through the training images, in all.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Images in a step.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Adam's learning rate at the start; it falls to 0 along a cosine.
    #[arg(long, default_value_t = 3e-3, value_parser = rate)]
    learning_rate: f64,
    /// The seed of the first weights and of the images' order.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A directory with the full IDX files, gzipped or not [default: 5,000 + 1,000 images inside the program].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to write model.safetensors, checkpoint.safetensors and report.html.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Go on from checkpoint.safetensors.
    #[arg(long)]
    resume: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate >= 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("not a number from 0 on".to_owned()),
    }
}

#[derive(Serialize)]
struct Trained {
    test_accuracy: f64,
    seconds: f64,
    epochs: usize,
    interrupted: bool,
    device: String,
    parameters: usize,
    images_per_second: f64,
    model: PathBuf,
    report: PathBuf,
}

/// Images and labels on the host, and how many there are.
struct Data {
    train: Loader<TensorDataset>,
    train_count: usize,
    test: Loader<TensorDataset>,
    test_images: Dataset,
}

impl Data {
    fn load(dir: Option<&Path>, batch: usize, seed: u64) -> Result<Data> {
        let train = Dataset::load(dir, Split::Train)?;
        let test_images = Dataset::load(dir, Split::Test)?;
        let shuffled = Options { batch_size: batch, shuffle: Some(seed), workers: 1, ..Options::default() };
        let ordered = Options { batch_size: 250, ..Options::default() };
        let train_count = train.count;
        let loader = |set: &Dataset, options| Loader::new(tensors(set)?, options);
        Ok(Data { train: loader(&train, shuffled)?, train_count, test: loader(&test_images, ordered)?, test_images })
    }
}

fn tensors(set: &Dataset) -> ubique::Result<TensorDataset> {
    let images = HostTensor::from_vec(set.images.clone(), [set.count, 1, SIDE, SIDE])?;
    let labels = set.labels.iter().map(|&label| label as i64).collect();
    TensorDataset::new(vec![images, HostTensor::from_vec(labels, [set.count])?])
}

/// A batch on the device: images in [0, 1], and labels.
fn upload(batch: Vec<HostTensor>, device: &Device) -> ubique::Result<(Tensor, Tensor)> {
    let mut parts = batch.into_iter();
    let mut next = || parts.next().ok_or_else(|| ubique::Error::value("a batch needs images and labels"));
    let images = Tensor::from_host(next()?, device)?.cast(DType::F32)?;
    Ok(((images * (1.0 / 255.0)).tensor()?, Tensor::from_host(next()?, device)?))
}

/// A training run under way.
struct Run<'a> {
    args: &'a Train,
    device: Device,
    model: Cnn,
    optimizer: Optimizer,
    data: Data,
    history: Vec<Epoch>,
    /// Of the epochs so far.
    seconds: f64,
}

impl Train {
    /// Trains, and writes what came of it.
    pub fn run(self, output: &mut Output) -> Result<Outcome> {
        let device = self.on.open()?.autodiff();
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make the directory {}", self.out.display()))?;
        let interrupt = Interrupt::install()?;
        device.seed(self.seed);
        let model = Cnn::new(&device)?;
        let optimizer = Optimizer::new(&model, self.learning_rate, Adam::default())?;
        let data = Data::load(self.data.as_deref(), self.batch as usize, self.seed)?;
        let mut run = Run { args: &self, device, model, optimizer, data, history: Vec::new(), seconds: 0.0 };
        if self.resume {
            run.restore()?;
        }
        let interrupted = run.epochs(&interrupt)?;
        let trained = run.finish(interrupted)?;
        output.result(&trained, || {
            format!(
                "test accuracy {:.2} % after {} epochs in {:.1} s; wrote {} and {}",
                100.0 * trained.test_accuracy,
                trained.epochs,
                trained.seconds,
                trained.model.display(),
                trained.report.display()
            )
        })?;
        Ok(if interrupted { Outcome::Interrupted } else { Outcome::Done })
    }

    fn model_path(&self) -> PathBuf {
        self.out.join("model.safetensors")
    }

    fn checkpoint_path(&self) -> PathBuf {
        self.out.join("checkpoint.safetensors")
    }
}

impl Run<'_> {
    /// Trains the epochs that are left; whether the user stopped it.
    fn epochs(&mut self, interrupt: &Interrupt) -> Result<bool> {
        for number in self.history.len()..self.args.epochs as usize {
            let start = Instant::now();
            let Some((train_loss, train_accuracy)) = self.epoch(number, interrupt)? else { return Ok(true) };
            let (validation_loss, validation_accuracy) = self.validate(|_, _, _| Ok(()))?;
            self.history.push(Epoch { train_loss, train_accuracy, validation_loss, validation_accuracy });
            self.seconds += start.elapsed().as_secs_f64();
            self.save()?;
            eprintln!(
                "epoch {}/{}: loss {train_loss:.4}, accuracy {:.2} %; validation loss {validation_loss:.4}, accuracy {:.2} %",
                number + 1,
                self.args.epochs,
                100.0 * train_accuracy,
                100.0 * validation_accuracy
            );
        }
        Ok(false)
    }

    /// One epoch of training: mean loss and accuracy, or `None` where the user stopped it.
    fn epoch(&mut self, number: usize, interrupt: &Interrupt) -> Result<Option<(f64, f64)>> {
        let bar = progress(self.data.train_count as u64, number, self.args.epochs);
        let (mut loss_sum, mut hits, mut seen) = (0.0, 0, 0);
        let steps = self.data.train_count.div_ceil(self.args.batch as usize);
        let schedule = Schedule::cosine(self.args.learning_rate, 0.0, self.args.epochs as u64 * steps as u64);
        for (step, batch) in self.data.train.epoch(number as u64).enumerate() {
            if interrupt.requested() {
                bar.finish_and_clear();
                return Ok(None);
            }
            let (images, labels) = upload(batch?, &self.device)?;
            let logits = self.model.forward(&images)?;
            let loss = logits.cross_entropy(&labels, None, CrossEntropy::default())?;
            let mut gradients = loss.backward()?;
            let (value, logits) = (loss.item::<f32>()? as f64, logits.detach());
            // The graph holds the parameters; without it the optimiser works in place.
            drop(loss);
            self.optimizer.set_learning_rate(schedule.at((number * steps + step) as u64))?;
            self.optimizer.step(&mut gradients)?;
            ensure!(value.is_finite(), "the loss became {value}; a smaller --learning-rate may help");
            let count = labels.elements();
            loss_sum += value * count as f64;
            hits += correct(&logits, &labels)?;
            seen += count;
            bar.inc(count as u64);
            bar.set_message(format!(
                "loss {:.4}, accuracy {:.2} %",
                loss_sum / seen as f64,
                100.0 * hits as f64 / seen as f64
            ));
        }
        bar.finish_and_clear();
        Ok(Some((loss_sum / seen as f64, hits as f64 / seen as f64)))
    }

    /// Mean loss and accuracy on the test images; `visit` sees each image's number, label and probabilities.
    fn validate(&self, mut visit: impl FnMut(usize, usize, &[f32]) -> Result<()>) -> Result<(f64, f64)> {
        self.model.eval()?;
        let (mut loss_sum, mut hits, mut seen) = (0.0, 0, 0);
        for batch in self.data.test.epoch(0) {
            let (images, labels) = upload(batch?, &self.device)?;
            let logits = no_grad(&self.model, || self.model.forward(&images))?;
            let loss = logits.cross_entropy(&labels, None, CrossEntropy::default())?.item::<f32>()?;
            let probabilities = logits.softmax(-1)?.to_vec::<f32>()?;
            for (i, (row, &label)) in probabilities.chunks(CLASSES).zip(&labels.to_vec::<i64>()?).enumerate() {
                visit(seen + i, label as usize, row)?;
            }
            loss_sum += loss as f64 * labels.elements() as f64;
            hits += correct(&logits, &labels)?;
            seen += labels.elements();
        }
        self.model.train()?;
        Ok((loss_sum / seen as f64, hits as f64 / seen as f64))
    }

    /// Writes the model, and all that `--resume` needs in one file, so that both parts always belong together.
    fn save(&self) -> Result<()> {
        let mut state = Checkpoint::default();
        state.metadata.insert("history".to_owned(), serde_json::to_string(&self.history)?);
        state.metadata.insert("seconds".to_owned(), self.seconds.to_string());
        let model = Checkpoint::new(self.model.state_dict()?);
        let state = state.with("model.", model.clone()).with("optimizer.", self.optimizer.checkpoint());
        state.save(self.args.checkpoint_path())?;
        Ok(model.save(self.args.model_path())?)
    }

    fn restore(&mut self) -> Result<()> {
        let path = self.args.checkpoint_path();
        let state = Checkpoint::load(&path, &self.device)?;
        let damaged = || format!("{} is not a checkpoint of this command", path.display());
        let said = |key: &str| state.metadata.get(key).with_context(damaged);
        self.history = serde_json::from_str(said("history")?).with_context(damaged)?;
        self.seconds = said("seconds")?.parse().with_context(damaged)?;
        self.model.load_state_dict(&state.part("model.").tensors, true).with_context(damaged)?;
        self.optimizer.restore(&state.part("optimizer.")).with_context(damaged)?;
        eprintln!("going on after epoch {}", self.history.len());
        Ok(())
    }

    /// The report, and what there is to say.
    fn finish(self, interrupted: bool) -> Result<Trained> {
        let mut confusion = Confusion::new(CLASS_NAMES);
        let mut samples = Vec::new();
        let images = &self.data.test_images;
        let (_, accuracy) = self.validate(|number, label, probabilities| {
            let best = (0..CLASSES).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b])).unwrap_or(0);
            confusion.record(label, best)?;
            if samples.len() < 60 {
                let pixels = images.image(number).context("a test image is missing")?.to_vec();
                let image = GrayImage::new(SIDE as u32, SIDE as u32, pixels)?;
                samples.push(Sample {
                    image,
                    predicted: best,
                    truth: Some(label),
                    confidence: probabilities[best] as _,
                });
            }
            Ok(())
        })?;
        let parameters = self.model.parameter_count()?;
        let seen = self.history.len() * self.data.train_count;
        let images_per_second = if self.seconds > 0.0 { seen as f64 / self.seconds } else { 0.0 };
        let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
        let report = Report {
            title: "Fashion-MNIST".to_owned(),
            device: format!("{} ({})", self.device.name(), self.device.info().name),
            seconds: self.seconds,
            parameters: parameters as u64,
            images_per_second,
            facts: vec![
                fact("Training images", self.data.train_count.to_string()),
                fact("Batch", self.args.batch.to_string()),
                fact("Learning rate", self.args.learning_rate.to_string()),
                fact("Seed", self.args.seed.to_string()),
            ],
            epochs: self.history.clone(),
            confusion,
            samples,
        };
        let path = self.args.out.join("report.html");
        atomic_file::write(&path, |out| out.write_all(report::html(&report).as_bytes()))?;
        Ok(Trained {
            test_accuracy: accuracy,
            seconds: self.seconds,
            epochs: self.history.len(),
            interrupted,
            device: self.device.name().to_owned(),
            parameters,
            images_per_second,
            model: self.args.model_path(),
            report: path,
        })
    }
}

/// How many images got their label.
fn correct(logits: &Tensor, labels: &Tensor) -> ubique::Result<usize> {
    let hits = logits.argmax(-1, false)?.eq(labels)?;
    Ok(hits.cast(DType::I64)?.sum_all()?.item::<i64>()? as usize)
}

/// A progress bar on standard error; nothing where that is no terminal.
fn progress(images: u64, epoch: usize, epochs: u32) -> ProgressBar {
    let template = "{prefix} {bar:30} {pos}/{len} images, {per_sec}, {eta} left, {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(images).with_style(style).with_prefix(format!("epoch {}/{epochs}", epoch + 1))
}
