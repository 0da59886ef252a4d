//! A small network learns: two interleaved spirals, loaded in batches, with a schedule, clipping and a resume from disk.

use ubique_core::{DType, Device, HostTensor, Tensor};
use ubique_nn::data::{Loader, Options, TensorDataset};
use ubique_nn::loss::CrossEntropy;
use ubique_nn::{Adam, Checkpoint, Forward, Linear, Module, Optimizer, Schedule, Sequential, no_grad};

use crate::device;

fn spirals(count: usize) -> TensorDataset {
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for i in 0..count {
        let (class, t) = ((i % 2) as i64, 0.4 + 2.4 * (i / 2) as f32 / (count / 2) as f32);
        let angle = t * 2.2 + class as f32 * std::f32::consts::PI;
        points.extend([t * angle.cos(), t * angle.sin()]);
        labels.push(class);
    }
    let points = HostTensor::from_vec(points, [count, 2]).unwrap();
    TensorDataset::new(vec![points, HostTensor::from_vec(labels, [count]).unwrap()]).unwrap()
}

fn model(device: &Device) -> Sequential {
    Sequential::new()
        .add(Linear::new(2, 24, device).unwrap())
        .apply(Tensor::tanh)
        .add(Linear::new(24, 24, device).unwrap())
        .apply(Tensor::tanh)
        .add(Linear::new(24, 2, device).unwrap())
}

fn batch(hosts: Vec<HostTensor>) -> [Tensor; 2] {
    hosts.into_iter().map(|host| Tensor::from_host(host, &device()).unwrap()).collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn spirals_are_learnt_across_a_resume() {
    let device = device();
    let options = Options { batch_size: 50, shuffle: Some(3), workers: 2, ..Options::default() };
    let loader = Loader::new(spirals(200), options).unwrap();
    let (epochs, file) = (120, tempfile::NamedTempFile::new().unwrap());
    let schedule = Schedule::cosine(0.02, 0.001, epochs * 4).warm_up(10);
    let (mut network, mut step) = (model(&device), 0);
    let mut optimizer = Optimizer::new(&network, 0.0, Adam::decoupled(1e-4)).unwrap();
    for epoch in 0..epochs {
        if epoch == epochs / 2 {
            let whole = Checkpoint::default()
                .with("model.", Checkpoint::new(network.state_dict().unwrap()))
                .with("optimizer.", optimizer.checkpoint());
            whole.save(file.path()).unwrap();
            let whole = Checkpoint::load(file.path(), &device).unwrap();
            network = model(&device);
            network.load_state_dict(&whole.part("model.").tensors, true).unwrap();
            optimizer = Optimizer::new(&network, 0.0, Adam::decoupled(1e-4)).unwrap();
            optimizer.restore(&whole.part("optimizer.")).unwrap();
        }
        for hosts in loader.epoch(epoch) {
            let [x, y] = batch(hosts.unwrap());
            let loss = network.forward(&x).unwrap().cross_entropy(&y, None, CrossEntropy::default()).unwrap();
            let mut gradients = loss.backward().unwrap();
            optimizer.clip_norm(&mut gradients, 5.0).unwrap();
            optimizer.set_learning_rate(schedule.at(step)).unwrap();
            optimizer.step(&mut gradients).unwrap();
            step += 1;
        }
    }
    let whole = Loader::new(spirals(200), Options { batch_size: 200, ..Options::default() }).unwrap();
    let [x, y] = batch(whole.epoch(0).next().unwrap().unwrap());
    network.eval().unwrap();
    let logits = no_grad(&network, || network.forward(&x)).unwrap();
    let loss = logits.cross_entropy(&y, None, CrossEntropy::default()).unwrap().item::<f32>().unwrap();
    let right = logits.argmax(1, false).unwrap().eq(&y).unwrap().cast(DType::F32).unwrap().mean_all().unwrap();
    assert!(loss < 0.05, "{loss}");
    assert!(right.item::<f32>().unwrap() > 0.99);
}
