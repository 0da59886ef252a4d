//! Optimisers: one engine that keeps parameters and their state, and small algorithms that say what a step is.

mod adam;
mod rmsprop;
mod sgd;

pub use adam::Adam;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use std::fmt;

use ubique_core::{Error, Gradients, Result, Tensor};

use crate::checkpoint::Checkpoint;
use crate::module::Module;
use crate::param::Param;

/// What an algorithm keeps for one parameter.
#[derive(Debug, Default)]
pub struct State {
    /// Which step is being done, from 1 on.
    pub step: u64,
    /// Tensors of the parameter's shape and dtype, in the order of [`Algorithm::state`]; none before the first step.
    pub tensors: Vec<Tensor>,
}

/// What one step is.
pub trait Algorithm: fmt::Debug + Send + Sync {
    /// The name under which checkpoints keep it.
    fn name(&self) -> &'static str;

    /// Names of the tensors in [`State::tensors`], which checkpoints keep.
    fn state(&self) -> &'static [&'static str];

    /// Refuses constants that make no sense.
    ///
    /// # Errors
    /// Where one does not.
    fn check(&self) -> Result<()>;

    /// The parameter's new value. It and the state are given away, so that the device can work in place; afterwards
    /// `state.tensors` must hold as many tensors as there are names.
    ///
    /// # Errors
    /// Where the device fails. Parameter and state are lost then.
    fn update(&self, value: Tensor, gradient: Tensor, state: &mut State, learning_rate: f64) -> Result<Tensor>;
}

/// Brings a model's parameters down the slope, step by step.
///
/// ```
/// # use ubique_core::{Device, Tensor};
/// # use ubique_nn::{Optimizer, Param, Sgd};
/// # use ubique_flex as _;
/// let device = Device::new("flex")?.autodiff();
/// let x = Param::new(Tensor::scalar(3f64, &device)?)?;
/// let mut optimizer = Optimizer::new(&x, 0.25, Sgd::default())?;
/// let mut gradients = x.value()?.square()?.backward()?;
/// optimizer.step(&mut gradients)?;
/// assert_eq!(x.value()?.item::<f64>()?, 3.0 - 0.25 * 6.0);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Optimizer {
    algorithm: Box<dyn Algorithm>,
    learning_rate: f64,
    skip_missing: bool,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    name: String,
    param: Param,
    state: State,
}

fn check_rate(learning_rate: f64) -> Result<()> {
    if learning_rate.is_finite() && learning_rate >= 0.0 {
        return Ok(());
    }
    Err(Error::value(format!("a learning rate is a number from 0 on, not {learning_rate}")))
}

impl Optimizer {
    /// An optimiser of all parameters of a module.
    ///
    /// # Errors
    /// Where the learning rate or a constant of the algorithm makes no sense.
    pub fn new(
        module: &(impl Module + ?Sized),
        learning_rate: f64,
        algorithm: impl Algorithm + 'static,
    ) -> Result<Optimizer> {
        Optimizer::of(module.named_parameters()?, learning_rate, Box::new(algorithm))
    }

    /// An optimiser of some named parameters, with an algorithm chosen at run time. Several optimisers with their own
    /// constants can share a model.
    ///
    /// # Errors
    /// As [`Optimizer::new`], and where a name or a parameter comes twice.
    pub fn of(
        parameters: Vec<(String, Param)>,
        learning_rate: f64,
        algorithm: Box<dyn Algorithm>,
    ) -> Result<Optimizer> {
        check_rate(learning_rate)?;
        algorithm.check()?;
        for (i, (name, param)) in parameters.iter().enumerate() {
            if let Some((other, _)) = parameters[..i].iter().find(|(other, p)| other == name || p.same(param)) {
                return Err(Error::value(format!("{other} and {name} are one parameter or have one name")));
            }
        }
        let slot = |(name, param)| Slot { name, param, state: State::default() };
        let slots = parameters.into_iter().map(slot).collect();
        Ok(Optimizer { algorithm, learning_rate, skip_missing: false, slots })
    }

    /// Whether a parameter that no gradient reached is left as it is; otherwise (as at first) it is an error.
    #[must_use]
    pub fn skip_missing(self, skip_missing: bool) -> Optimizer {
        Optimizer { skip_missing, ..self }
    }

    /// The learning rate of the next step.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    /// Changes the learning rate, as a [`crate::Schedule`] says.
    ///
    /// # Errors
    /// Where it is negative or not finite.
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        check_rate(learning_rate)?;
        self.learning_rate = learning_rate;
        Ok(())
    }

    /// The parameters that take part: those that are not frozen.
    pub(crate) fn active(&self) -> impl Iterator<Item = (&str, &Param)> {
        self.slots.iter().filter(|slot| !slot.param.is_frozen()).map(|slot| (slot.name.as_str(), &slot.param))
    }

    /// One step of every parameter that is not frozen, with its gradient taken out of `gradients`. Where nobody else
    /// holds a parameter's value (as the loss does, through what it was made from), the device works in place.
    ///
    /// # Errors
    /// Where a gradient is missing, which is found before anything changes, or where the device fails; a parameter whose
    /// step fails is lost and says so at its next use.
    pub fn step(&mut self, gradients: &mut Gradients) -> Result<()> {
        if !self.skip_missing {
            for (name, param) in self.active() {
                param.with(|leaf| gradients.get(leaf).map(drop)).map_err(|e| e.context(format!("parameter {name}")))?;
            }
        }
        let (algorithm, rate, skip) = (&self.algorithm, self.learning_rate, self.skip_missing);
        for Slot { name, param, state } in self.slots.iter_mut().filter(|slot| !slot.param.is_frozen()) {
            if skip && param.with(|leaf| Ok(gradients.get(leaf).is_err()))? {
                continue;
            }
            let update = |value: Tensor, gradient: Tensor| {
                state.step += 1;
                for tensor in state.tensors.iter_mut().filter(|tensor| tensor.device() != value.device()) {
                    *tensor = tensor.to_device(value.device())?;
                }
                algorithm.update(value, gradient, state, rate)
            };
            if let Err(error) = param.update(|leaf| gradients.remove(leaf), update) {
                *state = State::default();
                return Err(error.context(format!("the {} step of {name}", algorithm.name())));
            }
        }
        Ok(())
    }

    /// All that a later run needs to go on: the state tensors, called `"{parameter}.{state}"`, and as metadata the
    /// algorithm, the learning rate and the steps.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        let metadata = &mut checkpoint.metadata;
        metadata.insert("algorithm".to_owned(), self.algorithm.name().to_owned());
        metadata.insert("learning_rate".to_owned(), self.learning_rate.to_string());
        for Slot { name, state, .. } in &self.slots {
            metadata.insert(format!("{name}.step"), state.step.to_string());
            for (kind, tensor) in self.algorithm.state().iter().zip(&state.tensors) {
                checkpoint.tensors.insert(format!("{name}.{kind}"), tensor.clone());
            }
        }
        checkpoint
    }

    /// Goes on where another run stopped. Nothing changes unless everything fits.
    ///
    /// # Errors
    /// Where the checkpoint is of another algorithm or of other parameters, or is damaged.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let said = |key: &str| {
            let found = checkpoint.metadata.get(key);
            found.ok_or_else(|| Error::format(format!("the optimiser's checkpoint does not say {key:?}")))
        };
        let algorithm = said("algorithm")?;
        if algorithm != self.algorithm.name() {
            let message = format!("the checkpoint is of {algorithm}, the optimiser is {}", self.algorithm.name());
            return Err(Error::value(message));
        }
        let learning_rate: f64 = parse("learning_rate", said("learning_rate")?)?;
        check_rate(learning_rate)?;
        let (mut states, mut used) = (Vec::new(), 0);
        for Slot { name, param, .. } in &self.slots {
            let key = format!("{name}.step");
            let step: u64 = parse(&key, said(&key)?)?;
            let names = if step == 0 { &[][..] } else { self.algorithm.state() };
            let tensors = names.iter().map(|kind| saved(checkpoint, &format!("{name}.{kind}"), param));
            let tensors = tensors.collect::<Result<Vec<_>>>()?;
            used += tensors.len();
            states.push(State { step, tensors });
        }
        if used != checkpoint.tensors.len() {
            return Err(Error::value("the checkpoint has state of parameters that the optimiser does not have"));
        }
        self.learning_rate = learning_rate;
        self.slots.iter_mut().zip(states).for_each(|(slot, state)| slot.state = state);
        Ok(())
    }
}

fn parse<T: std::str::FromStr>(key: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::format(format!("{key:?} is {text:?} in the optimiser's checkpoint")))
}

/// A saved state tensor, on its parameter's device.
fn saved(checkpoint: &Checkpoint, name: &str, param: &Param) -> Result<Tensor> {
    let missing = || Error::value(format!("the optimiser's checkpoint has no {name}"));
    let tensor = checkpoint.tensors.get(name).ok_or_else(missing)?;
    if tensor.spec() != *param.spec() {
        return Err(Error::shape(format!("{name} is {}, its parameter {}", tensor.spec(), param.spec())));
    }
    tensor.detach().to_device(&param.device())
}

/// Refuses a constant outside `[0, end)`.
fn require_below(name: &str, value: f64, end: f64) -> Result<()> {
    if (0.0..end).contains(&value) {
        return Ok(());
    }
    Err(Error::value(format!("{name} must be from 0 up to below {end}, not {value}")))
}
