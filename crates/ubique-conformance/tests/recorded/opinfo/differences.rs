//! Where ubique and PyTorch differ on purpose or by nature.

/// An operator (or "" for all), the part of the message that tells the difference, and the reason.
const KNOWN: &[(&str, &str, &str)] = &[
    ("", "a rank-0 tensor has no axes", "PyTorch gives scalars an axis 0; here an axis that is not there is an error"),
    ("sign", "got NaN, wanted 0", "NaN has no sign; PyTorch gives 0"),
    ("abs", "got NaN, wanted 0", "the derivative is the sign, and NaN has none"),
    ("sign", "does not take bool", "bools are no numbers"),
    ("square", "does not take bool", "bools are no numbers"),
    ("nn.functional.avg_pool1d", "needs a floating-point dtype", "PyTorch truncates means of integers"),
    ("nn.functional.avg_pool2d", "needs a floating-point dtype", "PyTorch truncates means of integers"),
    ("nn.functional.avg_pool3d", "needs a floating-point dtype", "PyTorch truncates means of integers"),
    ("nn.functional.linear", "needs a floating-point dtype", "a layer of floats; matmul takes integers"),
    ("nn.functional.batch_norm", "needs a batch and a channel axis", "nothing to normalise over"),
    ("nn.functional.relu6", "wanted 0e0", "at a bound the gradient passes, as in PyTorch's own clamp"),
    ("take_along_dim", "index -1 is outside", "negative indices are errors, not places from the end"),
    ("take", "index -7 is outside", "negative indices are errors, not places from the end"),
    ("gather", "the index is u8", "an index is i64, i32 or u32; PyTorch takes others where they are empty"),
    ("scatter_reduce/prod", "multiplying scatter has no gradient", "an error that says what to do instead"),
    ("tensordot", "the axes to sum over are [1, 1]", "PyTorch broadcasts axes of extent 1 that are summed over"),
    ("topk", "result 1", "which of equal elements is taken is not defined in PyTorch"),
];

/// Whether a difference is one of the table.
pub fn is_known(op: &str, why: &str) -> bool {
    KNOWN.iter().any(|(name, part, _)| (name.is_empty() || *name == op) && why.contains(part))
}
