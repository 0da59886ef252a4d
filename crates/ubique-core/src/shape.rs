//! Extents of tensors. Up to rank 6 they live inline; higher ranks are boxed.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// Ranks up to this one need no heap.
pub const INLINE_RANK: usize = 6;

/// One value per axis: an inline array up to rank 6, boxed above. Reads as a slice.
pub struct Dims<T>(Repr<T>);

impl<T: Copy> Clone for Dims<T> {
    #[inline]
    fn clone(&self) -> Self {
        Dims(self.0.clone())
    }
}

enum Repr<T> {
    Inline(Inline<T>),
    Heap(Box<[T]>),
}

/// Plain data of whole words: copies go by wide loads, which must not wait for narrower stores.
#[derive(Clone, Copy)]
struct Inline<T> {
    /// Those from `rank` on are the type's default, so that comparing two needs no loop.
    values: [T; INLINE_RANK],
    rank: usize,
}

impl<T: Copy> Clone for Repr<T> {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Repr::Inline(inline) => Repr::Inline(*inline),
            Repr::Heap(values) => Repr::Heap(values.clone()),
        }
    }
}

impl<T: Copy + Default> Dims<T> {
    /// No axes.
    #[inline]
    pub fn empty() -> Dims<T> {
        Dims(Repr::Inline(Inline { rank: 0, values: [T::default(); INLINE_RANK] }))
    }

    /// A copy of a slice.
    #[inline]
    pub fn from_slice(slice: &[T]) -> Dims<T> {
        if slice.len() > INLINE_RANK {
            return Dims(Repr::Heap(slice.into()));
        }
        let mut values = [T::default(); INLINE_RANK];
        values[..slice.len()].copy_from_slice(slice);
        Dims(Repr::Inline(Inline { rank: slice.len(), values }))
    }

    /// `rank` copies of a value.
    #[inline]
    pub fn repeat(value: T, rank: usize) -> Dims<T> {
        if rank > INLINE_RANK {
            return Dims(Repr::Heap(vec![value; rank].into()));
        }
        let values = std::array::from_fn(|axis| if axis < rank { value } else { T::default() });
        Dims(Repr::Inline(Inline { rank, values }))
    }

    /// The values, to change in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.0 {
            Repr::Inline(inline) => &mut inline.values[..inline.rank],
            Repr::Heap(values) => values,
        }
    }

    /// The same values with `value` put in before `axis` (at most the rank).
    pub fn inserted(&self, axis: usize, value: T) -> Dims<T> {
        let mut values = self.to_vec();
        values.insert(axis.min(values.len()), value);
        Dims::from_slice(&values)
    }

    /// The same values without `axis`.
    pub fn removed(&self, axis: usize) -> Dims<T> {
        self.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, v)| *v).collect()
    }

    /// The same values with that of `axis` changed; unchanged where there is no such axis.
    pub fn with(&self, axis: usize, value: T) -> Dims<T> {
        let mut out = self.clone();
        if let Some(slot) = out.as_mut_slice().get_mut(axis) {
            *slot = value;
        }
        out
    }
}

/// No axes.
impl<T: Copy + Default> Default for Dims<T> {
    fn default() -> Dims<T> {
        Dims::empty()
    }
}

impl<T> Deref for Dims<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Repr::Inline(inline) => &inline.values[..inline.rank],
            Repr::Heap(values) => values,
        }
    }
}

impl<T: PartialEq> PartialEq for Dims<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // All compared without a branch: array equality would call the C library for these few words.
            (Repr::Inline(a), Repr::Inline(b)) => {
                a.values.iter().zip(&b.values).fold(a.rank == b.rank, |same, (a, b)| same & (a == b))
            }
            (Repr::Heap(values), Repr::Heap(others)) => values == others,
            _ => false,
        }
    }
}
impl<T: Eq> Eq for Dims<T> {}

impl<T: PartialEq> PartialEq<[T]> for Dims<T> {
    fn eq(&self, other: &[T]) -> bool {
        **self == *other
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Dims<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        **self == *other
    }
}

impl<T: std::hash::Hash> std::hash::Hash for Dims<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: Copy + Default> FromIterator<T> for Dims<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Dims<T> {
        let mut values = [T::default(); INLINE_RANK];
        let mut rank = 0;
        let mut iter = iter.into_iter();
        while let Some(value) = iter.next() {
            if rank == INLINE_RANK {
                let heap: Box<[T]> = values.into_iter().chain([value]).chain(iter).collect();
                return Dims(Repr::Heap(heap));
            }
            values[rank] = value;
            rank += 1;
        }
        Dims(Repr::Inline(Inline { rank, values }))
    }
}

impl<T: fmt::Debug> fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: fmt::Debug> fmt::Display for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Serialize> Serialize for Dims<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Copy + Default> Deserialize<'de> for Dims<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Dims::from_slice(&Vec::<T>::deserialize(deserializer)?))
    }
}

/// The extents of a tensor, outermost axis first. Rank 0 is a scalar with one element.
pub type Shape = Dims<usize>;

impl Shape {
    /// How many elements; an error where the count overflows.
    #[inline]
    pub fn elements(&self) -> Result<usize> {
        let mut count = 1usize;
        // A zero extent makes the count 0 even where the others would overflow.
        let mut overflow = false;
        let mut empty = false;
        for &extent in self.iter() {
            let (product, wrapped) = count.overflowing_mul(extent);
            count = product;
            overflow |= wrapped;
            empty |= extent == 0;
        }
        match (empty, overflow) {
            (true, _) => Ok(0),
            (false, false) => Ok(count),
            (false, true) => Err(Error::shape(format!("{self} has more elements than an address can count"))),
        }
    }

    /// Bytes of a contiguous tensor of this shape; an error where they exceed what can be addressed.
    #[inline]
    pub fn bytes(&self, dtype: DType) -> Result<usize> {
        match self.elements()?.checked_mul(dtype.size()) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
            _ => Err(Error::shape(format!("{dtype}{self} needs more bytes than can be addressed"))),
        }
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.len()
    }

    /// Turns an axis that may count from the end (-1 is the last) into an index.
    #[inline]
    pub fn axis(&self, axis: isize) -> Result<usize> {
        normalize_axis(axis, self.rank())
    }

    /// The shape that two shapes broadcast to (numpy's rule: aligned at the last axis, extents equal or 1).
    #[inline]
    pub fn broadcast(&self, other: &Shape) -> Result<Shape> {
        if self == other {
            return Ok(self.clone());
        }
        let (long, short) = if self.rank() >= other.rank() { (self, other) } else { (other, self) };
        let mut out = long.clone();
        let skip = long.rank() - short.rank();
        for (slot, &extent) in out.as_mut_slice()[skip..].iter_mut().zip(short.iter()) {
            *slot = match (*slot, extent) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                (a, b) => {
                    return Err(Error::shape(format!(
                        "{self} and {other} do not broadcast: extents {a} and {b} differ"
                    )));
                }
            };
        }
        Ok(out)
    }
}

/// Turns an axis that may count from the end into an index below `rank`.
#[inline]
pub fn normalize_axis(axis: isize, rank: usize) -> Result<usize> {
    let index = if axis < 0 { axis.wrapping_add(rank as isize) } else { axis };
    if (0..rank as isize).contains(&index) {
        return Ok(index as usize);
    }
    Err(Error::shape(match rank {
        0 => format!("axis {axis} is out of range: a rank-0 tensor has no axes"),
        _ => format!("axis {axis} is out of range for rank {rank} (-{rank} to {})", rank - 1),
    }))
}

/// Turns axes that may count from the end into sorted indices without repeats; an empty list means all axes.
pub fn normalize_axes(axes: &[isize], rank: usize) -> Result<Vec<usize>> {
    if axes.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut out = axes.iter().map(|&a| normalize_axis(a, rank)).collect::<Result<Vec<_>>>()?;
    out.sort_unstable();
    if let Some(pair) = out.windows(2).find(|p| p[0] == p[1]) {
        return Err(Error::shape(format!("axis {} is named twice in {axes:?}", pair[0])));
    }
    Ok(out)
}

macro_rules! from_dims {
    ($($ty:ty => |$v:ident| $slice:expr, [$($generic:tt)*];)*) => {$(
        impl<T: Copy + Default $($generic)*> From<$ty> for Dims<T> {
            #[inline]
            fn from($v: $ty) -> Dims<T> { Dims::from_slice($slice) }
        }
    )*};
}
from_dims! {
    &[T] => |v| v, [];
    Vec<T> => |v| &v, [];
    &Vec<T> => |v| v, [];
    [T; N] => |v| &v, [, const N: usize];
    &[T; N] => |v| v, [, const N: usize];
    &Dims<T> => |v| v, [];
}
impl From<usize> for Shape {
    fn from(extent: usize) -> Shape {
        Shape::from_slice(&[extent])
    }
}
impl From<()> for Shape {
    fn from(_: ()) -> Shape {
        Shape::empty()
    }
}

/// Shape and dtype: all that a shape rule may look at.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The extents.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
}

impl TensorSpec {
    /// A spec from its parts.
    #[inline]
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> TensorSpec {
        TensorSpec { shape: shape.into(), dtype }
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_without_wrapping() {
        assert_eq!(Shape::empty().elements().unwrap(), 1);
        assert_eq!(Shape::from([3, 0, 2]).elements().unwrap(), 0);
        assert_eq!(Shape::from([usize::MAX, 2, 0]).elements().unwrap(), 0);
        assert!(Shape::from([usize::MAX, 2]).elements().is_err());
        assert!(Shape::from([usize::MAX / 4]).bytes(DType::F64).is_err());
    }

    #[test]
    fn ranks_above_the_inline_ones_work() {
        let high: Shape = (1..=9).collect();
        assert_eq!(high.rank(), 9);
        assert_eq!(high.removed(0).len(), 8);
        assert_eq!(high.broadcast(&Shape::from([9])).unwrap(), high);
    }

    #[test]
    fn broadcast_follows_numpy() {
        let b = |a: &[usize], b: &[usize]| Shape::from(a).broadcast(&Shape::from(b));
        assert_eq!(b(&[2, 1, 3], &[4, 1]).unwrap(), [2, 4, 3]);
        assert_eq!(b(&[], &[5]).unwrap(), [5]);
        assert_eq!(b(&[0], &[1]).unwrap(), [0]);
        assert!(b(&[2], &[3]).is_err());
        assert!(b(&[0], &[2]).is_err());
    }

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!(normalize_axis(-1, 3).unwrap(), 2);
        assert!(normalize_axis(3, 3).is_err());
        assert!(normalize_axis(isize::MIN, 3).is_err());
        assert!(normalize_axis(0, 0).is_err());
        assert!(normalize_axes(&[0, -3], 3).is_err());
    }
}
