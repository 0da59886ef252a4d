//! Operations. One file holds all that one op, or one family of ops, is: parameters, shape rule, gradient,
//! decomposition, reference, test cases, and the `Tensor` methods that users call. This file is the list.

pub mod case;
pub(crate) mod lanes;
pub mod reference;
mod traits;

pub mod activation;
pub mod adaptive;
pub mod arg_reduce;
pub mod arrange;
pub mod assign;
pub mod attention;
pub mod batch_norm;
pub mod binary;
pub mod bitcast;
pub mod columns;
pub mod concat;
pub mod conv;
pub mod cross_entropy;
pub mod ctc_loss;
pub mod deform_conv;
pub mod diagonal;
pub mod einsum;
pub mod extremes;
pub mod fft;
pub mod fill;
pub mod grid_sample;
pub mod histogram;
pub mod index;
pub mod index_nd;
pub mod layer_norm;
pub mod linalg;
pub mod matmul;
pub mod meshgrid;
pub mod optimizer;
pub mod pad;
pub mod pool;
pub mod products;
pub mod quantile;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod resize;
pub mod scan;
pub mod search;
pub mod select;
pub mod softmax;
pub mod sort;
pub mod statistics;
pub mod transfer;
pub mod unary;
pub mod view;

pub use traits::{Gradient, Traits};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Vjp};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::shape::TensorSpec;
use crate::tensor::Tensor;
use case::Case;
use reference::RefTensor;

/// Output specs of an op.
#[derive(Clone, Debug)]
pub enum Specs {
    /// One output with the shape and dtype of this operand; says so without copying them.
    Like(usize),
    /// One output.
    One(TensorSpec),
    /// Any other number.
    Many(Vec<TensorSpec>),
}

impl Specs {
    /// The specs of the outputs, given those of the operands.
    #[inline]
    pub fn as_slice<'a>(&'a self, inputs: &'a [TensorSpec]) -> &'a [TensorSpec] {
        match self {
            Specs::Like(operand) => inputs.get(*operand..=*operand).unwrap_or_default(),
            Specs::One(spec) => std::slice::from_ref(spec),
            Specs::Many(specs) => specs,
        }
    }
}

impl From<TensorSpec> for Specs {
    #[inline]
    fn from(spec: TensorSpec) -> Specs {
        Specs::One(spec)
    }
}

/// All that dispatch, autodiff and tests need to know of an op.
pub trait Rule: fmt::Debug + Send + Sync {
    /// The op's name, as in error messages and profiles.
    fn name(&self) -> &'static str;

    /// The outputs' shapes and dtypes.
    ///
    /// # Errors
    /// Where operands or parameters do not fit.
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs>;

    /// For ops that only look at their operand's elements in another way: the result's layout over the same buffer.
    /// `None` where strides cannot express it, and the operand has to be made contiguous first.
    ///
    /// # Errors
    /// Where the parameters do not fit (already refused by [`Rule::infer`]).
    fn view(&self, _input: &Layout) -> Result<Option<Layout>> {
        Ok(None)
    }

    /// Where the gradient comes from, and what kind of work the op is.
    fn traits(&self) -> Traits {
        Traits::NO_GRADIENT
    }

    /// The vector-Jacobian product: from gradients of the outputs to gradients of the inputs.
    /// Written with `Tensor` methods, so it runs on any device and can be differentiated again.
    ///
    /// # Errors
    /// What the ops it runs report.
    fn vjp(&self, _call: &Vjp<'_>) -> Result<Cotangents> {
        Err(Error::gradient(format!("{} has no gradient", self.name())))
    }

    /// The same result from simpler ops; `None` for the required set.
    ///
    /// # Errors
    /// What the ops it runs report.
    fn decompose(&self, _inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        Ok(None)
    }

    /// The result computed on the host in f64 or exact integers: obviously right, never fast.
    ///
    /// # Errors
    /// Where a value is out of range, such as an index.
    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>>;

    /// Inputs worth testing.
    fn cases() -> Vec<Case>
    where
        Self: Sized;
}

impl dyn Rule + '_ {
    /// As [`Rule::infer`], and refuses dtypes that cannot be computed with, and results that could not be addressed: of
    /// empty operands even a reduction can make them.
    #[inline]
    pub(crate) fn possible(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let specs = self.infer(inputs)?;
        self.computes_with(inputs)?;
        if !matches!(specs, Specs::Like(_)) {
            self.computes_with(specs.as_slice(inputs))?;
            specs.as_slice(inputs).iter().try_for_each(|spec| spec.shape.bytes(spec.dtype).map(drop))?;
        }
        Ok(specs)
    }

    /// Refuses dtypes that are only stored, unless the op only moves elements.
    #[inline]
    fn computes_with(&self, specs: &[TensorSpec]) -> Result<()> {
        match specs.iter().find(|spec| spec.dtype.is_stored()) {
            Some(spec) if !self.traits().moves => {
                Err(Error::dtype(format!("{} is a dtype for storage, not to compute with; cast first", spec.dtype)))
            }
            _ => Ok(()),
        }
    }

    /// Where the gradient comes from.
    pub fn gradient(&self) -> Gradient {
        self.traits().gradient
    }
}

/// The list: a variant for each family, and what follows from the list alone.
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident($rule:ty),)*) => {
        /// One operation with its parameters: a plain value without device or tensors.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Op {$($(#[$doc])* $name($rule),)*}

        impl Op {
            /// The rules of this op.
            #[inline]
            pub fn rule(&self) -> &dyn Rule {
                match self {$(Op::$name(rule) => rule,)*}
            }

            /// Every op's test cases.
            pub fn cases() -> Vec<Case> {
                let mut cases = Vec::new();
                $(cases.extend(<$rule as Rule>::cases());)*
                cases
            }
        }

        $(impl From<$rule> for Op {
            #[inline]
            fn from(rule: $rule) -> Op { Op::$name(rule) }
        })*
    };
}

ops! {
    /// One value everywhere.
    Fill(fill::Fill),
    /// Evenly spaced values.
    Arange(fill::Arange),
    /// Element by element, one operand.
    Unary(unary::Unary),
    /// Change of dtype.
    Cast(unary::Cast),
    /// The same bits as another dtype.
    Bitcast(bitcast::Bitcast),
    /// Element by element, two operands.
    Binary(binary::Binary),
    /// Element by element, a tensor and a scalar.
    BinaryScalar(binary::BinaryScalar),
    /// Comparison of two tensors.
    Compare(binary::Compare),
    /// Comparison of a tensor with a scalar.
    CompareScalar(binary::CompareScalar),
    /// Another look at the same elements.
    View(view::View),
    /// A row-major copy.
    Contiguous(view::Contiguous),
    /// Choice by a mask.
    Select(select::Select),
    /// One value where a mask is true.
    MaskedFill(select::MaskedFill),
    /// Values held between bounds.
    Clamp(select::Clamp),
    /// Many elements to one.
    Reduce(reduce::Reduce),
    /// Tensors joined.
    Concat(concat::Concat),
    /// Elements put around.
    Pad(pad::Pad),
    /// Elements taken by index.
    Gather(index::Gather),
    /// Elements put by index.
    Scatter(index::Scatter),
    /// Slices taken by index.
    IndexSelect(index::IndexSelect),
    /// Slices added by index.
    IndexAdd(index::IndexAdd),
    /// Each element accumulated with those before it.
    Scan(scan::Scan),
    /// Where the largest or smallest element stands.
    ArgReduce(arg_reduce::ArgReduce),
    /// Elements in order, with where they stood.
    Sort(sort::Sort),
    /// The first few of a sort.
    TopK(sort::TopK),
    /// Places of values in a sorted sequence.
    SearchSorted(search::SearchSorted),
    /// Random numbers.
    Random(random::Random),
    /// Random elements set to zero.
    Dropout(random::Dropout),
    /// A matrix product.
    Matmul(matmul::Matmul),
    /// A fully connected layer.
    Linear(matmul::Linear),
    /// A discrete Fourier transform.
    Fft(fft::Fft),
    /// The factor of a positive definite matrix.
    Cholesky(linalg::cholesky::Cholesky),
    /// Equations with a triangular matrix.
    SolveTriangular(linalg::triangular::SolveTriangular),
    /// A lower and an upper triangular factor.
    Lu(linalg::lu::Lu),
    /// Linear equations.
    Solve(linalg::solve::Solve),
    /// The inverse of a matrix.
    Inverse(linalg::inverse::Inverse),
    /// The determinant.
    Det(linalg::det::Det),
    /// The determinant's sign and logarithm.
    Slogdet(linalg::det::Slogdet),
    /// An orthogonal and an upper triangular factor.
    Qr(linalg::qr::Qr),
    /// Eigenvalues and eigenvectors of a symmetric matrix.
    Eigh(linalg::eigh::Eigh),
    /// Singular values and vectors.
    Svd(linalg::svd::Svd),
    /// Exponentials that sum to 1.
    Softmax(softmax::Softmax),
    /// The gradient of softmax.
    SoftmaxBackward(softmax::SoftmaxBackward),
    /// Logarithm of the sum of exponentials.
    LogSumExp(softmax::LogSumExp),
    /// Variance or standard deviation.
    Variance(statistics::Variance),
    /// p-norm.
    Norm(statistics::Norm),
    /// Rows normalised.
    LayerNorm(layer_norm::LayerNorm),
    /// The gradients of row normalisation.
    LayerNormBackward(layer_norm::LayerNormBackward),
    /// Groups of channels normalised.
    GroupNorm(layer_norm::GroupNorm),
    /// Channels normalised over the batch.
    BatchNorm(batch_norm::BatchNorm),
    /// The gradients of batch normalisation.
    BatchNormBackward(batch_norm::BatchNormBackward),
    /// An activation with a parameter.
    Activation(activation::Activation),
    /// Scaled dot-product attention.
    Attention(attention::Attention),
    /// Cross entropy with class numbers.
    CrossEntropy(cross_entropy::CrossEntropy),
    /// The gradient of cross entropy.
    CrossEntropyBackward(cross_entropy::CrossEntropyBackward),
    /// Connectionist temporal classification.
    CtcLoss(ctc_loss::CtcLoss),
    /// The gradient of that.
    CtcLossBackward(ctc_loss::CtcLossBackward),
    /// A step of Adam or AdamW.
    AdamStep(optimizer::AdamStep),
    /// A step of gradient descent.
    SgdStep(optimizer::SgdStep),
    /// Convolution.
    Conv(conv::Conv),
    /// Transposed convolution.
    ConvTranspose(conv::ConvTranspose),
    /// The gradient of a convolution's weight.
    ConvBackwardWeight(conv::ConvBackwardWeight),
    /// The largest element of each window.
    MaxPool(pool::MaxPool),
    /// The gradient of that.
    MaxPoolBackward(pool::MaxPoolBackward),
    /// The mean of each window.
    AvgPool(pool::AvgPool),
    /// The gradient of that.
    AvgPoolBackward(pool::AvgPoolBackward),
    /// Floats to 8-bit or 4-bit integers.
    Quantize(quantized::quantize::Quantize),
    /// Such integers to floats.
    Dequantize(quantized::dequantize::Dequantize),
    /// A product with a quantised weight.
    QuantizedLinear(quantized::linear::QuantizedLinear),
    /// Images sampled at points.
    GridSample(grid_sample::GridSample),
    /// The gradients of that.
    GridSampleBackward(grid_sample::GridSampleBackward),
    /// An axis sampled at another number of points.
    Resample(resize::Resample),
    /// The gradient of that.
    ResampleBackward(resize::ResampleBackward),
    /// A move to another device.
    Transfer(transfer::Transfer),
}

impl Op {
    /// The op's name.
    pub fn name(&self) -> &'static str {
        self.rule().name()
    }

    /// The outputs' shapes and dtypes.
    ///
    /// # Errors
    /// Where operands or parameters do not fit; the error names op and operands.
    pub fn infer(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        // Operands that no tensor can be: rules count on what can be addressed.
        let possible = inputs.iter().try_for_each(|input| input.shape.bytes(input.dtype).map(drop));
        let specs = possible.and_then(|()| self.rule().possible(inputs)).map_err(|e| e.with_op(self.name(), inputs))?;
        Ok(specs.as_slice(inputs).to_vec())
    }
}

/// The operands of an op with a fixed number of them.
///
/// # Errors
/// Where there are more or fewer.
#[inline]
pub fn operands<const N: usize>(inputs: &[TensorSpec]) -> Result<&[TensorSpec; N]> {
    inputs.try_into().map_err(|_| Error::value(format!("takes {N} operands, got {}", inputs.len())))
}

/// Refuses a dtype that is not floating point.
///
/// # Errors
/// For integers and bools.
#[inline]
pub fn require_float(spec: &TensorSpec) -> Result<()> {
    if spec.dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(format!("needs a floating-point dtype, got {}; cast first", spec.dtype)))
}

/// Refuses operands of different dtypes.
///
/// # Errors
/// Where two differ; nothing is converted implicitly.
#[inline]
pub fn require_same_dtype(a: &TensorSpec, b: &TensorSpec) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(Error::dtype(format!("operands are {} and {}; cast one of them", a.dtype, b.dtype)))
}
