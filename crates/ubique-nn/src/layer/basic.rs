//! Layers without parameters, and layers one after the other.

use std::fmt;

use ubique_core::{Result, Tensor};

use crate::module::{Forward, Module, Visitor};
use crate::param::Mode;

/// Sets random elements to 0 in training and scales the others up by `1 / (1 - probability)`; in inference does nothing.
#[derive(Debug)]
pub struct Dropout {
    /// The probability of each element to become 0, in [0, 1].
    pub probability: f64,
    mode: Mode,
}

impl Dropout {
    /// Dropout with a probability in [0, 1]; [`Forward::forward`] refuses others.
    pub fn new(probability: f64) -> Dropout {
        Dropout { probability, mode: Mode::default() }
    }
}

impl Module for Dropout {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("training", &self.mode)
    }
}

impl Forward for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.mode.is_training() { x.dropout(self.probability) } else { Ok(x.clone()) }
    }
}

/// A function as a layer; [`Sequential::apply`] makes it.
pub struct Function<F>(pub F);

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", std::any::type_name::<F>())
    }
}

impl<F: Send + Sync> Module for Function<F> {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync> Forward for Function<F> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.0)(x)
    }
}

/// Joins all axes from `start` on (1 keeps the batch axis).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flatten {
    /// The first axis to be joined.
    pub start: isize,
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten { start: 1 }
    }
}

impl Module for Flatten {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl Forward for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start, -1)
    }
}

/// Layers one after the other, called `"0"`, `"1"`, … as they were added (functions count too).
///
/// ```
/// # use ubique_core::{DType, Device, Tensor};
/// # use ubique_nn::{Flatten, Forward, Linear, Sequential};
/// # use ubique_flex as _;
/// let device = Device::new("flex")?.autodiff();
/// let model = Sequential::new()
///     .add(Flatten::default())
///     .add(Linear::new(6, 4, &device)?)
///     .apply(Tensor::relu)
///     .apply(|x| x.softmax(-1));
/// let y = model.forward(&Tensor::ones([5, 2, 3], DType::F32, &device)?)?;
/// assert_eq!(*y.shape(), [5, 4]);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Forward>>);

impl Sequential {
    /// No layers: gives what it gets.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Adds a layer.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "adding to a list is no sum")]
    pub fn add(mut self, layer: impl Forward + 'static) -> Sequential {
        self.0.push(Box::new(layer));
        self
    }

    /// Adds a function.
    #[must_use]
    pub fn apply(self, f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Sequential {
        self.add(Function(f))
    }

    /// The layers.
    pub fn layers(&self) -> &[Box<dyn Forward>] {
        &self.0
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequential({} layers)", self.0.len())
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.0.visit(visitor)
    }
}

impl Forward for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (first, rest) = match self.0.split_first() {
            Some((first, rest)) => (first.forward(x)?, rest),
            None => return Ok(x.clone()),
        };
        rest.iter().try_fold(first, |x, layer| layer.forward(&x))
    }
}
