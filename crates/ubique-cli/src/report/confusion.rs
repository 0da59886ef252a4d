//! The confusion matrix: how often each class was taken for each other.

use anyhow::{Context, Result};
use serde::Serialize;

/// Counts of (true class, predicted class).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confusion {
    classes: Vec<String>,
    /// Row: true class. Column: predicted class.
    counts: Vec<Vec<u64>>,
}

impl Confusion {
    /// A matrix of zeros for the classes of these names.
    pub fn new<S: Into<String>>(classes: impl IntoIterator<Item = S>) -> Confusion {
        let classes: Vec<String> = classes.into_iter().map(Into::into).collect();
        let counts = vec![vec![0; classes.len()]; classes.len()];
        Confusion { classes, counts }
    }

    /// The names of the classes, by index.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The name of a class; a number that has none is shown as such.
    pub fn class_name(&self, class: usize) -> String {
        self.classes.get(class).cloned().unwrap_or_else(|| format!("class {class}"))
    }

    /// Counts one prediction.
    ///
    /// # Errors
    /// A class that the matrix has not.
    pub fn record(&mut self, truth: usize, predicted: usize) -> Result<()> {
        let classes = self.classes.len();
        let cell = self.counts.get_mut(truth).and_then(|row| row.get_mut(predicted));
        *cell.with_context(|| format!("class {truth} taken for {predicted}: there are {classes} classes"))? += 1;
        Ok(())
    }

    /// The counts, a row for each true class.
    pub fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.iter().map(Vec::as_slice)
    }

    /// How many predictions were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// The share of predictions that were right, or `None` where there are none.
    pub fn accuracy(&self) -> Option<f64> {
        let right = (0..self.classes.len()).map(|class| self.counts[class][class]).sum();
        share(right, self.total())
    }

    /// Of the images of this class, the share that was recognised; `None` where there are none.
    pub fn recall(&self, class: usize) -> Option<f64> {
        let row = self.counts.get(class)?;
        share(row[class], row.iter().sum())
    }

    /// Of the predictions of this class, the share that was right; `None` where there are none.
    pub fn precision(&self, class: usize) -> Option<f64> {
        let right = *self.counts.get(class)?.get(class)?;
        share(right, self.counts.iter().map(|row| row[class]).sum())
    }
}

/// `part / whole`, where there is a whole.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares() {
        let mut matrix = Confusion::new(["cat", "dog", "cow"]);
        assert_eq!((matrix.accuracy(), matrix.recall(0)), (None, None));
        for (truth, predicted) in [(0, 0), (0, 0), (0, 1), (1, 1)] {
            matrix.record(truth, predicted).unwrap();
        }
        assert_eq!(matrix.total(), 4);
        assert_eq!(matrix.accuracy(), Some(0.75));
        assert_eq!(matrix.recall(0), Some(2.0 / 3.0));
        assert_eq!(matrix.precision(1), Some(0.5));
        assert_eq!((matrix.recall(2), matrix.precision(2)), (None, None));
    }

    #[test]
    fn classes_out_of_range_are_errors_or_none() {
        let mut matrix = Confusion::new(["cat", "dog"]);
        assert!(matrix.record(2, 0).unwrap_err().to_string().contains("there are 2 classes"));
        assert!(matrix.record(0, 2).is_err());
        assert_eq!((matrix.total(), matrix.recall(2), matrix.precision(9)), (0, None, None));
        assert_eq!(matrix.class_name(7), "class 7");
        assert_eq!(Confusion::new(Vec::<String>::new()).accuracy(), None);
    }
}
