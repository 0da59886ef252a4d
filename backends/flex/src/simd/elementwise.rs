//! Functions mapped over slices, for any element type; half-precision types go through `f32` in blocks.
//!
//! All of it is vectorised where the function is free of branches. Lengths must agree: callers derive them from
//! validated shapes, so a mismatch is a bug and panics.

use super::half::{Half, narrow, widen};
use super::uninit::{BLOCK, Block, as_uninit};
use super::{Isa, Kernel, Portable, vectorize};
use std::mem::MaybeUninit;
use std::ops::Range;

/// A function of one element. Closures are such functions; types can tell apart instruction sets.
pub trait Map1<A, B>: Copy {
    /// Whether [`apply`](Map1::apply) is restricted to the arguments that [`covers`](Map1::covers) accepts.
    const PARTIAL: bool = false;

    /// Whether `apply` holds for `a`.
    #[inline(always)]
    fn covers(self, _a: A) -> bool {
        true
    }

    /// The function's value; to vectorise, it must be `#[inline(always)]` and without branches.
    fn apply<S: Isa>(self, a: A) -> B;

    /// The function's value for any argument; may be slow.
    #[inline(always)]
    fn apply_anywhere(self, a: A) -> B {
        self.apply::<Portable>(a)
    }
}

impl<A, B, F: Fn(A) -> B + Copy> Map1<A, B> for F {
    #[inline(always)]
    fn apply<S: Isa>(self, a: A) -> B {
        self(a)
    }
}

/// A function of two elements. Closures are such functions; types can tell apart instruction sets.
pub trait Map2<A, B, C>: Copy {
    /// The function's value; to vectorise, it must be `#[inline(always)]` and without branches.
    fn apply<S: Isa>(self, a: A, b: B) -> C;
}

impl<A, B, C, F: Fn(A, B) -> C + Copy> Map2<A, B, C> for F {
    #[inline(always)]
    fn apply<S: Isa>(self, a: A, b: B) -> C {
        self(a, b)
    }
}

/// Writes `map(source[i])` to `target[i]`, and thereby initialises all of `target`.
pub fn unary<A: Copy, B: Copy, M: Map1<A, B>>(map: M, source: &[A], target: &mut [MaybeUninit<B>]) {
    assert_eq!(source.len(), target.len(), "source and target differ in length");
    vectorize(UnaryLoop { map, source, target });
}

pub(super) struct UnaryLoop<'a, A, B, M> {
    pub map: M,
    pub source: &'a [A],
    pub target: &'a mut [MaybeUninit<B>],
}

impl<A: Copy, B: Copy, M: Map1<A, B>> Kernel for UnaryLoop<'_, A, B, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        if !M::PARTIAL {
            return for_each::<S, A, B, M>(self.map, self.source, self.target);
        }
        for (source, target) in self.source.chunks(BLOCK).zip(self.target.chunks_mut(BLOCK)) {
            if source.iter().fold(true, |all, &a| all & self.map.covers(a)) {
                for_each::<S, A, B, M>(self.map, source, target);
            } else {
                for (t, &a) in target.iter_mut().zip(source) {
                    t.write(self.map.apply_anywhere(a));
                }
            }
        }
    }
}

#[inline(always)]
fn for_each<S: Isa, A: Copy, B, M: Map1<A, B>>(map: M, source: &[A], target: &mut [MaybeUninit<B>]) {
    for (t, &a) in target.iter_mut().zip(source) {
        t.write(map.apply::<S>(a));
    }
}

/// Replaces elements by what a function of slices makes of them.
///
/// # Safety
/// `map` initialises all of its target.
pub(crate) unsafe fn in_place_with<A: Copy>(map: impl Fn(&[A], &mut [MaybeUninit<A>]), data: &mut [A]) {
    let mut block = Block::new();
    for part in data.chunks_mut(BLOCK) {
        let source = block.copy(part);
        // SAFETY: the caller promises that `map` initialises its target.
        map(source, unsafe { as_uninit(part) });
    }
}

/// Computes half-precision elements with a function of `f32` slices.
///
/// # Safety
/// `map` initialises all of its target.
pub(crate) unsafe fn unary_half_with<H: Half>(
    map: impl Fn(&[f32], &mut [MaybeUninit<f32>]),
    source: &[H],
    target: &mut [MaybeUninit<H>],
) {
    assert_eq!(source.len(), target.len(), "source and target differ in length");
    let (mut wide, mut result) = (Block::new(), Block::new());
    for (source, target) in source.chunks(BLOCK).zip(target.chunks_mut(BLOCK)) {
        let (wide, result) = (wide.first(source.len()), result.first(source.len()));
        widen(source, wide);
        // SAFETY: `widen` initialises its target.
        map(unsafe { wide.assume_init_mut() }, result);
        // SAFETY: the caller promises that `map` initialises its target.
        narrow(unsafe { result.assume_init_mut() }, target);
    }
}

/// An operand of a function of two elements.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, A> {
    /// One element for each element of the target.
    Slice(&'a [A]),
    /// The same element for all.
    Scalar(A),
}

impl<'a, A: Copy> Operand<'a, A> {
    /// Panics unless the operand covers a target of `len` elements.
    fn check(&self, len: usize) {
        if let Operand::Slice(slice) = self {
            assert_eq!(slice.len(), len, "operand and target differ in length");
        }
    }

    /// The elements for a part of the target; `repeated` holds a block of the scalar, if it is one.
    fn part(&self, range: Range<usize>, repeated: Option<&'a [A]>) -> &'a [A] {
        match (self, repeated) {
            (Operand::Slice(slice), _) => &slice[range],
            (Operand::Scalar(_), repeated) => &repeated.unwrap_or_default()[..range.len()],
        }
    }

    /// The scalar, if it is one.
    fn scalar(&self) -> Option<A> {
        match self {
            Operand::Slice(_) => None,
            Operand::Scalar(a) => Some(*a),
        }
    }
}

/// Writes `map(a[i], b[i])` to `target[i]`, and thereby initialises all of `target`.
pub fn binary<A: Copy, B: Copy, C: Copy, M: Map2<A, B, C>>(
    map: M,
    a: Operand<'_, A>,
    b: Operand<'_, B>,
    target: &mut [MaybeUninit<C>],
) {
    pairwise(|a, b, target| vectorize(BinaryLoop { map, a, b, target }), a, b, target);
}

/// Calls a function of two slices such that scalar operands appear to it as blocks of equal elements: one loop then
/// serves all kinds of operands.
fn pairwise<A: Copy, B: Copy, C>(
    map: impl Fn(&[A], &[B], &mut [MaybeUninit<C>]),
    a: Operand<'_, A>,
    b: Operand<'_, B>,
    target: &mut [MaybeUninit<C>],
) {
    a.check(target.len());
    b.check(target.len());
    if let (Operand::Slice(a), Operand::Slice(b)) = (a, b) {
        return map(a, b, target);
    }
    let len = target.len().min(BLOCK);
    let (mut space_a, mut space_b) = (Block::new(), Block::new());
    let repeated_a = a.scalar().map(|a| space_a.fill(a, len));
    let repeated_b = b.scalar().map(|b| space_b.fill(b, len));
    for (i, block) in target.chunks_mut(BLOCK).enumerate() {
        let range = i * BLOCK..i * BLOCK + block.len();
        map(a.part(range.clone(), repeated_a), b.part(range, repeated_b), block);
    }
}

/// Computes half-precision elements with a function of `f32` operands.
///
/// # Safety
/// `map` initialises all of its target.
pub(crate) unsafe fn binary_half_with<H: Half>(
    map: impl Fn(Operand<'_, f32>, Operand<'_, f32>, &mut [MaybeUninit<f32>]),
    a: Operand<'_, H>,
    b: Operand<'_, H>,
    target: &mut [MaybeUninit<H>],
) {
    let (mut wide_a, mut wide_b, mut result) = (Block::new(), Block::new(), Block::new());
    a.check(target.len());
    b.check(target.len());
    for (i, target) in target.chunks_mut(BLOCK).enumerate() {
        let start = i * BLOCK;
        let result = result.first(target.len());
        let wide_a = a.widened(start, wide_a.first(target.len()));
        let wide_b = b.widened(start, wide_b.first(target.len()));
        map(wide_a, wide_b, result);
        // SAFETY: the caller promises that `map` initialises its target.
        narrow(unsafe { result.assume_init_mut() }, target);
    }
}

impl<H: Half> Operand<'_, H> {
    /// The elements from `start` on in `f32`, as many as `space` has room for.
    fn widened<'s>(&self, start: usize, space: &'s mut [MaybeUninit<f32>]) -> Operand<'s, f32> {
        match self {
            Operand::Scalar(a) => Operand::Scalar(H::to_f32(a.bits())),
            Operand::Slice(slice) => {
                widen(&slice[start..start + space.len()], space);
                // SAFETY: `widen` initialises its target.
                Operand::Slice(unsafe { space.assume_init_mut() })
            }
        }
    }
}

pub(super) struct BinaryLoop<'a, A, B, C, M> {
    pub map: M,
    pub a: &'a [A],
    pub b: &'a [B],
    pub target: &'a mut [MaybeUninit<C>],
}

impl<A: Copy, B: Copy, C, M: Map2<A, B, C>> Kernel for BinaryLoop<'_, A, B, C, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for ((t, &a), &b) in self.target.iter_mut().zip(self.a).zip(self.b) {
            t.write(self.map.apply::<S>(a, b));
        }
    }
}
