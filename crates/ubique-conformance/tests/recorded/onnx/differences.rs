//! Operators that are not mapped, and where ubique and ONNX differ on purpose or by nature.

/// An operator of which no row makes a node, and the reason.
const UNMAPPED: &[(&str, &str)] = &[
    ("Bernoulli", "random"),
    ("ImageDecoder", "a decoder of image files"),
    ("LinearAttention", "there is no recurrent attention"),
    ("MelWeightMatrix", "a table for audio"),
    ("NonMaxSuppression", "there is no detection of objects"),
    ("OptionalGetElement", "optional values are no tensors"),
    ("OptionalHasElement", "optional values are no tensors"),
    ("RoiAlign", "there is no detection of objects"),
    ("TfIdfVectorizer", "text"),
    ("Unique", "there is no unique yet"),
];

/// A case, the part of the message that tells the difference, and the reason.
const KNOWN: &[(&str, &str, &str)] = &[
    ("averagepool_2d_ceil_last_window_starts_on_pad", "wanted 1.5109", "the recorded means have four digits"),
    ("reduce_max_empty_set", "of no elements", "an infinity in ONNX, an error here"),
    ("reduce_min_empty_set", "of no elements", "an infinity in ONNX, an error here"),
];

/// Why there is no row for an operator.
pub fn unmapped(op: &str) -> Option<&'static str> {
    UNMAPPED.iter().find(|(name, _)| *name == op).map(|(_, why)| *why)
}

/// Whether a difference is one of the table.
pub fn is_known(case: &str, why: &str) -> bool {
    KNOWN.iter().any(|(name, part, _)| *name == case && why.contains(part))
}
