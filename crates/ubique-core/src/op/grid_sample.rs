//! Images sampled at points of a grid.

use crate::error::{Error, Result};
use crate::op::lanes::accumulator;
use crate::op::{require_float, require_same_dtype};
use crate::tensor::Tensor;

/// What a point between elements sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Sampling {
    /// A mixture of the four elements around it.
    #[default]
    Bilinear,
    /// The nearest element; of equally near ones that at the even place.
    Nearest,
}

/// What a point outside the image sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Outside {
    /// 0.
    #[default]
    Zeros,
    /// The nearest element at the border.
    Border,
    /// The image mirrored at its borders, over and over.
    Reflection,
}

/// How [`Tensor::grid_sample`] reads an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GridSample {
    /// Between elements.
    pub sampling: Sampling,
    /// Outside the image.
    pub outside: Outside,
    /// Whether -1 and 1 name the middle of the first and last elements, or the outer borders of their cells.
    pub align_corners: bool,
}

impl GridSample {
    /// From positions in -1..=1 to those of elements along an axis of `extent`.
    fn places(self, points: &Tensor, extent: usize) -> Result<Tensor> {
        let extent = extent as f64;
        let (low, high) = if self.align_corners { (0.0, extent - 1.0) } else { (-0.5, extent - 0.5) };
        let at = ((points + 1.0) * ((high - low) / 2.0) + low).tensor()?;
        match self.outside {
            // Beyond these, points see nothing of the image; within, weights stay finite.
            Outside::Zeros => at.clamp(-1.0, extent),
            Outside::Border => at.clamp(0.0, extent - 1.0),
            Outside::Reflection if high == low => at.zeros_like(),
            Outside::Reflection => {
                let period = 2.0 * (high - low);
                let there = (at - low).tensor()?.rem(period)?;
                (there.minimum((period - &there).tensor()?)? + low).tensor()?.clamp(0.0, extent - 1.0)
            }
        }
    }
}

/// The neighbours of points along one axis: where they are, and how much they count.
struct Neighbours {
    /// Whole numbers, perhaps outside the axis.
    place: Tensor,
    weight: Option<Tensor>,
}

impl Neighbours {
    fn of(at: &Tensor, sampling: Sampling) -> Result<Vec<Neighbours>> {
        if sampling == Sampling::Nearest {
            return Ok(vec![Neighbours { place: at.detach().round()?, weight: None }]);
        }
        let low = at.detach().floor()?;
        let upper = (at - &low).tensor()?;
        let lower = (1.0 - &upper).tensor()?;
        let high = (&low + 1.0).tensor()?;
        Ok(vec![Neighbours { place: low, weight: Some(lower) }, Neighbours { place: high, weight: Some(upper) }])
    }
}

impl Tensor {
    /// This image `[N, C, H, W]` sampled at points of a grid `[N, h, w, 2]`: gives `[N, C, h, w]`. The last axis of the grid
    /// holds x and y, which go from -1 at the left and upper border to 1 at the right and lower one. Both of one
    /// floating-point dtype; computed in at least f32. Differentiable in the image, and with [`Sampling::Bilinear`] in the
    /// grid.
    ///
    /// # Errors
    /// Where shapes do not fit, the image has no elements along an axis, or dtypes differ or are not floating point.
    pub fn grid_sample(&self, grid: &Tensor, options: GridSample) -> Result<Tensor> {
        sample(self, grid, options).map_err(|e| e.with_op("grid_sample", &[self.spec(), grid.spec()]))
    }
}

fn sample(image: &Tensor, grid: &Tensor, options: GridSample) -> Result<Tensor> {
    require_float(&image.spec())?;
    require_same_dtype(&image.spec(), &grid.spec())?;
    let (&[batch, channels, height, width], &[points, rows, columns, 2]) = (&**image.shape(), &**grid.shape()) else {
        return Err(Error::shape("needs an image [N, C, H, W] and a grid [N, h, w, 2]"));
    };
    if points != batch || height == 0 || width == 0 {
        return Err(Error::shape(format!(
            "a grid for {points} images and {batch} images of {height} · {width} elements"
        )));
    }
    let wide = accumulator(image.dtype());
    let count = [rows, columns].iter().try_fold(1usize, |a, &b| a.checked_mul(b));
    let count = count.ok_or_else(|| Error::shape("the grid has too many points"))?;
    let pixels = image.reshape([batch, channels, height * width])?.cast(wide)?;
    let grid = grid.cast(wide)?.reshape([batch, count, 2])?;
    let along = |axis: isize, extent: usize| {
        let at = options.places(&grid.narrow(-1, axis, 1)?.squeeze(-1)?, extent)?;
        Neighbours::of(&at, options.sampling)
    };
    let (xs, ys) = (along(0, width)?, along(1, height)?);
    let mut sum: Option<Tensor> = None;
    for (x, y) in xs.iter().flat_map(|x| ys.iter().map(move |y| (x, y))) {
        let part = corner(&pixels, x, y, (width, height))?;
        sum = Some(match sum {
            Some(sum) => (sum + part).tensor()?,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| Error::value("there are no neighbours"))?;
    sum.reshape([batch, channels, rows, columns])?.cast(image.dtype())
}

/// What one neighbour of each point `[N, points]` adds to the result `[N, C, points]`.
fn corner(pixels: &Tensor, x: &Neighbours, y: &Neighbours, (width, height): (usize, usize)) -> Result<Tensor> {
    let inside = |place: &Tensor, extent: usize| place.ge(0)?.bit_and(&place.lt(extent)?);
    let index = |place: &Tensor, extent: usize| place.clamp(0, extent - 1)?.cast(place.device().default_int());
    let outside = inside(&x.place, width)?.bit_and(&inside(&y.place, height)?)?.not()?.unsqueeze(1)?;
    let place = (index(&y.place, height)? * width as i64 + index(&x.place, width)?).tensor()?.unsqueeze(1)?;
    let shape = pixels.shape().with(2, place.shape()[2]);
    let mut value = pixels.gather(-1, &place.expand(shape)?)?;
    for weight in [&x.weight, &y.weight].into_iter().flatten() {
        value = (value * weight.unsqueeze(1)?).tensor()?;
    }
    value.masked_fill(&outside, 0)
}
