//! Multi-head attention.

use ubique_core::{Error, Result, Tensor};

use super::Linear;
use crate::init::{Init, Place};
use crate::module::{Forward, Module, Visitor};

/// Multi-head attention (Vaswani et al. 2017): queries, keys and values are projected, divided into heads, attended, joined
/// and projected again.
///
/// ```
/// # use ubique_core::{DType, Device, Tensor};
/// # use ubique_nn::{Forward, MultiHeadAttention};
/// # use ubique_flex as _;
/// let device = Device::new("flex")?.autodiff();
/// let attention = MultiHeadAttention { causal: true, ..MultiHeadAttention::new(8, 2, &device)? };
/// let x = Tensor::normal([3, 5, 8], 0.0, 1.0, DType::F32, &device)?;
/// assert_eq!(*attention.forward(&x)?.shape(), [3, 5, 8]);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiHeadAttention {
    /// The projection of queries.
    pub query: Linear,
    /// The projection of keys.
    pub key: Linear,
    /// The projection of values.
    pub value: Linear,
    /// The projection of the joined heads.
    pub output: Linear,
    /// How many heads there are.
    pub heads: usize,
    /// Whether position i looks at positions 0 to i only.
    pub causal: bool,
}

impl MultiHeadAttention {
    /// A layer for vectors of the given width, with weights that begin as Glorot and Bengio's uniform and biases of 0.
    ///
    /// # Errors
    /// Where the heads do not divide the width, the dtype is not floating point, or memory cannot be had.
    pub fn new(width: usize, heads: usize, place: impl Into<Place>) -> Result<MultiHeadAttention> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::value(format!("a width of {width} cannot be divided into {heads} heads")));
        }
        let place = place.into();
        let projection = || {
            let weight = Init::XavierUniform { gain: 1.0 }.param([width, width], &place)?;
            Ok::<_, Error>(Linear { weight, bias: Some(Init::Constant(0.0).param([width], &place)?) })
        };
        let [query, key, value, output] = [projection()?, projection()?, projection()?, projection()?];
        Ok(MultiHeadAttention { query, key, value, output, heads, causal: false })
    }

    /// Attention of queries `[N, L, width]` to keys and values `[N, S, width]`; gives `[N, L, width]`. The mask broadcasts to
    /// `[N, heads, L, S]`: bool, true where a query may look at a key, or of the scores' dtype and added to them.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit.
    pub fn attend(&self, queries: &Tensor, keys: &Tensor, values: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let queries = self.divide(&self.query.forward(queries)?)?;
        let keys = self.divide(&self.key.forward(keys)?)?;
        let values = self.divide(&self.value.forward(values)?)?;
        let heads = queries.attention(&keys, &values, mask, self.causal, None)?;
        self.output.forward(&heads.transpose(1, 2)?.flatten(2, 3)?)
    }

    /// `[N, L, width]` as `[N, heads, L, width / heads]`.
    fn divide(&self, x: &Tensor) -> Result<Tensor> {
        match x.shape()[..] {
            [batch, length, width] => {
                x.reshape([batch, length, self.heads, width / self.heads.max(1)])?.transpose(1, 2)
            }
            _ => Err(Error::shape(format!("attention takes [batch, length, width], got {}", x.shape()))),
        }
    }
}

impl Module for MultiHeadAttention {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("query", &self.query)?;
        visitor.part("key", &self.key)?;
        visitor.part("value", &self.value)?;
        visitor.part("output", &self.output)
    }
}

impl Forward for MultiHeadAttention {
    /// Self-attention without a mask.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, None)
    }
}
