//! Activations with a parameter.

use ubique_core::Result;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::op::activation::Activation;

use super::unary::run;
use crate::executor::Context;
use crate::simd::Isa;
use crate::simd::elementwise::{Map1, unary};
use crate::simd::math::expm1;

/// `scale · (e^(x · rate) - 1)` below 0: ELU and CELU.
#[derive(Clone, Copy)]
struct Exponential {
    scale: f32,
    rate: f32,
}

impl Map1<f32, f32> for Exponential {
    #[inline(always)]
    fn apply<S: Isa>(self, x: f32) -> f32 {
        let below = self.scale * expm1::<S>(x * self.rate);
        if x > 0.0 { x } else { below }
    }
}

/// Runs an activation on an operand of any layout.
pub fn activation(context: &Context, op: Activation, x: &View) -> Result<Buffer> {
    let exponential = |scale: f64, rate: f64| {
        let map = Exponential { scale: scale as f32, rate: rate as f32 };
        run::<f32, f32>(context, x, &move |source, target| unary(map, source, target))
    };
    match op {
        Activation::LeakyRelu { slope } => {
            let slope = slope as f32;
            run::<f32, f32>(context, x, &|source, target| {
                unary(|x: f32| if x > 0.0 { x } else { slope * x }, source, target)
            })
        }
        Activation::Elu { alpha } => exponential(alpha, 1.0),
        Activation::Celu { alpha } => exponential(alpha, 1.0 / alpha),
        other => Err(ubique_core::Error::backend(format!("flex has no kernel for {other:?}"))),
    }
}
