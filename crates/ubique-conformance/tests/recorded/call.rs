//! A call's arguments on a device, looked up by position or name, with a note of which were looked at.

use std::cell::RefCell;

use ubique_core::op::binary::Rhs;
use ubique_core::{DType, Device, Error, Scalar, Shape, Tensor};

use crate::record::{Arg, Record};

/// Why a call gave nothing to compare.
pub enum Failure {
    /// Ubique has no such argument or form of the op; says which.
    Unmapped(String),
    /// The call was made and failed.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Failed(error)
    }
}

pub type Outcome<T = Vec<Tensor>> = Result<T, Failure>;

pub fn unmapped<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Failure::Unmapped(why.into()))
}

/// The arguments of a call.
pub struct Call<'a> {
    pub dtype: DType,
    pub device: &'a Device,
    positional: Vec<Arg<Tensor>>,
    named: Vec<(&'a str, Arg<Tensor>)>,
    used: RefCell<Vec<usize>>,
}

/// Arguments that say nothing about the result.
const SILENT: [&str; 3] = ["device", "requires_grad", "output_size"];

impl<'a> Call<'a> {
    /// Puts the arguments on a device. The tensors are leaves where `tracked` says so, one answer for each of them.
    /// They come back too, in order.
    pub fn new(
        record: &'a Record,
        device: &'a Device,
        tracked: &[bool],
    ) -> ubique_core::Result<(Call<'a>, Vec<Tensor>)> {
        let mut tensors = Vec::new();
        let mut place = |stored: &crate::record::Stored| {
            let mut tensor = stored.tensor(device)?;
            if tracked.get(tensors.len()) == Some(&true) {
                tensor = tensor.require_grad()?;
            }
            tensors.push(tensor.clone());
            ubique_core::Result::Ok(tensor)
        };
        let positional = record.positional.iter().map(|arg| arg.map(&mut place)).collect::<ubique_core::Result<_>>()?;
        let named = record.named.iter().map(|(name, arg)| Ok((name.as_str(), arg.map(&mut place)?)));
        let named = named.collect::<ubique_core::Result<_>>()?;
        Ok((Call { dtype: record.dtype, device, positional, named, used: RefCell::default() }, tensors))
    }

    /// The argument at a position or of a name; `None` where it is not given or is Python's `None`.
    pub fn get(&self, position: usize, name: &str) -> Option<&Arg<Tensor>> {
        let at = match position < self.positional.len() {
            true => position,
            false => self.positional.len() + self.named.iter().position(|(n, _)| *n == name)?,
        };
        self.used.borrow_mut().push(at);
        let arg = self.positional.get(at).unwrap_or_else(|| &self.named[at - self.positional.len()].1);
        if matches!(arg, Arg::None) { None } else { Some(arg) }
    }

    /// Refuses a call of which an argument was not looked at: it would be another call.
    pub fn check_all_used(&self) -> Outcome<()> {
        let names = self.positional.iter().map(|_| "positional").chain(self.named.iter().map(|(name, _)| *name));
        let args = self.positional.iter().chain(self.named.iter().map(|(_, arg)| arg));
        let left = names.zip(args).enumerate().find(|(at, (name, arg))| {
            !self.used.borrow().contains(at) && !SILENT.contains(name) && !matches!(arg, Arg::None)
        });
        match left {
            Some((at, (name, _))) => unmapped(format!("argument {at} ({name})")),
            None => Ok(()),
        }
    }

    /// How many positional arguments there are.
    pub fn count(&self) -> usize {
        self.positional.len()
    }

    pub fn maybe_tensor(&self, position: usize, name: &str) -> Outcome<Option<&Tensor>> {
        match self.get(position, name) {
            None => Ok(None),
            Some(Arg::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => unmapped(format!("{name} is not a tensor")),
        }
    }

    pub fn tensor(&self, position: usize, name: &str) -> Outcome<&Tensor> {
        match self.maybe_tensor(position, name)? {
            Some(tensor) => Ok(tensor),
            None => unmapped(format!("no tensor {name}")),
        }
    }

    /// The first argument.
    pub fn input(&self) -> Outcome<&Tensor> {
        self.tensor(0, "input")
    }

    pub fn tensors(&self, position: usize, name: &str) -> Outcome<Vec<&Tensor>> {
        let Some(Arg::List(list)) = self.get(position, name) else { return unmapped(format!("no list {name}")) };
        let mut tensors = Vec::new();
        for arg in list {
            let Arg::Tensor(tensor) = arg else { return unmapped(format!("{name} holds what is no tensor")) };
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    pub fn maybe_float(&self, position: usize, name: &str) -> Outcome<Option<f64>> {
        match self.get(position, name) {
            None => Ok(None),
            Some(Arg::Float(v)) => Ok(Some(*v)),
            Some(Arg::Int(v)) => Ok(Some(*v as f64)),
            Some(Arg::Bool(v)) => Ok(Some(*v as u8 as f64)),
            Some(_) => unmapped(format!("{name} is not a number")),
        }
    }

    pub fn float(&self, position: usize, name: &str, default: f64) -> Outcome<f64> {
        Ok(self.maybe_float(position, name)?.unwrap_or(default))
    }

    pub fn maybe_int(&self, position: usize, name: &str) -> Outcome<Option<isize>> {
        match self.get(position, name) {
            None => Ok(None),
            Some(Arg::Int(v)) => Ok(Some(*v as isize)),
            Some(Arg::Bool(v)) => Ok(Some(*v as isize)),
            Some(_) => unmapped(format!("{name} is not an integer")),
        }
    }

    pub fn int(&self, position: usize, name: &str, default: isize) -> Outcome<isize> {
        Ok(self.maybe_int(position, name)?.unwrap_or(default))
    }

    pub fn flag(&self, position: usize, name: &str, default: bool) -> Outcome<bool> {
        match self.get(position, name) {
            None => Ok(default),
            Some(Arg::Bool(v)) => Ok(*v),
            Some(_) => unmapped(format!("{name} is not a bool")),
        }
    }

    pub fn text(&self, position: usize, name: &str) -> Outcome<Option<&str>> {
        match self.get(position, name) {
            None => Ok(None),
            Some(Arg::Text(v)) => Ok(Some(v)),
            Some(_) => unmapped(format!("{name} is not a text")),
        }
    }

    /// An integer or a list of them; empty where it is not given.
    pub fn ints(&self, position: usize, name: &str) -> Outcome<Vec<isize>> {
        let int = |arg: &Arg<Tensor>| match arg {
            Arg::Int(v) => Ok(*v as isize),
            _ => unmapped(format!("{name} holds what is no integer")),
        };
        match self.get(position, name) {
            None => Ok(Vec::new()),
            Some(Arg::List(list)) => list.iter().map(int).collect(),
            Some(arg) => Ok(vec![int(arg)?]),
        }
    }

    /// As [`Call::ints`], for what cannot be negative.
    pub fn extents(&self, position: usize, name: &str) -> Outcome<Vec<usize>> {
        let extent = |v: isize| usize::try_from(v).or_else(|_| unmapped(format!("{name} is negative")));
        self.ints(position, name)?.into_iter().map(extent).collect()
    }

    pub fn shape(&self, position: usize, name: &str) -> Outcome<Shape> {
        Ok(self.extents(position, name)?.into())
    }

    /// A number in the call's own dtype.
    pub fn scalar(&self, position: usize, name: &str) -> Outcome<Option<Scalar>> {
        match self.get(position, name) {
            None => Ok(None),
            Some(Arg::Bool(v)) => Ok(Some((*v).into())),
            Some(Arg::Int(v)) => Ok(Some((*v).into())),
            Some(Arg::Float(_)) if !self.dtype.is_float() => unmapped("a float beside integers"),
            Some(Arg::Float(v)) => Ok(Some((*v).into())),
            Some(_) => unmapped(format!("{name} is not a number")),
        }
    }

    /// The right operand of `left`: a tensor of its dtype, or a number.
    pub fn right(&self, position: usize, name: &str, left: &Tensor) -> Outcome<Rhs<'_>> {
        match self.get(position, name) {
            Some(Arg::Tensor(other)) if other.dtype() != left.dtype() => unmapped("operands of two dtypes"),
            Some(Arg::Tensor(other)) => Ok(other.into()),
            _ => match self.scalar(position, name)? {
                Some(scalar) => Ok(scalar.into()),
                None => unmapped(format!("no operand {name}")),
            },
        }
    }

    /// A tensor, or (as the error) a number.
    pub fn scalar_or_tensor(&self, position: usize, name: &str) -> Outcome<Result<&Tensor, Scalar>> {
        match self.get(position, name) {
            Some(Arg::Tensor(tensor)) => Ok(Ok(tensor)),
            _ => match self.scalar(position, name)? {
                Some(scalar) => Ok(Err(scalar)),
                None => unmapped(format!("no {name}")),
            },
        }
    }

    /// The number at a position.
    pub fn number(&self, position: usize) -> Outcome<Scalar> {
        match self.get(position, "") {
            Some(Arg::Int(v)) => Ok((*v).into()),
            Some(Arg::Bool(v)) => Ok((*v as i64).into()),
            Some(Arg::Float(v)) => Ok((*v).into()),
            _ => unmapped(format!("argument {position} is not a number")),
        }
    }

    /// Refuses a `dtype` that asks for another dtype than the call's.
    pub fn same_dtype(&self, name: &str) -> Outcome<()> {
        match self.get(usize::MAX, name) {
            None => Ok(()),
            Some(Arg::DType(dtype)) if *dtype == self.dtype => Ok(()),
            Some(_) => unmapped("a result of another dtype"),
        }
    }
}
