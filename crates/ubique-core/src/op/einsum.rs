//! Sums of products in Einstein's notation, from left to right two operands at a time.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// The name of an axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    /// One that an ellipsis stands for, counted from the last of them.
    Rest(usize),
    /// A letter.
    Letter(char),
}

/// A part of an equation, for one operand or the result: the letters before and after an ellipsis.
struct Term {
    before: Vec<char>,
    after: Option<Vec<char>>,
}

impl Term {
    fn parse(text: &str) -> Result<Term> {
        let letters = |part: &str| -> Result<Vec<char>> {
            match part.chars().find(|c| !c.is_ascii_alphabetic()) {
                Some(c) => Err(Error::value(format!("`{c}` in `{text}` is not a letter that could name an axis"))),
                None => Ok(part.chars().collect()),
            }
        };
        Ok(match text.split_once("...") {
            Some((before, after)) => Term { before: letters(before)?, after: Some(letters(after)?) },
            None => Term { before: letters(text)?, after: None },
        })
    }

    /// The labels, with the ellipsis as so many axes.
    fn labels(&self, rest: usize) -> Vec<Label> {
        let letters = |list: &[char]| list.iter().map(|&c| Label::Letter(c)).collect::<Vec<_>>();
        let mut labels = letters(&self.before);
        if let Some(after) = &self.after {
            labels.extend((0..rest).rev().map(Label::Rest));
            labels.extend(letters(after));
        }
        labels
    }

    /// The labels of an operand's axes.
    fn labels_of(&self, tensor: &Tensor) -> Result<Vec<Label>> {
        let named = self.before.len() + self.after.as_ref().map_or(0, Vec::len);
        match tensor.rank().checked_sub(named) {
            Some(rest) if rest == 0 || self.after.is_some() => Ok(self.labels(rest)),
            _ => Err(Error::shape(format!("{named} axes are named for an operand of rank {}", tensor.rank()))),
        }
    }
}

/// A tensor whose axes have names, each its own.
struct Named {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Named {
    /// Of axes that share a name only the diagonal is left.
    fn new(mut tensor: Tensor, mut labels: Vec<Label>) -> Result<Named> {
        let twin = |labels: &[Label]| {
            (0..labels.len()).find_map(|i| Some((i, i + 1 + labels[i + 1..].iter().position(|l| *l == labels[i])?)))
        };
        while let Some((first, second)) = twin(&labels) {
            let (m, n) = (tensor.shape()[first], tensor.shape()[second]);
            if m != n {
                return Err(Error::shape(format!(
                    "axes {first} and {second} share a name, but not their extent: {m}, {n}"
                )));
            }
            tensor = tensor.diagonal(0, first as isize, second as isize)?;
            let label = labels.remove(second);
            labels.remove(first);
            labels.push(label);
        }
        Ok(Named { tensor, labels })
    }

    fn axis(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|&l| l == label)
    }

    fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    fn extent(&self, label: Label) -> Option<usize> {
        self.axis(label).map(|axis| self.tensor.shape()[axis])
    }

    /// Summed over the axes that `keep` does not hold.
    fn sum_others(self, keep: impl Fn(Label) -> bool) -> Result<Named> {
        let axes: Vec<isize> = (0..self.labels.len()).filter(|&i| !keep(self.labels[i])).map(|i| i as isize).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let tensor = self.tensor.sum(&axes)?;
        Ok(Named { tensor, labels: self.labels.into_iter().filter(|&l| keep(l)).collect() })
    }

    /// The tensor with its axes in this order, all of which it has.
    fn ordered<'a>(&self, labels: impl IntoIterator<Item = &'a Label>) -> Result<Tensor> {
        let axes = labels.into_iter().filter_map(|&l| self.axis(l)).map(|axis| axis as isize);
        self.tensor.permute(&axes.collect::<Vec<_>>())
    }

    /// Shared axes of extent 1 broadcast to the other operand's extent.
    fn matched(&self, other: &Named) -> Result<Named> {
        let shape: Shape = self
            .labels
            .iter()
            .zip(self.tensor.shape().iter())
            .map(|(&label, &extent)| other.extent(label).filter(|_| extent == 1).unwrap_or(extent))
            .collect();
        Ok(Named { tensor: self.tensor.expand(shape)?, labels: self.labels.clone() })
    }

    /// The product of two operands, summed over the axes that both have and `keep` does not hold.
    fn product(self, other: Named, keep: impl Fn(Label) -> bool) -> Result<Named> {
        let left = self.sum_others(|l| keep(l) || other.has(l))?;
        let right = other.sum_others(|l| keep(l) || left.has(l))?;
        let (left, right) = (left.matched(&right)?, right.matched(&left)?);
        let (shared, rows): (Vec<Label>, Vec<Label>) = left.labels.iter().partition(|&&l| right.has(l));
        let (batch, summed): (Vec<Label>, Vec<Label>) = shared.into_iter().partition(|&l| keep(l));
        let columns: Vec<Label> = right.labels.iter().copied().filter(|&l| !left.has(l)).collect();
        let extents = |of: &Named, labels: &[Label]| labels.iter().filter_map(|&l| of.extent(l)).collect::<Shape>();
        let (lead, m, n) = (extents(&left, &batch), extents(&left, &rows), extents(&right, &columns));
        let a = left.ordered(batch.iter().chain(&rows).chain(&summed))?;
        let b = right.ordered(batch.iter().chain(&summed).chain(&columns))?;
        let joined = |parts: &[&[usize]]| parts.concat().into_iter().collect::<Shape>();
        let shape = joined(&[&lead, &m, &n]);
        let tensor = if summed.is_empty() {
            // Without a sum this is no matrix product, but an outer or elementwise one.
            let a = a.reshape(joined(&[&lead, &m, &vec![1; n.rank()]]))?;
            (a * b.reshape(joined(&[&lead, &vec![1; m.rank()], &n]))?).tensor()?
        } else {
            let (k, m, n) = (extents(&left, &summed).elements()?, m.elements()?, n.elements()?);
            a.reshape(joined(&[&lead, &[m, k]]))?.matmul(&b.reshape(joined(&[&lead, &[k, n]]))?)?.reshape(shape)?
        };
        Ok(Named { tensor, labels: [batch, rows, columns].concat() })
    }
}

/// The result's axes where the equation does not name them: those of ellipses, then the letters that stand once, in order.
fn implicit(labels: &[Vec<Label>]) -> Vec<Label> {
    let mut counts = BTreeMap::new();
    for &label in labels.iter().flatten() {
        *counts.entry(label).or_insert(0usize) += 1;
    }
    let rest = counts.keys().rev().copied().filter(|l| matches!(l, Label::Rest(_)));
    let once = counts.iter().filter(|&(l, &count)| matches!(l, Label::Letter(_)) && count == 1).map(|(&l, _)| l);
    rest.chain(once).collect()
}

/// Refuses axes of one name whose extents neither agree nor are 1.
fn check_extents(operands: &[Named]) -> Result<()> {
    let mut extents: BTreeMap<Label, usize> = BTreeMap::new();
    for (&label, &extent) in operands.iter().flat_map(|o| o.labels.iter().zip(o.tensor.shape().iter())) {
        let known = extents.entry(label).or_insert(extent);
        if *known == 1 {
            *known = extent;
        } else if extent != 1 && extent != *known {
            return Err(Error::shape(match label {
                Label::Letter(c) => format!("axis `{c}` has extents {known} and {extent}"),
                Label::Rest(_) => format!("axes of an ellipsis do not broadcast: extents {known} and {extent} differ"),
            }));
        }
    }
    Ok(())
}

fn einsum(equation: &str, tensors: &[&Tensor]) -> Result<Tensor> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(Term::parse(output)?)),
        None => (&equation[..], None),
    };
    let terms = inputs.split(',').map(Term::parse).collect::<Result<Vec<_>>>()?;
    if terms.len() != tensors.len() {
        return Err(Error::value(format!("the equation names {} operands, {} are given", terms.len(), tensors.len())));
    }
    let labels = terms.iter().zip(tensors).map(|(term, t)| term.labels_of(t)).collect::<Result<Vec<_>>>()?;
    let rest = labels.iter().map(|l| l.iter().filter(|l| matches!(l, Label::Rest(_))).count()).max().unwrap_or(0);
    let output = output.map_or_else(|| implicit(&labels), |term| term.labels(rest));
    for (i, label) in output.iter().enumerate() {
        if output[..i].contains(label) || !labels.iter().flatten().any(|l| l == label) {
            return Err(Error::value(format!("the result's axis {i} is named twice or not at all in the operands")));
        }
    }
    let operands =
        tensors.iter().zip(labels).map(|(&t, labels)| Named::new(t.clone(), labels)).collect::<Result<Vec<_>>>()?;
    check_extents(&operands)?;
    // Whether an axis is in the result or in an operand after the given one.
    let last_use: BTreeMap<Label, usize> =
        operands.iter().enumerate().flat_map(|(i, o)| o.labels.iter().map(move |&l| (l, i))).collect();
    let needed = |label: Label, after: usize| output.contains(&label) || last_use.get(&label) > Some(&after);
    let product = operands
        .into_iter()
        .enumerate()
        .map(Ok)
        .reduce(|left, right| {
            let ((_, left), (i, right)) = (left?, right?);
            Ok((i, left.product(right, |l| needed(l, i))?))
        })
        .unwrap_or_else(|| Err(Error::value("needs at least one operand")))?
        .1;
    product.sum_others(|l| output.contains(&l))?.ordered(&output)
}

impl Tensor {
    /// Products of any number of tensors, summed, in Einstein's notation: a letter names an axis, the same letter the same
    /// axis of several operands, and what is missing after `->` is summed over.
    ///
    /// `"ij,jk->ik"` is the matrix product, `"ii"` the trace, `"ii->i"` the diagonal, `"i,j->ij"` the outer product,
    /// `"bhqd,bhkd->bhqk"` the scores of attention, and `"...ij->...ji"` transposes a batch: an ellipsis stands for all axes
    /// not named, which broadcast. Without `->` the result has the ellipsis' axes and then the letters that stand only once,
    /// in alphabetical order. An ellipsis that the result lacks is summed over too. An axis of extent 1 broadcasts to one of
    /// the same name. Spaces do not matter. Works from left to right, each step a matrix product, so put the operands in the
    /// order in which the products stay small.
    ///
    /// # Errors
    /// Where the equation is not of that form, names another number of operands or axes than there are, or an axis in the
    /// result that no operand has; where extents of one name or dtypes differ; or for bools that would have to be summed.
    pub fn einsum(equation: &str, tensors: &[&Tensor]) -> Result<Tensor> {
        einsum(equation, tensors).map_err(|e| {
            e.context(format!("`{equation}`")).with_op("einsum", &tensors.iter().map(|t| t.spec()).collect::<Vec<_>>())
        })
    }
}
