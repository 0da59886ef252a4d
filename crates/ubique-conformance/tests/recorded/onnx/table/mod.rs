//! ONNX's operators as calls of ubique's methods: a row for each name.

mod attention;
mod elementwise;
mod images;
mod losses;
mod norms;
mod places;
mod products;
mod quantized;
mod recurrent;
mod reductions;
mod shapes;
mod signal;
mod windows;

use ubique_core::Tensor;

use crate::call::Outcome;
use crate::onnx::node::Node;

/// How a node is made.
pub type Make = fn(&Node<'_>) -> Outcome;

/// A name and how its nodes are made.
pub type Row = (&'static str, Make);

const TABLES: [&[Row]; 13] = [
    attention::ROWS,
    elementwise::ROWS,
    images::ROWS,
    losses::ROWS,
    norms::ROWS,
    places::ROWS,
    products::ROWS,
    quantized::ROWS,
    recurrent::ROWS,
    reductions::ROWS,
    shapes::ROWS,
    signal::ROWS,
    windows::ROWS,
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
