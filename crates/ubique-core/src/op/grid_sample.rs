//! Images sampled at points of a grid, and the gradient of that.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::Combine;
use crate::op::lanes::{accumulator, widened};
use crate::op::layer_norm::require_parameter;
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, operands, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// What a point between elements sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// A mixture of the four elements around it.
    #[default]
    Bilinear,
    /// The nearest element; of equally near ones that at the even place.
    Nearest,
}

/// What a point outside the image sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// 0.
    #[default]
    Zeros,
    /// The nearest element at the border.
    Border,
    /// The image mirrored at its borders, over and over.
    Reflection,
}

/// An image `[N, C, H, W]` read at the points of a grid `[N, h, w, 2]`, which holds x and y: gives `[N, C, h, w]`. The grid has
/// the image's dtype, or f32 for a half-precision image. See [`Tensor::grid_sample`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GridSample {
    /// Between elements.
    pub sampling: Sampling,
    /// Outside the image.
    pub outside: Outside,
    /// Whether -1 and 1 name the middle of the first and last elements, or the outer borders of their cells; reflection is at
    /// the same places.
    pub align_corners: bool,
    /// Whether points do not go from -1 to 1, but count elements: 0 is the middle of the first.
    pub pixels: bool,
}

/// How numbers of a grid become places on an axis, counted in elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Places {
    /// What a number is multiplied with.
    pub scale: f64,
    /// What is added to that.
    pub shift: f64,
    /// Where reflection is, before the first element and behind the last.
    pub mirrors: [f64; 2],
    /// The last element.
    pub last: f64,
    /// What is outside.
    pub outside: Outside,
}

impl GridSample {
    /// For an axis of this extent.
    pub fn places(self, extent: usize) -> Places {
        let (last, outside) = (extent as f64 - 1.0, self.outside);
        let mirrors = if self.align_corners { [0.0, last] } else { [-0.5, last + 0.5] };
        let scale = if self.pixels { 1.0 } else { (mirrors[1] - mirrors[0]) / 2.0 };
        let shift = if self.pixels { 0.0 } else { scale + mirrors[0] };
        Places { scale, shift, mirrors, last, outside }
    }
}

impl Places {
    /// The place of a number, and how it moves with it.
    fn of(self, number: f64) -> (f64, f64) {
        let Places { scale, shift, mirrors: [low, high], last, outside } = self;
        let at = number * scale + shift;
        let (at, slope) = match outside {
            Outside::Zeros => return (at, scale),
            Outside::Border => (at, scale),
            Outside::Reflection if high == low => (0.0, 0.0),
            Outside::Reflection => {
                let there = (at - low).rem_euclid(2.0 * (high - low));
                let back = there > high - low;
                if back { (2.0 * high - low - there, -scale) } else { (there + low, scale) }
            }
        };
        if at < 0.0 || at > last { (at.clamp(0.0, last), 0.0) } else { (at, slope) }
    }

    /// The places of numbers, and how they move with them; `None` for evenly by [`Places::scale`].
    fn of_tensor(self, numbers: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        let Places { scale, shift, mirrors: [low, high], last, outside } = self;
        let at = (numbers * scale + shift).tensor()?;
        let even = || numbers.detach().full_like(scale);
        let (at, slope) = match outside {
            Outside::Zeros => return Ok((at, None)),
            Outside::Border => (at, even()?),
            Outside::Reflection if high == low => (at.zeros_like()?, at.detach().zeros_like()?),
            Outside::Reflection => {
                let period = 2.0 * (high - low);
                let there = (at - low).tensor()?.rem(period)?;
                let back = there.gt(high - low)?;
                let at = ((period - &there).tensor()?.select(&back, &there)? + low).tensor()?;
                (at, even()?.masked_fill(&back, -scale)?)
            }
        };
        let beyond = at.lt(0.0)?.bit_or(&at.gt(last)?)?;
        Ok((at.clamp(0.0, last)?, Some(slope.masked_fill(&beyond, 0)?)))
    }
}

/// The extents of a sampling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extents {
    /// Images.
    pub batch: usize,
    /// Channels of each.
    pub channels: usize,
    /// Of the image.
    pub height: usize,
    /// Of the image.
    pub width: usize,
    /// Points of each image.
    pub points: usize,
}

impl Extents {
    /// Those of an image and points.
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit.
    pub fn new(image: &TensorSpec, points: &TensorSpec) -> Result<Extents> {
        require_float(image)?;
        let (&[batch, channels, height, width], &[images, rows, columns, 2]) = (&*image.shape, &*points.shape) else {
            return Err(Error::shape("needs an image [N, C, H, W] and a grid [N, h, w, 2]"));
        };
        if points.dtype != accumulator(image.dtype) {
            require_same_dtype(image, points)?;
        }
        if images != batch || height == 0 || width == 0 {
            return Err(Error::shape(format!(
                "a grid for {images} images and {batch} images of {height} · {width} elements"
            )));
        }
        let count = Shape::from([rows, columns]).elements()?;
        // What the decomposition makes on its way.
        for shape in [[batch, channels, count], [batch, count, 2], [height, width, 1]] {
            Shape::from(shape).bytes(DType::F64)?;
        }
        Ok(Extents { batch, channels, height, width, points: count })
    }
}

impl Rule for GridSample {
    fn name(&self) -> &'static str {
        "grid_sample"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [image, points] = operands(inputs)?;
        Extents::new(image, points)?;
        let shape = [image.shape[0], image.shape[1], points.shape[1], points.shape[2]];
        Ok(TensorSpec::new(shape, image.dtype).into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let inputs = [call.input(0)?, call.input(1)?, call.grad(0)?];
        let grads = run::call_many(GridSampleBackward(*self).into(), &inputs)?;
        Ok(grads.into_iter().map(Some).collect())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [image, points] = inputs else { return Err(Error::value("takes 2 operands")) };
            let plan = Plan::new(*self, image, points)?;
            let mut sum: Option<Tensor> = None;
            for corner in plan.corners()? {
                let value = plan.values(&corner)?;
                let part = match &corner.weight()? {
                    Some(weight) => (value * weight.unsqueeze(1)?).tensor()?,
                    None => value,
                };
                let part = part.masked_fill(&corner.outside.unsqueeze(1)?, 0)?;
                sum = Some(match sum {
                    Some(sum) => (sum + part).tensor()?,
                    None => part,
                });
            }
            let sum = sum.ok_or_else(|| Error::value("there are no neighbours"))?;
            Ok(vec![sum.reshape([image.shape()[0], image.shape()[1], points.shape()[1], points.shape()[2]])?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let mut out = vec![0.0; outputs[0].shape.elements()?];
        let image = inputs[0].floats();
        visit(*self, inputs, |term| out[term.result] += term.x.0 * term.y.0 * image[term.element])?;
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        cases(Case::new, false)
    }
}

/// The gradients of [`GridSample`] with respect to image and points: operands as there, then the gradient of the result. That
/// of the points is 0 for [`Sampling::Nearest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GridSampleBackward(pub GridSample);

impl Rule for GridSampleBackward {
    fn name(&self) -> &'static str {
        "grid_sample_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [image, points, g] = operands(inputs)?;
        Extents::new(image, points)?;
        let shape = [image.shape[0], image.shape[1], points.shape[1], points.shape[2]];
        require_parameter(g, "the gradient", &shape.into(), image.dtype)?;
        Ok(Specs::Many(vec![image.clone(), points.clone()]))
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [image, points, g] = inputs else { return Ok(None) };
        let wide = accumulator(image.dtype());
        let plan = Plan::new(self.0, &image.cast(wide)?, &points.cast(wide)?)?;
        let g = g.cast(wide)?.reshape(plan.pixels.shape().with(2, plan.points))?;
        let mut pixels = plan.pixels.zeros_like()?;
        let mut slopes = [None::<Tensor>, None];
        for corner in plan.corners()? {
            let g = g.masked_fill(&corner.outside.unsqueeze(1)?, 0)?;
            let share = match corner.weight()? {
                Some(weight) => (&g * weight.unsqueeze(1)?).tensor()?,
                None => g.clone(),
            };
            let index = corner.element.unsqueeze(1)?.expand(g.shape())?;
            pixels = pixels.scatter(-1, &index, &share, Combine::Add)?;
            let value = plan.values(&corner)?.masked_fill(&corner.outside.unsqueeze(1)?, 0)?;
            let seen = (value * &g).tensor()?.sum(&[1])?;
            for (slope, (along, across)) in slopes.iter_mut().zip([(&corner.x, &corner.y), (&corner.y, &corner.x)]) {
                let Some(weight) = &across.weight else { continue };
                let part = along.follow(&(&seen * weight).tensor()?)?;
                *slope = Some(match slope.take() {
                    Some(sum) => (sum + part).tensor()?,
                    None => part,
                });
            }
        }
        let slopes = match slopes {
            [Some(x), Some(y)] => Tensor::stack(&[&x, &y], -1)?.reshape(points.shape())?.cast(points.dtype())?,
            _ => points.detach().zeros_like()?,
        };
        Ok(Some(vec![pixels.reshape(image.shape())?.cast(image.dtype())?, slopes]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let [image, g] = [inputs[0].floats(), inputs[2].floats()];
        let mut pixels = vec![0.0; image.len()];
        let mut slopes = vec![0.0; inputs[1].len()];
        visit(self.0, inputs, |term| {
            let Term { result, element, point, x, y } = term;
            pixels[element] += g[result] * x.0 * y.0;
            if self.0.sampling == Sampling::Nearest {
                return;
            }
            slopes[2 * point] += g[result] * image[element] * x.1 * y.0;
            slopes[2 * point + 1] += g[result] * image[element] * x.0 * y.1;
        })?;
        let both = outputs.iter().zip([pixels, slopes]);
        Ok(both.map(|(spec, values)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        cases(|op| Case::new(GridSampleBackward(op)), true)
    }
}

/// The neighbours of points along one axis: where they are, and how much they count.
struct Neighbours {
    /// Whole numbers, perhaps outside the axis; [N, points].
    place: Tensor,
    weight: Option<Tensor>,
    /// How the weight changes as the number of the grid does: evenly, or by point.
    rise: f64,
    rises: Option<Tensor>,
}

impl Neighbours {
    fn of(numbers: &Tensor, sampling: Sampling, places: Places) -> Result<Vec<Neighbours>> {
        let (at, slope) = places.of_tensor(numbers)?;
        // What is further out sees nothing of the image, as does NaN; places stay small enough for an index.
        let seen = at.gt(-1)?.bit_and(&at.le(places.last + 1.0)?)?;
        let at = at.masked_fill(&seen.not()?, -2)?;
        if sampling == Sampling::Nearest {
            return Ok(vec![Neighbours { place: at.detach().round()?, weight: None, rise: 0.0, rises: None }]);
        }
        let low = at.detach().floor()?;
        let upper = (at - &low).tensor()?;
        let lower = (1.0 - &upper).tensor()?;
        let high = (&low + 1.0).tensor()?;
        let falls = slope.as_ref().map(Tensor::neg).transpose()?;
        let low = Neighbours { place: low, weight: Some(lower), rise: -places.scale, rises: falls };
        Ok(vec![low, Neighbours { place: high, weight: Some(upper), rise: places.scale, rises: slope }])
    }

    /// What grows with the weight of this neighbour, for each point, grows so with the number of the grid.
    fn follow(&self, seen: &Tensor) -> Result<Tensor> {
        match &self.rises {
            Some(rises) => (seen * rises).into(),
            None => (seen * self.rise).into(),
        }
    }
}

/// One of the elements around each point.
struct Corner<'a> {
    x: &'a Neighbours,
    y: &'a Neighbours,
    /// Its place in the image; [N, points].
    element: Tensor,
    /// Where it lies outside the image.
    outside: Tensor,
}

impl Corner<'_> {
    fn weight(&self) -> Result<Option<Tensor>> {
        match (&self.x.weight, &self.y.weight) {
            (Some(x), Some(y)) => Ok(Some((x * y).tensor()?)),
            _ => Ok(None),
        }
    }
}

/// What image and points come to before elements are taken.
struct Plan {
    /// The image as `[N, C, H·W]`.
    pixels: Tensor,
    points: usize,
    extents: [usize; 2],
    xs: Vec<Neighbours>,
    ys: Vec<Neighbours>,
}

impl Plan {
    fn new(op: GridSample, image: &Tensor, points: &Tensor) -> Result<Plan> {
        let Extents { batch, channels, height, width, points: count } = Extents::new(&image.spec(), &points.spec())?;
        let points = points.reshape([batch, count, 2])?;
        let along = |axis: isize, extent: usize| {
            Neighbours::of(&points.narrow(-1, axis, 1)?.squeeze(-1)?, op.sampling, op.places(extent))
        };
        let (xs, ys) = (along(0, width)?, along(1, height)?);
        Ok(Plan {
            pixels: image.reshape([batch, channels, height * width])?,
            points: count,
            extents: [width, height],
            xs,
            ys,
        })
    }

    fn corners(&self) -> Result<Vec<Corner<'_>>> {
        let pairs = self.xs.iter().flat_map(|x| self.ys.iter().map(move |y| (x, y)));
        pairs.map(|(x, y)| self.corner(x, y)).collect()
    }

    fn corner<'a>(&self, x: &'a Neighbours, y: &'a Neighbours) -> Result<Corner<'a>> {
        let [width, height] = self.extents;
        let inside = |place: &Tensor, extent: usize| place.ge(0)?.bit_and(&place.lt(extent)?);
        let index = |place: &Tensor, extent: usize| place.clamp(0, extent - 1)?.cast(place.device().default_int());
        let outside = inside(&x.place, width)?.bit_and(&inside(&y.place, height)?)?.not()?;
        let element = (index(&y.place, height)? * width as i64 + index(&x.place, width)?).tensor()?;
        Ok(Corner { x, y, element, outside })
    }

    /// What each point sees of a corner, `[N, C, points]`.
    fn values(&self, corner: &Corner<'_>) -> Result<Tensor> {
        let shape = self.pixels.shape().with(2, self.points);
        self.pixels.gather(-1, &corner.element.unsqueeze(1)?.expand(shape)?)
    }
}

/// One element that a result is made of, by flat positions.
struct Term {
    result: usize,
    element: usize,
    point: usize,
    /// The weight along an axis, and how it changes as the point moves.
    x: (f64, f64),
    y: (f64, f64),
}

/// The places next to a point along an axis that lie on it, with their weights and how those change.
fn neighbours(op: GridSample, number: f64, extent: usize) -> impl Iterator<Item = (usize, (f64, f64))> {
    let (at, slope) = op.places(extent).of(number);
    let low = at.floor();
    let (places, weights) = match op.sampling {
        Sampling::Bilinear => ([low, low + 1.0], [(1.0 - (at - low), -slope), (at - low, slope)]),
        Sampling::Nearest => ([at.round_ties_even(), f64::NAN], [(1.0, 0.0), (0.0, 0.0)]),
    };
    let inside = move |place: &f64| at > -1.0 && *place >= 0.0 && *place < extent as f64;
    let found = places.into_iter().zip(weights).filter(move |(place, _)| inside(place));
    found.map(|(place, weight)| (place as usize, weight))
}

/// Calls `f` with every term of every result.
fn visit(op: GridSample, inputs: &[RefTensor], mut f: impl FnMut(Term)) -> Result<()> {
    let Extents { batch, channels, height, width, points: count } = Extents::new(&inputs[0].spec, &inputs[1].spec)?;
    let points = inputs[1].floats();
    for point in 0..batch * count {
        for (row, y) in neighbours(op, points[2 * point + 1], height) {
            for (column, x) in neighbours(op, points[2 * point], width) {
                for channel in 0..channels {
                    let plane = point / count * channels + channel;
                    let element = (plane * height + row) * width + column;
                    f(Term { result: plane * count + point % count, element, point, x, y });
                }
            }
        }
    }
    Ok(())
}

fn cases(make: impl Fn(GridSample) -> Case, with_gradient: bool) -> Vec<Case> {
    // Points between elements, so that no small step crosses one; and some outside or not numbers.
    let scattered: Vec<f64> = (0..97).map(|i| (i * 29 % 97) as f64 * 0.0231 - 1.1).collect();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let odd = vec![nan, 1.0, inf, 0.5, 0.5, -inf, -1.0, 0.0, 1.0, -0.0, 3.0, 2.0, 9.0, 1.0, 0.25, 0.5];
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        let mut case = |op: GridSample, image: [usize; 4], [h, w]: [usize; 2], at: &[f64], pixels: Option<&[f64]>| {
            let special = pixels.is_some() || at.len() == odd.len();
            let pixels = pixels.map_or(Fill::Uniform(-2.0, 2.0), |values| Fill::Values(values.to_vec()));
            let grid = if op.align_corners { dtype } else { accumulator(dtype) };
            let case = make(op).input_with(image, dtype, pixels);
            let case = case.input_with([image[0], h, w, 2], grid, Fill::Values(at.to_vec()));
            let case = if with_gradient { case.input([image[0], image[1], h, w], dtype) } else { case };
            // The gradients of nearest elements do not depend on the image, and there is nothing to mirror in one element.
            let one = op.align_corners && op.outside == Outside::Reflection && image == [1; 4];
            let constant = with_gradient && (op.sampling == Sampling::Nearest || one);
            cases.push(if special || constant { case.not_smooth() } else { case });
        };
        for sampling in [Sampling::Bilinear, Sampling::Nearest] {
            for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
                for (align_corners, pixels) in [(false, false), (true, false), (false, true)] {
                    let op = GridSample { sampling, outside, align_corners, pixels };
                    case(op, [2, 3, 4, 5], [3, 4], &scattered, None);
                    case(op, [1, 1, 1, 1], [2, 2], &scattered, None);
                    case(op, [1, 2, 3, 4], [2, 4], &odd, None);
                    case(op, [1, 1, 2, 2], [2, 4], &odd, Some(&[inf, 1.0, nan, -1.0]));
                }
            }
            let op = GridSample { sampling, ..GridSample::default() };
            case(op, [3, 2, 7, 1], [0, 4], &[], None);
            case(op, [0, 2, 3, 3], [2, 2], &[], None);
            case(op, [2, 0, 3, 3], [2, 2], &scattered, None);
            case(op, [2, 5, 9, 8], [70, 65], &scattered, None);
        }
    }
    cases
}

impl Tensor {
    /// This image `[N, C, H, W]` sampled at points of a grid `[N, h, w, 2]`: gives `[N, C, h, w]`. The last axis of the grid
    /// holds x and y, which go from -1 at the left and upper border to 1 at the right and lower one, or count elements (see
    /// [`GridSample::pixels`]). Both of one floating-point dtype, or the grid f32 beside half precision; computed in at least
    /// f32. Differentiable in both; that of [`Sampling::Nearest`] in the grid is 0. What is no number lies outside.
    ///
    /// # Errors
    /// Where shapes do not fit, the image has no elements along an axis, or dtypes differ or are not floating point.
    pub fn grid_sample(&self, grid: &Tensor, options: GridSample) -> Result<Tensor> {
        run::call(options.into(), [self.into(), grid.into()])
    }
}
