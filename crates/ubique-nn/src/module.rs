//! The `Module` trait: whatever has parameters. A module says where its parts are; everything else follows.

use std::collections::BTreeMap;
use std::fmt::Write;

use ubique_core::{Device, Error, Result, Tensor};

use crate::param::{Buffer, Mode, Param};

/// The values of a module's parameters and buffers, by path such as `"encoder.0.weight"`.
pub type StateDict = BTreeMap<String, Tensor>;

/// What a walk over a module ends at.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// A trainable tensor.
    Param(&'a Param),
    /// Other state.
    Buffer(&'a Buffer),
    /// A training switch.
    Mode(&'a Mode),
}

/// A walk over a module's parts.
pub struct Visitor<'a> {
    path: String,
    visit: &'a mut dyn FnMut(&str, Leaf<'_>) -> Result<()>,
}

impl Visitor<'_> {
    /// Walks into a part: a module, a [`Param`], a [`Buffer`], a [`Mode`], or an `Option`, `Vec`, array or box of those.
    ///
    /// # Errors
    /// What the walk ends with.
    pub fn part(&mut self, name: &str, module: &(impl Module + ?Sized)) -> Result<()> {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = module.visit(self);
        self.path.truncate(length);
        result
    }

    fn numbered(&mut self, index: usize, module: &(impl Module + ?Sized)) -> Result<()> {
        self.part(&index.to_string(), module)
    }

    /// Ends at a leaf.
    pub(crate) fn leaf(&mut self, leaf: Leaf<'_>) -> Result<()> {
        (self.visit)(&self.path, leaf)
    }
}

impl std::fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Visitor({:?})", self.path)
    }
}

/// What a state dict and a module did not have in common.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    /// Names that the module has and the dict lacks.
    pub missing: Vec<String>,
    /// Names that the dict has and the module lacks.
    pub unexpected: Vec<String>,
}

/// Whatever has parameters. All state is behind handles, so nothing needs `&mut`.
///
/// ```
/// use ubique_core::{Device, Result, Tensor};
/// use ubique_nn::{Forward, Linear, Module, Visitor};
/// # use ubique_flex as _;
///
/// struct Mlp {
///     hidden: Linear,
///     output: Linear,
/// }
///
/// impl Module for Mlp {
///     fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
///         visitor.part("hidden", &self.hidden)?;
///         visitor.part("output", &self.output)
///     }
/// }
///
/// impl Forward for Mlp {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.output.forward(&self.hidden.forward(x)?.relu()?)
///     }
/// }
///
/// let device = Device::new("flex")?.autodiff();
/// let mlp = Mlp { hidden: Linear::new(4, 8, &device)?, output: Linear::new(8, 3, &device)? };
/// assert_eq!(mlp.parameter_count()?, 4 * 8 + 8 + 8 * 3 + 3);
/// let names: Vec<String> = mlp.state_dict()?.into_keys().collect();
/// assert_eq!(names, ["hidden.bias", "hidden.weight", "output.bias", "output.weight"]);
/// # Ok::<(), ubique_core::Error>(())
/// ```
pub trait Module: Send + Sync {
    /// Walks over the parts: one line `visitor.part("name", &self.name)?` each.
    ///
    /// # Errors
    /// What the walk ends with.
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()>;

    /// The parameters with their paths, in the order of the walk; one that is shared comes once, under its first path.
    ///
    /// # Errors
    /// What [`Module::visit`] itself gives.
    fn named_parameters(&self) -> Result<Vec<(String, Param)>> {
        let mut found: Vec<(String, Param)> = Vec::new();
        walk(self, &mut |path, leaf| {
            if let Leaf::Param(param) = leaf
                && !found.iter().any(|(_, other)| other.same(param))
            {
                found.push((path.to_owned(), param.clone()));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// How many trainable numbers there are; shared ones count once.
    ///
    /// # Errors
    /// What [`Module::visit`] itself gives.
    fn parameter_count(&self) -> Result<usize> {
        self.named_parameters()?.iter().map(|(_, param)| param.spec().shape.elements()).sum()
    }

    /// The values of all parameters and buffers, untracked. They share memory with the module until it changes; what is
    /// in the dict never changes.
    ///
    /// # Errors
    /// Where two parts have the same path, or a failed optimiser step lost a parameter.
    fn state_dict(&self) -> Result<StateDict> {
        let mut dict = StateDict::new();
        for (path, state) in states(self)? {
            let value = state.value().map_err(|e| e.context(&path))?.detach();
            if dict.insert(path.clone(), value).is_some() {
                return Err(Error::value(format!("two parts of the module are called {path:?}")));
            }
        }
        Ok(dict)
    }

    /// Takes over the values of a dict, moved to each parameter's device. Where anything does not fit, nothing changes.
    /// With `strict`, the names must be the same; otherwise names that only one side has are left alone and reported.
    ///
    /// # Errors
    /// Where shapes or dtypes differ or, with `strict`, names are missing or unexpected; the message lists them.
    fn load_state_dict(&self, dict: &StateDict, strict: bool) -> Result<Difference> {
        let states = states(self)?;
        let mut difference = Difference::default();
        let mut wrong = Vec::new();
        let mut fits = Vec::new();
        for (path, state) in &states {
            match dict.get(path) {
                None => difference.missing.push(path.clone()),
                Some(value) if value.spec() != state.spec() => {
                    wrong.push(format!("{path} is {}, should be {}", value.spec(), state.spec()));
                }
                Some(value) => fits.push((path, state, value)),
            }
        }
        let known: std::collections::BTreeSet<&str> = states.iter().map(|(path, _)| path.as_str()).collect();
        difference.unexpected = dict.keys().filter(|name| !known.contains(name.as_str())).cloned().collect();
        let unequal = strict && difference != Difference::default();
        if unequal || !wrong.is_empty() {
            return Err(misfit(&difference, &wrong, strict));
        }
        let moved = fits.into_iter().map(|(path, state, value)| {
            let value = value.detach().to_device(&state.device());
            Ok((state, value.map_err(|e| e.context(format!("loading {path}")))?))
        });
        for (state, value) in moved.collect::<Result<Vec<_>>>()? {
            state.set(value)?;
        }
        Ok(difference)
    }

    /// Moves all parameters and buffers. On a device handle without autodiff parameters have no gradients.
    ///
    /// # Errors
    /// Where a device fails; nothing has changed then.
    fn to_device(&self, device: &Device) -> Result<()> {
        let moved = states(self)?.into_iter().map(|(path, state)| {
            let value = state.value().and_then(|v| v.detach().to_device(device));
            Ok((state, value.map_err(|e| e.context(format!("moving {path}")))?))
        });
        for (state, value) in moved.collect::<Result<Vec<_>>>()? {
            state.set(value)?;
        }
        Ok(())
    }

    /// Switches to training: dropout drops, batch norm uses the batch's statistics.
    ///
    /// # Errors
    /// What [`Module::visit`] itself gives.
    fn train(&self) -> Result<()> {
        set_mode(self, true)
    }

    /// Switches to inference. Gradients are still tracked; see [`no_grad`].
    ///
    /// # Errors
    /// What [`Module::visit`] itself gives.
    fn eval(&self) -> Result<()> {
        set_mode(self, false)
    }
}

/// Runs a computation without tracking gradients of a module's parameters, which saves time and memory in inference.
/// No other thread may use or train the module meanwhile and expect gradients.
///
/// # Errors
/// What the computation gives, or where a failed optimiser step lost a parameter.
pub fn no_grad<T>(module: &(impl Module + ?Sized), run: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Thaw(Vec<Param>);
    impl Drop for Thaw {
        fn drop(&mut self) {
            // Fails only where the parameter was lost meanwhile, which its next use reports.
            self.0.iter().for_each(|param| drop(param.set_frozen(false)));
        }
    }
    let mut thaw = Thaw(Vec::new());
    for (_, param) in module.named_parameters()? {
        if !param.is_frozen() {
            param.set_frozen(true)?;
            thaw.0.push(param);
        }
    }
    run()
}

/// A module that makes one tensor of one tensor.
pub trait Forward: Module {
    /// The result for `x`. Shapes, dtypes and errors are those of the module.
    ///
    /// # Errors
    /// Where `x` does not fit the module, or the device fails.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

fn walk(module: &(impl Module + ?Sized), visit: &mut dyn FnMut(&str, Leaf<'_>) -> Result<()>) -> Result<()> {
    module.visit(&mut Visitor { path: String::new(), visit })
}

fn set_mode(module: &(impl Module + ?Sized), training: bool) -> Result<()> {
    walk(module, &mut |_, leaf| {
        if let Leaf::Mode(mode) = leaf {
            mode.set(training);
        }
        Ok(())
    })
}

/// A parameter or buffer: what a state dict has.
enum State {
    Param(Param),
    Buffer(Buffer),
}

impl State {
    fn value(&self) -> Result<Tensor> {
        match self {
            State::Param(param) => param.value(),
            State::Buffer(buffer) => Ok(buffer.value()),
        }
    }

    fn spec(&self) -> ubique_core::TensorSpec {
        match self {
            State::Param(param) => param.spec().clone(),
            State::Buffer(buffer) => buffer.value().spec(),
        }
    }

    /// Where the value is, also where it was lost: a parameter can be loaded again.
    fn device(&self) -> Device {
        match self {
            State::Param(param) => param.device(),
            State::Buffer(buffer) => buffer.value().device().clone(),
        }
    }

    fn set(&self, value: Tensor) -> Result<()> {
        match self {
            State::Param(param) => param.set(value),
            State::Buffer(buffer) => buffer.set(value),
        }
    }
}

fn states(module: &(impl Module + ?Sized)) -> Result<Vec<(String, State)>> {
    let mut states = Vec::new();
    walk(module, &mut |path, leaf| {
        match leaf {
            Leaf::Param(param) => states.push((path.to_owned(), State::Param(param.clone()))),
            Leaf::Buffer(buffer) => states.push((path.to_owned(), State::Buffer(buffer.clone()))),
            Leaf::Mode(_) => {}
        }
        Ok(())
    })?;
    Ok(states)
}

/// The error of a state dict that does not fit.
fn misfit(difference: &Difference, wrong: &[String], strict: bool) -> Error {
    const SHOWN: usize = 8;
    let mut message = "the state does not fit the module".to_owned();
    let named = |names| if strict { names } else { &[][..] };
    let lists =
        [("missing", named(&difference.missing[..])), ("unexpected", named(&difference.unexpected)), ("wrong", wrong)];
    for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(message, "; {what}: {}{more}", names[..names.len().min(SHOWN)].join(", "));
    }
    Error::value(message)
}

impl<M: Module> Module for Option<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.as_ref().map_or(Ok(()), |module| module.visit(visitor))
    }
}

impl<M: Module> Module for [M] {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.iter().enumerate().try_for_each(|(i, module)| visitor.numbered(i, module))
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.as_slice().visit(visitor)
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.as_slice().visit(visitor)
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        (**self).visit(visitor)
    }
}

impl<M: Module + ?Sized> Module for std::sync::Arc<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        (**self).visit(visitor)
    }
}
