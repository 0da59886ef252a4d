//! Line charts as inline SVG: axes with round ticks, a legend, a tooltip on every point.

use std::fmt::Write;

use super::page::escape;

/// One line of a chart, a value for each epoch; values that are not finite leave a gap.
pub(super) struct Series {
    /// Its name in the legend.
    pub name: &'static str,
    /// The CSS class that colours it.
    pub class: &'static str,
    /// The values, by epoch from 1.
    pub values: Vec<f64>,
}

/// What a chart shows besides its lines.
pub(super) struct Chart {
    /// Names it for readers that do not see it.
    pub title: &'static str,
    /// Both lines, drawn in this order.
    pub series: [Series; 2],
    /// The values that the axis covers even where no line reaches them.
    pub include: &'static [f64],
    /// The values that the axis never goes beyond.
    pub bounds: (f64, f64),
    /// How a value is written on the axis and in tooltips, given the decimals that the ticks need.
    pub format: fn(f64, usize) -> String,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 42.0;

/// A linear axis: its ends, its ticks, and the decimals that tell them apart.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    decimals: usize,
}

impl Axis {
    /// An axis over `low..=high` with ticks at about `count` multiples of 1, 2 or 5 times a power of ten.
    fn new(low: f64, high: f64, count: f64, smallest_step: f64) -> Axis {
        // Values too close to tell apart, in f64 or by people, get a span of their own.
        let span = (high - low).max(low.abs().max(high.abs()) * 1e-9).max(1e-12);
        let step = round_step(span / count).max(smallest_step);
        let first = (low / step + 1e-9).floor();
        let last = ((high / step - 1e-9).ceil()).max(first + 1.0);
        let intervals = (last - first).clamp(1.0, 50.0) as u32;
        Axis {
            low: first * step,
            high: last * step,
            ticks: (0..=intervals).map(|i| (first + f64::from(i)) * step).collect(),
            decimals: (-step.log10().floor()).clamp(0.0, 12.0) as usize,
        }
    }

    /// Where `value` is between the ends, 0 to 1.
    fn position(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// The smallest of 1, 2 or 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|round| *round >= step).unwrap_or(10.0 * power)
}

impl Chart {
    /// The chart as an `<svg>` element, or a sentence where there is nothing to draw.
    pub fn svg(&self) -> String {
        let finite = |value: &f64| value.is_finite() && value.abs() < 1e300;
        let values = || self.series.iter().flat_map(|series| &series.values).copied().filter(finite);
        let epochs = self.series.iter().map(|series| series.values.len()).max().unwrap_or(0);
        if values().next().is_none() {
            return format!("<p class=\"none\">{}: no epoch gave a finite value.</p>", escape(self.title));
        }
        let all = || values().chain(self.include.iter().copied());
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let mut y = Axis::new(low, high, 5.0, 0.0);
        y.ticks.retain(|tick| (self.bounds.0 - 1e-9..=self.bounds.1 + 1e-9).contains(tick));
        y.low = y.low.max(self.bounds.0);
        y.high = y.high.min(self.bounds.1);
        let plot = Plot { chart: self, x: epoch_axis(epochs), y };
        plot.svg(epochs)
    }
}

fn epoch_axis(epochs: usize) -> Axis {
    let last = epochs.max(2) as f64;
    let mut axis = Axis::new(1.0, last, 8.0, 1.0);
    axis.low = 1.0;
    axis.high = last;
    axis.ticks.retain(|tick| (1.0..=epochs as f64).contains(tick));
    if axis.ticks.first() != Some(&1.0) {
        axis.ticks.insert(0, 1.0);
    }
    axis
}

struct Plot<'a> {
    chart: &'a Chart,
    x: Axis,
    y: Axis,
}

impl Plot<'_> {
    fn x_at(&self, epoch: f64) -> f64 {
        LEFT + self.x.position(epoch) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.position(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn svg(&self, epochs: usize) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over {epochs} epochs\">",
            escape(self.chart.title)
        );
        self.grid(&mut svg);
        for series in &self.chart.series {
            self.line(&mut svg, series);
        }
        svg.push_str("</svg>");
        svg
    }

    /// Writing to a `String` cannot fail, so the results of `write!` carry nothing here and below.
    fn grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in &self.y.ticks {
            let (y, label) = (self.y_at(*tick), (self.chart.format)(*tick, self.y.decimals));
            let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            let _ = write!(svg, "<text class=\"ty\" x=\"{}\" y=\"{:.1}\">{label}</text>", LEFT - 8.0, y + 4.0);
        }
        let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>");
        for tick in &self.x.ticks {
            let x = self.x_at(*tick);
            let _ = write!(svg, "<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/>");
            let _ = write!(svg, "<text class=\"tx\" x=\"{x:.1}\" y=\"{}\">{tick}</text>", bottom + 18.0);
        }
        let middle = (LEFT + right) / 2.0;
        let _ = write!(svg, "<text class=\"tx\" x=\"{middle}\" y=\"{}\">epoch</text>", HEIGHT - 5.0);
    }

    fn line(&self, svg: &mut String, series: &Series) {
        let mut path = String::new();
        let mut points = String::new();
        let mut pen_down = false;
        // Thousands of markers would hide the line.
        let radius = if series.values.len() > 60 { 1.2 } else { 3.0 };
        for (epoch, value) in (1_u32..).zip(&series.values) {
            if !(value.is_finite() && value.abs() < 1e300) {
                pen_down = false;
                continue;
            }
            let (x, y) = (self.x_at(f64::from(epoch)), self.y_at(*value));
            let _ = write!(path, "{}{x:.1} {y:.1}", if pen_down { 'L' } else { 'M' });
            pen_down = true;
            let label = (self.chart.format)(*value, self.y.decimals + 2);
            let _ = write!(
                points,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{}, epoch {epoch}: {label}</title></circle>",
                series.name
            );
        }
        let _ = write!(svg, "<g class=\"{}\"><path d=\"{path}\"/>{points}</g>", series.class);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chart(train: Vec<f64>, validation: Vec<f64>) -> Chart {
        Chart {
            title: "Loss",
            series: [
                Series { name: "training", class: "train", values: train },
                Series { name: "validation", class: "valid", values: validation },
            ],
            include: &[0.0],
            bounds: (f64::NEG_INFINITY, f64::INFINITY),
            format: |value, decimals| format!("{value:.decimals$}"),
        }
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::new(0.0, 0.87, 5.0, 0.0);
        assert_eq!((axis.low, axis.high, axis.decimals), (0.0, 1.0, 1));
        assert_eq!(axis.ticks.len(), 6);
        let axis = Axis::new(0.813, 0.878, 5.0, 0.0);
        assert_eq!(axis.decimals, 2);
        assert!(axis.low <= 0.813 && axis.high >= 0.878);
    }

    #[test]
    fn epochs_have_whole_ticks() {
        assert_eq!(epoch_axis(1).ticks, [1.0]);
        assert_eq!(epoch_axis(3).ticks, [1.0, 2.0, 3.0]);
        let many = epoch_axis(1000).ticks;
        assert!(many.len() <= 12 && many.iter().all(|tick| tick.fract() == 0.0 && *tick >= 1.0), "{many:?}");
    }

    #[test]
    fn lines_break_where_a_value_is_not_finite() {
        let svg = chart(vec![1.0, f64::NAN, 0.5, 0.4], vec![]).svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        let line = svg.split("<g class=\"train\"><path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(chart(vec![], vec![]).svg().contains("no epoch"));
        assert!(chart(vec![f64::INFINITY], vec![f64::NAN]).svg().contains("no epoch"));
    }

    proptest! {
        #[test]
        fn any_values_stay_inside(train in proptest::collection::vec(any::<f64>(), 0..20), validation in proptest::collection::vec(-10.0..10.0_f64, 0..20)) {
            let svg = chart(train, validation).svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
            for part in svg.split(" cy=\"").skip(1) {
                let y: f64 = part.split('"').next().unwrap().parse().unwrap();
                prop_assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&y), "{y} in {svg}");
            }
        }
    }
}
