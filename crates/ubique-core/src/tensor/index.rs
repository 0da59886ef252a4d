//! Indexing with positions, ranges and steps, as numpy's basic indexing: `x.at((0, 1..3, .., -1))`.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What to take of one axis. Positions below 0 count from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// One position; the axis goes away.
    Index(isize),
    /// `start..end` in steps, as Python's `start:end:step`.
    Range {
        /// Where to begin; the near end where `None`.
        start: Option<isize>,
        /// Where to stop, excluded; the far end where `None`.
        end: Option<isize>,
        /// Distance of neighbours; negative walks backwards.
        step: isize,
    },
    /// All axes that the other entries leave over.
    Ellipsis,
    /// A new axis of extent 1.
    NewAxis,
}

impl At {
    /// The same range in steps of `step`.
    pub fn by(self, step: isize) -> At {
        match self {
            At::Range { start, end, .. } => At::Range { start, end, step },
            other => other,
        }
    }
}

/// Anything that says what to take of one axis: an integer, a range, or an [`At`].
pub trait IntoAt {
    /// As an [`At`].
    fn into_at(self) -> At;

    /// A range in steps: `(0..10).by(2)`, `(..).by(-1)`.
    fn by(self, step: isize) -> At
    where
        Self: Sized,
    {
        self.into_at().by(step)
    }
}

impl IntoAt for At {
    fn into_at(self) -> At {
        self
    }
}

macro_rules! into_at {
    ($($ty:ty => |$v:ident| $at:expr;)*) => {$(
        impl IntoAt for $ty {
            fn into_at(self) -> At {
                let $v = self;
                $at
            }
        }
    )*};
}

fn range(start: Option<isize>, end: Option<isize>) -> At {
    At::Range { start, end, step: 1 }
}

/// The end of an inclusive range; -1 is the last position, so its successor is the far end.
fn after(last: isize) -> Option<isize> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

into_at! {
    isize => |v| At::Index(v);
    i32 => |v| At::Index(v as isize);
    i64 => |v| At::Index(v as isize);
    usize => |v| At::Index(isize::try_from(v).unwrap_or(isize::MAX));
    RangeFull => |_v| range(None, None);
    Range<isize> => |v| range(Some(v.start), Some(v.end));
    RangeFrom<isize> => |v| range(Some(v.start), None);
    RangeTo<isize> => |v| range(None, Some(v.end));
    RangeInclusive<isize> => |v| range(Some(*v.start()), after(*v.end()));
    RangeToInclusive<isize> => |v| range(None, after(v.end));
}

/// A list of entries: one that stands alone, a tuple of up to six, or a slice.
pub trait Index {
    /// The entries, outermost axis first.
    fn entries(self) -> Vec<At>;
}

impl<T: IntoAt> Index for T {
    fn entries(self) -> Vec<At> {
        vec![self.into_at()]
    }
}

impl Index for &[At] {
    fn entries(self) -> Vec<At> {
        self.to_vec()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: IntoAt),+> Index for ($($name,)+) {
            #[allow(non_snake_case)]
            fn entries(self) -> Vec<At> {
                let ($($name,)+) = self;
                vec![$($name.into_at()),+]
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

impl Tensor {
    /// The part of the tensor at the given positions and ranges, without copying. Axes not named are taken whole.
    ///
    /// # Errors
    /// Where a position is out of range, a step is 0, or there are more entries than axes.
    pub fn at(&self, index: impl Index) -> Result<Tensor> {
        let entries = index.entries();
        let fail = |e: Error| e.with_op("at", &[self.spec()]);
        let named = entries.iter().filter(|e| matches!(e, At::Index(_) | At::Range { .. })).count();
        let ellipses = entries.iter().filter(|e| **e == At::Ellipsis).count();
        if named > self.rank() || ellipses > 1 {
            let message = format!("{named} positions and ranges and {ellipses} ellipses for {} axes", self.rank());
            return Err(fail(Error::index(message)));
        }
        let mut out = self.clone();
        let mut axis = 0isize;
        for entry in entries {
            match entry {
                At::Index(position) => {
                    let extent = out.shape()[axis as usize];
                    if position >= extent as isize || position < -(extent as isize) {
                        return Err(fail(Error::index(format!(
                            "position {position} is outside an axis of extent {extent}"
                        ))));
                    }
                    out = out.narrow(axis, position, 1)?.squeeze(axis)?;
                }
                At::Range { start, end, step } => {
                    out = out.slice(axis, start, end, step).map_err(fail)?;
                    axis += 1;
                }
                At::Ellipsis => axis += (self.rank() - named) as isize,
                At::NewAxis => {
                    out = out.unsqueeze(axis)?;
                    axis += 1;
                }
            }
        }
        Ok(out)
    }
}
