//! What a module is made of: parameters, buffers and the training switch. All are handles with interior state, so that
//! optimisers, checkpoints and devices can change a model that others hold too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ubique_core::{Device, Error, Result, Tensor, TensorSpec};

use crate::module::{Leaf, Module, Visitor};

#[cold]
fn lost() -> Error {
    Error::backend("the value was lost when an optimiser step failed; load it again from a checkpoint")
}

#[derive(Debug)]
struct Slot {
    /// Empty where a failed optimiser step took the tensor and could not give it back.
    value: Option<Tensor>,
    /// Where the value is, or was.
    device: Device,
}

/// Refuses a new value of another shape or dtype.
fn require_spec(old: &TensorSpec, new: &TensorSpec) -> Result<()> {
    if old == new {
        return Ok(());
    }
    Err(Error::shape(format!("a value of {new} cannot take the place of {old}")))
}

/// A trainable tensor. Clones share it (so layers can share weights); its value is a tracked leaf where its device has
/// autodiff, and becomes a new leaf with each change.
#[derive(Clone, Debug)]
pub struct Param(Arc<ParamState>);

#[derive(Debug)]
struct ParamState {
    slot: RwLock<Slot>,
    spec: TensorSpec,
    frozen: AtomicBool,
}

impl Param {
    /// A parameter with a first value, of any floating-point dtype.
    ///
    /// # Errors
    /// Where the dtype is not floating point and the device has autodiff.
    pub fn new(value: Tensor) -> Result<Param> {
        let (spec, device) = (value.spec(), value.device().clone());
        let slot = RwLock::new(Slot { value: Some(leaf(value, false)?), device });
        Ok(Param(Arc::new(ParamState { slot, spec, frozen: false.into() })))
    }

    /// The value now, tracked where its device has autodiff and the parameter is not frozen. Holding on to it costs the
    /// next optimiser step a copy.
    ///
    /// # Errors
    /// Where a failed optimiser step lost the value.
    #[inline]
    pub fn value(&self) -> Result<Tensor> {
        self.read().value.clone().ok_or_else(lost)
    }

    fn read(&self) -> RwLockReadGuard<'_, Slot> {
        self.0.slot.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slot> {
        self.0.slot.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shape and dtype, which never change.
    pub fn spec(&self) -> &TensorSpec {
        &self.0.spec
    }

    /// Puts another value in its place.
    ///
    /// # Errors
    /// Where shape or dtype differ.
    pub fn set(&self, value: Tensor) -> Result<()> {
        require_spec(self.spec(), &value.spec())?;
        let device = value.device().clone();
        let value = leaf(value, self.is_frozen())?;
        *self.write() = Slot { value: Some(value), device };
        Ok(())
    }

    /// The device of the value.
    pub fn device(&self) -> Device {
        self.read().device.clone()
    }

    /// Excludes the parameter from training (no gradient, no optimiser step), or includes it again.
    ///
    /// # Errors
    /// Where a failed optimiser step lost the value.
    pub fn set_frozen(&self, frozen: bool) -> Result<()> {
        let mut slot = self.write();
        let value = slot.value.as_ref().ok_or_else(lost)?.detach();
        slot.value = Some(leaf(value, frozen)?);
        self.0.frozen.store(frozen, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the parameter is excluded from training.
    pub fn is_frozen(&self) -> bool {
        self.0.frozen.load(Ordering::Relaxed)
    }

    /// Whether two handles are the same parameter.
    pub fn same(&self, other: &Param) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Looks at the leaf without holding on to it.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Tensor) -> Result<T>) -> Result<T> {
        look(self.read().value.as_ref().ok_or_else(lost)?)
    }

    /// Replaces the value by what `update` makes of it. The old value is given away, so that the device can update it
    /// in place where nobody else holds it. `update` gets the leaf first, to find its gradient, and must not keep it.
    pub(crate) fn update(
        &self,
        find: impl FnOnce(&Tensor) -> Result<Tensor>,
        update: impl FnOnce(Tensor, Tensor) -> Result<Tensor>,
    ) -> Result<()> {
        let mut slot = self.write();
        let old = slot.value.as_ref().ok_or_else(lost)?;
        let gradient = find(old)?;
        let value = old.detach();
        // From here to the end the only holder of the value is `update`.
        slot.value = None;
        let new = update(value, gradient)?;
        require_spec(&self.0.spec, &new.spec())?;
        slot.value = Some(leaf(new, false)?);
        Ok(())
    }
}

/// A value as a new leaf, or untracked.
fn leaf(value: Tensor, frozen: bool) -> Result<Tensor> {
    if frozen || !value.device().is_autodiff() { Ok(value.detach()) } else { value.require_grad() }
}

impl Module for Param {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.leaf(Leaf::Param(self))
    }
}

/// A tensor that belongs to a module's state but is not trained, such as a running mean. Clones share it.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<RwLock<Tensor>>);

impl Buffer {
    /// A buffer with a first value of any dtype.
    pub fn new(value: Tensor) -> Buffer {
        Buffer(Arc::new(RwLock::new(value.detach())))
    }

    /// The value now.
    pub fn value(&self) -> Tensor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another value in its place, untracked.
    ///
    /// # Errors
    /// Where shape or dtype differ.
    pub fn set(&self, value: Tensor) -> Result<()> {
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        require_spec(&slot.spec(), &value.spec())?;
        *slot = value.detach();
        Ok(())
    }

    /// Whether two handles are the same buffer.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Module for Buffer {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.leaf(Leaf::Buffer(self))
    }
}

/// Whether a module trains or infers; [`Module::train`] and [`Module::eval`] set it. Training at first.
#[derive(Debug)]
pub struct Mode(AtomicBool);

impl Mode {
    /// Whether the module trains.
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Switches between training and inference.
    pub fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Mode {
        Mode(true.into())
    }
}

impl Module for Mode {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.leaf(Leaf::Mode(self))
    }
}
