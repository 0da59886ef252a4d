//! PyTorch's operators as calls of ubique's methods: a row for each name.

mod composed;
mod counts;
mod diagonals;
mod elementwise;
mod fourier;
mod images;
mod layers;
mod losses;
mod matrices;
mod operators;
mod places;
mod put;
mod reductions;

use ubique_core::{DType, Tensor};

use crate::call::{Call, Outcome};

/// How a recorded call is made.
pub type Make = fn(&Call<'_>) -> Outcome;

/// A name and how its calls are made.
pub type Row = (&'static str, Make);

const TABLES: [&[Row]; 13] = [
    composed::ROWS,
    counts::ROWS,
    diagonals::ROWS,
    elementwise::ROWS,
    fourier::ROWS,
    images::ROWS,
    layers::ROWS,
    losses::ROWS,
    matrices::ROWS,
    operators::ROWS,
    places::ROWS,
    put::ROWS,
    reductions::ROWS,
];

/// The row of an operator.
pub fn find(name: &str) -> Option<Make> {
    TABLES.into_iter().flatten().find(|(row, _)| *row == name).map(|(_, make)| *make)
}

/// Whether an operator is computed for each element alone, so that errors are of the order of each result.
pub fn is_elementwise(name: &str) -> bool {
    elementwise::ROWS.iter().any(|(row, _)| *row == name)
}

fn one(result: ubique_core::Result<Tensor>) -> Outcome {
    Ok(vec![result?])
}

/// Bools as integers, which PyTorch makes of them where it counts.
fn countable(x: &Tensor) -> ubique_core::Result<Tensor> {
    if x.dtype() == DType::Bool { x.cast(DType::I64) } else { Ok(x.clone()) }
}
