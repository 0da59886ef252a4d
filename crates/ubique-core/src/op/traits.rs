//! What dispatch and autodiff ask of every op before it runs.

use crate::autodiff::vjp::Saves;

/// Where an op's gradient comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gradient {
    /// From [`Rule::vjp`](super::Rule::vjp), which looks at these operands and outputs.
    Own(Saves),
    /// From the ops that [`Rule::decompose`](super::Rule::decompose) runs.
    Decomposition,
    /// There is none; the outputs do not depend differentiably on the inputs, and are not tracked.
    None,
}

/// Where an op's gradient comes from, and what kind of work the op is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// Where the gradient comes from.
    pub gradient: Gradient,
    /// Whether a tracked result is cheaper to compute again than to keep: the cost is that of reading and writing memory.
    pub memory_bound: bool,
    /// Whether the op only looks at its operand's elements in another way (see [`Rule::view`](super::Rule::view)).
    pub view: bool,
    /// Whether the op takes dtypes that are stored but not computed with, because it only moves or casts elements.
    pub moves: bool,
}

impl Traits {
    /// An op without a gradient.
    pub const NO_GRADIENT: Traits = Traits { gradient: Gradient::None, memory_bound: false, view: false, moves: false };

    /// An op that is differentiated as its decomposition.
    pub const DECOMPOSED: Traits = Traits { gradient: Gradient::Decomposition, ..Traits::NO_GRADIENT };

    /// An op with a vector-Jacobian product, which looks at what `saves` says.
    pub const fn own(saves: Saves) -> Traits {
        Traits { gradient: Gradient::Own(saves), ..Traits::NO_GRADIENT }
    }

    /// The same op, memory-bound.
    pub const fn memory_bound(self) -> Traits {
        Traits { memory_bound: true, ..self }
    }

    /// The same op, a view, which moves nothing else.
    pub const fn view(self) -> Traits {
        Traits { view: true, moves: true, ..self }
    }

    /// The same op, which only moves or casts elements.
    pub const fn moves(self) -> Traits {
        Traits { moves: true, ..self }
    }

    /// What the op's own gradient looks at; nothing where it has none.
    pub const fn saves(self) -> Saves {
        match self.gradient {
            Gradient::Own(saves) => saves,
            _ => Saves::NONE,
        }
    }
}
