//! How long one training step of a tiny network takes, and which part of it what.

use std::time::Instant;

use ubique_core::{DType, Device, Result, Tensor};
use ubique_flex as _;
use ubique_nn::loss::CrossEntropy;
use ubique_nn::{Adam, Forward, Linear, Optimizer, Sequential};

const STEPS: u32 = 5000;

fn main() -> Result<()> {
    let device = Device::auto()?.autodiff();
    let model =
        Sequential::new().add(Linear::new(8, 16, &device)?).apply(Tensor::relu).add(Linear::new(16, 4, &device)?);
    let mut optimizer = Optimizer::new(&model, 1e-3, Adam::default())?;
    let x = Tensor::normal([16, 8], 0.0, 1.0, DType::F32, &device)?;
    let y = Tensor::randint([16], 0, 4, DType::I64, &device)?;
    for round in 0..3 {
        let mut parts = [std::time::Duration::ZERO; 3];
        for _ in 0..STEPS {
            let start = Instant::now();
            let loss = model.forward(&x)?.cross_entropy(&y, None, CrossEntropy::default())?;
            let forward = Instant::now();
            let mut gradients = loss.backward()?;
            drop(loss);
            let backward = Instant::now();
            optimizer.step(&mut gradients)?;
            parts[0] += forward - start;
            parts[1] += backward - forward;
            parts[2] += backward.elapsed();
        }
        let [forward, backward, step] = parts.map(|part| part / STEPS);
        println!("round {round}: forward {forward:?}, backward {backward:?}, optimiser {step:?}");
    }
    Ok(())
}
