//! A node's operands and attributes, in the forms that ONNX's operators want them.

use ubique_core::{DType, Device, Tensor};

use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

/// Attributes have names and no position.
const NAMED: usize = usize::MAX;

/// A node of one operator.
pub struct Node<'a> {
    call: &'a Call<'a>,
    /// How many results are wanted.
    pub results: usize,
}

impl<'a> Node<'a> {
    pub fn new(call: &'a Call<'a>, results: usize) -> Node<'a> {
        Node { call, results }
    }

    /// How many operands there are.
    pub fn count(&self) -> usize {
        self.call.count()
    }

    pub fn device(&self) -> &'a Device {
        self.call.device
    }

    /// The operand at a position.
    pub fn x(&self, position: usize) -> Outcome<&Tensor> {
        self.call.tensor(position, "")
    }

    /// The operand at a position, where there is one.
    pub fn maybe(&self, position: usize) -> Outcome<Option<&Tensor>> {
        self.call.maybe_tensor(position, "")
    }

    /// All operands.
    pub fn all(&self) -> Outcome<Vec<&Tensor>> {
        (0..self.call.count()).map(|i| self.x(i)).collect()
    }

    /// The integers of an operand, where there is one.
    pub fn values(&self, position: usize) -> Outcome<Option<Vec<isize>>> {
        let Some(x) = self.maybe(position)? else { return Ok(None) };
        let values = x.cast(DType::I64)?.to_vec::<i64>()?;
        Ok(Some(values.into_iter().map(|v| v as isize).collect()))
    }

    /// The one integer of an operand, or a default.
    pub fn value(&self, position: usize, default: isize) -> Outcome<isize> {
        Ok(self.values(position)?.and_then(|values| values.first().copied()).unwrap_or(default))
    }

    /// The floats of an operand, where there is one.
    pub fn floats(&self, position: usize) -> Outcome<Option<Vec<f64>>> {
        let Some(x) = self.maybe(position)? else { return Ok(None) };
        Ok(Some(x.cast(DType::F64)?.to_vec::<f64>()?))
    }

    /// The integers of an operand that cannot be negative.
    pub fn extents(&self, position: usize) -> Outcome<Vec<usize>> {
        Ok(self.values(position)?.unwrap_or_default().into_iter().map(isize::unsigned_abs).collect())
    }

    pub fn has(&self, name: &str) -> bool {
        self.call.get(NAMED, name).is_some()
    }

    pub fn int(&self, name: &str, default: isize) -> Outcome<isize> {
        self.call.int(NAMED, name, default)
    }

    pub fn ints(&self, name: &str) -> Outcome<Vec<isize>> {
        self.call.ints(NAMED, name)
    }

    /// Integers that cannot be negative, or as many times a default.
    pub fn sizes(&self, name: &str, count: usize, default: usize) -> Outcome<Vec<usize>> {
        let sizes = self.call.extents(NAMED, name)?;
        Ok(if sizes.is_empty() { vec![default; count] } else { sizes })
    }

    pub fn float(&self, name: &str, default: f64) -> Outcome<f64> {
        self.call.float(NAMED, name, default)
    }

    pub fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        Ok(self.int(name, default as isize)? != 0)
    }

    pub fn text(&self, name: &str, default: &'a str) -> Outcome<&str> {
        Ok(self.call.text(NAMED, name)?.unwrap_or(default))
    }

    pub fn dtype(&self, name: &str, default: DType) -> Outcome<DType> {
        match self.call.get(NAMED, name) {
            None => Ok(default),
            Some(Arg::DType(dtype)) => Ok(*dtype),
            Some(_) => unmapped(format!("{name} is no dtype")),
        }
    }

    /// An attribute that is a tensor, where there is one.
    pub fn constant(&self, name: &str) -> Outcome<Option<&Tensor>> {
        self.call.maybe_tensor(NAMED, name)
    }

    /// Notes an attribute that says nothing about the result here.
    pub fn ignore(&self, name: &str) {
        self.call.get(NAMED, name);
    }

    /// Which axes an operand or, in older operators, an attribute names.
    pub fn axes(&self, position: usize) -> Outcome<Vec<isize>> {
        match self.values(position)? {
            Some(axes) => Ok(axes),
            None => self.ints("axes"),
        }
    }
}
