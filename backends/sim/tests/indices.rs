//! Methods that make indices of their own run where there are no 64-bit types, and give what the CPU gives.

use ubique_core::op::conv::ConvOptions;
use ubique_core::op::cross_entropy::LossReduction;
use ubique_core::op::ctc_loss::CtcLoss;
use ubique_core::op::grid_sample::{GridSample, Outside};
use ubique_core::op::index::Combine;
use ubique_core::op::pad::PadMode;
use ubique_core::op::resize::Resize;
use ubique_core::{DType, Device, Dispatch, Result, Tensor};
use ubique_flex as _;
use ubique_sim::{Profile, Sim};

/// A method under test, of a tensor `[2, 3, 4]` of 0, 1, 2, ..
type Method = fn(&Tensor) -> Result<Tensor>;

const METHODS: &[(&str, Method)] = &[
    ("gather_nd", |x| x.gather_nd(&Tensor::from_slice(&[1i32, 2, 0, 1], [2, 2], x.device())?)),
    ("scatter_nd", |x| {
        let index = Tensor::from_slice(&[1i32, 0], [2, 1], x.device())?;
        x.scatter_nd(&index, &x.flip(&[0])?, Combine::Add)
    }),
    ("masked_select", |x| x.masked_select(&x.gt(7.5)?)),
    ("bincount", |x| {
        let x = x.flatten(0, -1)?;
        (&x * 0.25).tensor()?.cast(DType::I32)?.bincount(Some(&x), 9)
    }),
    ("histogram", |x| Ok(x.histogram(5, 1.0, 20.0, Some(x), true)?.0)),
    ("interpolate", |x| x.interpolate([7], Resize::Cubic, false)),
    ("interpolate nearest", |x| x.interpolate([7], Resize::Nearest, false)),
    ("adaptive_max_pool", |x| x.adaptive_max_pool([3])),
    ("adaptive_avg_pool", |x| x.adaptive_avg_pool([3])),
    ("im2col", |x| x.im2col([2], &ConvOptions::new())),
    ("col2im", |x| x.narrow(1, 0, 2)?.col2im([5], [2], &ConvOptions::new())),
    ("pad", |x| x.pad(&[(0, 0), (1, 1), (2, 1)], PadMode::Reflect)),
    ("grid_sample", |x| {
        let grid = (x.reshape([2, 3, 2, 2])? / 12.0 - 1.0).tensor()?;
        let options = GridSample { outside: Outside::Reflection, ..GridSample::default() };
        x.unsqueeze(1)?.grid_sample(&grid, options)
    }),
    ("deform_conv2d", |x| {
        let image = x.unsqueeze(0)?;
        let (weight, offset) =
            (image.narrow(2, 0, 2)?.narrow(3, 0, 2)?, Tensor::full([1, 8, 2, 3], 0.25, DType::F32, x.device())?);
        image.deform_conv2d(&offset, &weight, None, None, &ConvOptions::new())
    }),
    ("ctc_loss", |x| {
        let lengths = |values: &[i32]| Tensor::from_slice(values, [values.len()], x.device());
        let (targets, inputs, labels) = (lengths(&[1, 2, 3, 1])?, lengths(&[2, 2, 2])?, lengths(&[1, 2, 1])?);
        x.log_softmax(-1)?.ctc_loss(&targets, &inputs, &labels, LossReduction::Mean, CtcLoss::default())
    }),
];

#[test]
fn methods_need_no_64_bit_types() {
    Dispatch::register(Box::new(Sim::new("sim_indices", 201, Profile::default()))).unwrap();
    let (sim, cpu) = (Device::new("sim_indices").unwrap(), Device::new("flex").unwrap());
    assert!(!sim.supports_dtype(DType::I64) && !sim.supports_dtype(DType::F64));
    // The result, and the gradient of its sum.
    let run = |method: Method, device: &Device| -> Result<[Vec<f32>; 2]> {
        let x = Tensor::arange(0, 24, 1, DType::I32, &device.autodiff())?.cast(DType::F32)?.reshape([2, 3, 4])?;
        let x = x.require_grad()?;
        let result = method(&x)?;
        let gradients = result.sum_all()?.backward()?;
        Ok([result.detach().to_vec()?, gradients.get(&x)?.to_vec()?])
    };
    for (name, method) in METHODS {
        let [found, expected] =
            [&sim, &cpu].map(|device| run(*method, device).unwrap_or_else(|e| panic!("{name}: {e}")));
        for (found, expected) in found.iter().zip(&expected) {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(
                found.len() == expected.len() && found.iter().zip(expected).all(close),
                "{name}: {found:?} {expected:?}"
            );
        }
    }
}
