//! Convolutions to test.

use crate::dtype::DType;
use crate::op::case::Case;
use crate::op::conv::Window;
use crate::shape::Shape;

/// A convolution to test, from which each of the three ops makes its cases.
pub(super) struct Sample {
    pub batch: usize,
    pub channels: usize,
    pub filters: usize,
    pub groups: usize,
    pub extents: &'static [usize],
    pub kernel: &'static [usize],
    pub windows: &'static [Window],
}

impl Sample {
    pub fn input(&self) -> Shape {
        [self.batch, self.channels].into_iter().chain(self.extents.iter().copied()).collect()
    }

    pub fn weight(&self) -> Shape {
        [self.filters, self.channels / self.groups].into_iter().chain(self.kernel.iter().copied()).collect()
    }

    pub fn output(&self) -> Shape {
        let axes = self.windows.iter().zip(self.extents).zip(self.kernel);
        let extents = axes.map(|((w, &x), &k)| w.output(x, k).unwrap_or(0));
        [self.batch, self.filters].into_iter().chain(extents).collect()
    }
}

/// The cases that a function makes of the samples.
pub(super) fn samples(case: impl Fn(&Sample, DType, bool) -> Case) -> Vec<Case> {
    const fn window(stride: usize, padding: usize, dilation: usize) -> Window {
        Window { stride, padding, dilation }
    }
    const fn sample(
        [batch, channels, filters, groups]: [usize; 4],
        extents: &'static [usize],
        kernel: &'static [usize],
        windows: &'static [Window],
    ) -> Sample {
        Sample { batch, channels, filters, groups, extents, kernel, windows }
    }
    const SAMPLES: [Sample; 17] = [
        sample([2, 3, 4, 1], &[7], &[3], &[window(1, 0, 1)]),
        sample([1, 2, 3, 1], &[9], &[2], &[window(3, 2, 2)]),
        sample([1, 1, 1, 1], &[1], &[1], &[window(1, 0, 1)]),
        sample([2, 1, 5, 1], &[5, 6], &[3, 3], &[window(1, 1, 1), window(1, 1, 1)]),
        sample([1, 4, 6, 2], &[6, 5], &[3, 2], &[window(2, 1, 1), window(1, 0, 2)]),
        sample([2, 3, 3, 3], &[5, 4], &[3, 3], &[window(1, 1, 1), window(1, 1, 1)]),
        sample([1, 2, 4, 2], &[7, 7], &[3, 3], &[window(2, 1, 1), window(2, 1, 1)]),
        sample([1, 3, 2, 1], &[5, 5], &[1, 1], &[window(3, 0, 1), window(2, 0, 1)]),
        sample([2, 5, 9, 1], &[3, 7], &[1, 1], &[window(1, 0, 1), window(1, 0, 1)]),
        sample([0, 2, 2, 1], &[3, 3], &[2, 2], &[window(1, 0, 1), window(1, 0, 1)]),
        sample([1, 2, 0, 1], &[3, 3], &[2, 2], &[window(1, 0, 1), window(1, 0, 1)]),
        sample([1, 2, 3, 1], &[3, 4, 5], &[2, 3, 2], &[window(1, 1, 1), window(2, 1, 1), window(1, 0, 2)]),
        sample([2, 3, 6, 3], &[9, 12], &[3, 3], &[window(2, 1, 2), window(1, 2, 2)]),
        sample([1, 4, 4, 4], &[3, 40], &[2, 3], &[window(1, 5, 1), window(2, 4, 1)]),
        sample([1, 3, 3, 3], &[20, 19], &[3, 3], &[window(1, 1, 1), window(1, 1, 1)]),
        sample([2, 9, 10, 1], &[13, 11], &[3, 3], &[window(1, 1, 1), window(1, 1, 1)]),
        sample(
            [1, 1, 2, 1],
            &[2, 2, 2, 2],
            &[1, 2, 1, 2],
            &[window(1, 0, 1), window(1, 0, 1), window(1, 1, 1), window(2, 1, 1)],
        ),
    ];
    let plain = SAMPLES.iter().flat_map(|s| DType::FLOATS.map(|dtype| case(s, dtype, false)));
    let biased = SAMPLES.iter().map(|s| case(s, DType::F32, true));
    let ints = SAMPLES[..5].iter().map(|s| case(s, DType::I32, true));
    plain.chain(biased).chain(ints).collect()
}
