//! The network that `ubique train` trains: two convolutions and two fully connected layers.

use ubique::{Device, Result, Tensor};
use ubique_nn::{Conv2d, ConvConfig, Forward, Linear, Module, Visitor};

use crate::data::fashion::SIDE;

/// How many classes there are.
pub const CLASSES: usize = 10;

/// From images `[batch, 1, 28, 28]` with values in [0, 1] to logits `[batch, 10]`.
#[derive(Debug)]
pub struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    hidden: Linear,
    output: Linear,
}

impl Cnn {
    /// A network with random weights from the device's random stream.
    ///
    /// # Errors
    /// Where memory cannot be had.
    pub fn new(device: &Device) -> Result<Cnn> {
        let same = ConvConfig { padding: [1, 1], ..Default::default() };
        let side = SIDE / 4;
        Ok(Cnn {
            conv1: Conv2d::new(1, 16, [3, 3], same, device)?,
            conv2: Conv2d::new(16, 32, [3, 3], same, device)?,
            hidden: Linear::new(32 * side * side, 128, device)?,
            output: Linear::new(128, CLASSES, device)?,
        })
    }
}

impl Module for Cnn {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("conv1", &self.conv1)?;
        visitor.part("conv2", &self.conv2)?;
        visitor.part("hidden", &self.hidden)?;
        visitor.part("output", &self.output)
    }
}

impl Forward for Cnn {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let halved = |x: Tensor| x.relu()?.max_pool([2, 2], &Default::default());
        let x = halved(self.conv1.forward(images)?)?;
        let x = halved(self.conv2.forward(&x)?)?.flatten(1, -1)?;
        self.output.forward(&self.hidden.forward(&x)?.relu()?)
    }
}
