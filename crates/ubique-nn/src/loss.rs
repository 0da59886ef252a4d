//! Losses. Each compares a prediction with a target of the same shape, dtype and device, and reduces the elementwise losses
//! as asked. Cross entropy with class numbers is [`Tensor::cross_entropy`], and the loss of unaligned sequences
//! [`Tensor::ctc_loss`].

use ubique_core::{Error, Result, Tensor};

pub use ubique_core::op::cross_entropy::{CrossEntropy, LossReduction as Reduction};
pub use ubique_core::op::ctc_loss::CtcLoss;

/// Refuses to broadcast: a target of another shape is a mistake more often than not.
fn require_alike(name: &str, prediction: &Tensor, target: &Tensor) -> Result<()> {
    if prediction.spec() == target.spec() {
        return Ok(());
    }
    let message = "the target must have the prediction's shape and dtype; reshape or cast it";
    Err(Error::shape(message).with_op(name, &[prediction.spec(), target.spec()]))
}

fn reduce(losses: Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::Mean => losses.mean_all(),
        Reduction::Sum => losses.sum_all(),
        Reduction::None => Ok(losses),
    }
}

/// Mean squared error: `(x - y)²`.
///
/// # Errors
/// Where shapes, dtypes or devices differ.
pub fn mse(x: &Tensor, y: &Tensor, reduction: Reduction) -> Result<Tensor> {
    require_alike("mse", x, y)?;
    reduce((x - y).tensor()?.square()?, reduction)
}

/// Mean absolute error: `|x - y|`.
///
/// # Errors
/// Where shapes, dtypes or devices differ.
pub fn l1(x: &Tensor, y: &Tensor, reduction: Reduction) -> Result<Tensor> {
    require_alike("l1", x, y)?;
    reduce((x - y).tensor()?.abs()?, reduction)
}

/// Huber's loss (1964): `d²/2` where `d = |x - y|` is at most `delta`, else `delta · (d - delta/2)`.
///
/// # Errors
/// Where shapes, dtypes or devices differ, or `delta` is not a positive number.
pub fn huber(x: &Tensor, y: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
    require_alike("huber", x, y)?;
    if !(delta > 0.0 && delta.is_finite()) {
        return Err(Error::value(format!("delta must be a positive number, got {delta}")));
    }
    let d = (x - y).tensor()?.abs()?;
    // With c = min(d, delta), both branches are c · (d - c/2).
    let c = d.clamp_max(delta)?;
    reduce((&c * (&d - &c * 0.5)).tensor()?, reduction)
}

/// Smooth L1 (Girshick 2015): [`huber`] divided by `beta`; [`l1`] for a `beta` of 0.
///
/// # Errors
/// Where shapes, dtypes or devices differ, or `beta` is negative or not a number.
pub fn smooth_l1(x: &Tensor, y: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
    if beta == 0.0 { l1(x, y, reduction) } else { (huber(x, y, beta, reduction)? / beta).into() }
}

/// Binary cross entropy of logits x with targets y in [0, 1]: `-(p · y · log σ(x) + (1 - y) · log(1 - σ(x)))`, without
/// overflow. `positive_weight` p broadcasts to the logits and is 1 where absent.
///
/// # Errors
/// Where shapes, dtypes or devices do not fit.
pub fn bce_with_logits(
    logits: &Tensor,
    targets: &Tensor,
    positive_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    require_alike("bce_with_logits", logits, targets)?;
    // -log σ(x) = softplus(-x), and -log(1 - σ(x)) = x + softplus(-x).
    let negative = logits.neg()?.softplus()?;
    let losses = match positive_weight {
        None => (logits * (1.0 - targets) + negative).tensor()?,
        Some(weight) => (logits * (1.0 - targets) + negative * ((weight - 1.0) * targets + 1.0)).tensor()?,
    };
    if losses.shape() != logits.shape() {
        let message = format!("the positive weight does not broadcast to the logits {}", logits.shape());
        return Err(Error::shape(message));
    }
    reduce(losses, reduction)
}

/// What [`nll`] leaves out and how it weighs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nll<'a> {
    /// The weight of each class, `[C]`.
    pub weight: Option<&'a Tensor>,
    /// A target that does not count, wherever it stands.
    pub ignore_index: Option<i64>,
    /// What is made of the losses; the mean is weighted by the weights of the target classes.
    pub reduction: Reduction,
}

/// Negative log likelihood: `-w[y] · x[y]` for log probabilities x `[N, C, …]` and class numbers y `[N, …]`.
///
/// # Errors
/// Where shapes, dtypes or devices do not fit or, on host devices, a target that is not ignored is no class.
pub fn nll(log_probabilities: &Tensor, targets: &Tensor, options: Nll<'_>) -> Result<Tensor> {
    let x = log_probabilities;
    let axis = (x.rank() > 1) as usize;
    if x.rank() == 0 || *targets.shape() != x.shape().removed(axis) {
        let message = format!("targets do not belong to log probabilities with classes on axis {axis}");
        return Err(Error::shape(message).with_op("nll", &[x.spec(), targets.spec()]));
    }
    let ignored = options.ignore_index.map(|index| targets.eq(index)).transpose()?;
    let safe = match &ignored {
        Some(ignored) => targets.masked_fill(ignored, 0)?,
        None => targets.clone(),
    };
    let mut weights = match options.weight {
        Some(weight) => weight.index_select(0, &safe.reshape([safe.elements()])?)?.reshape(safe.shape())?,
        None => Tensor::ones(safe.shape(), x.dtype(), x.device())?,
    };
    if let Some(ignored) = &ignored {
        weights = weights.masked_fill(ignored, 0)?;
    }
    let axis = axis as isize;
    let chosen = x.gather(axis, &safe.unsqueeze(axis)?)?.squeeze(axis)?;
    let losses = (chosen * &weights).tensor()?.neg()?;
    match options.reduction {
        Reduction::Mean => (losses.sum_all()? / weights.sum_all()?).into(),
        other => reduce(losses, other),
    }
}

/// The Kullback-Leibler divergence's terms `y · (log y - x)` for log probabilities x and probabilities y, with 0 where y is 0.
/// The mean is that of all elements; for the divergence itself take the sum and divide by the batch.
///
/// # Errors
/// Where shapes, dtypes or devices differ.
pub fn kl_div(log_probabilities: &Tensor, targets: &Tensor, reduction: Reduction) -> Result<Tensor> {
    require_alike("kl_div", log_probabilities, targets)?;
    let zero = targets.eq(0)?;
    // The logarithm of 1 stands in for that of 0, which would make 0 · ∞ of both the loss and its gradient.
    let log = targets.masked_fill(&zero, 1)?.log()?;
    let terms = (targets * (log - log_probabilities)).tensor()?;
    reduce(terms.masked_fill(&zero, 0)?, reduction)
}
