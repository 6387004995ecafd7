//! Charts as SVG, drawn by hand: they need no script, print sharply, and take their colours from
//! the page's style, for light, dark and paper alike.

use std::fmt::Write as _;

use crate::report::html::escaped;
use crate::units::{micros, rate};

/// Width of a chart in its own units.
const WIDTH: f64 = 480.0;
/// Height of a chart.
const HEIGHT: f64 = 230.0;
/// Room for the labels on the left.
const LEFT: f64 = 64.0;
/// Room on the right.
const RIGHT: f64 = 16.0;
/// Room above.
const TOP: f64 = 12.0;
/// Room for the labels below.
const BOTTOM: f64 = 36.0;
/// Colours that the style sheet has.
pub const COLOURS: usize = 10;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Latency by percentile: both axes logarithmic, so that the rare and slow are seen.
pub fn percentiles(title: &str, lines: &[Line]) -> String {
    // 50 % lies on the left, each further nine the same distance to the right.
    let place = |percentile: f64| -((100.0 - percentile.min(99.999)) / 100.0).log10();
    let lines: Vec<Line> = lines
        .iter()
        .map(|line| Line {
            points: line.points.iter().map(|(x, y)| (place(*x), *y)).collect(),
            ..line.clone()
        })
        .collect();
    let marks: Vec<(f64, String)> = [50.0, 90.0, 99.0, 99.9, 99.99]
        .iter()
        .map(|percentile| (place(*percentile), format!("p{percentile}")))
        .collect();
    let frame = Frame::over(&lines, (place(1.0), place(99.99)), Scale::Logarithmic);
    frame.draw(title, &lines, &marks, micros)
}

/// A rate over time.
pub fn series(title: &str, lines: &[Line]) -> String {
    let end = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(0.1, f64::max);
    let marks: Vec<(f64, String)> = (0..=4)
        .map(|index| f64::from(index) * end / 4.0)
        .map(|x| (x, format!("{x:.1} s")))
        .collect();
    let frame = Frame::over(lines, (0.0, end), Scale::FromZero);
    frame.draw(title, lines, &marks, |value| format!("{}/s", rate(value)))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Logarithmic,
    FromZero,
}

struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    scale: Scale,
}

impl Frame {
    fn over(lines: &[Line], x: (f64, f64), scale: Scale) -> Self {
        let values =
            || lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).filter(|y| *y > 0.0);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        let y = match (low.is_finite() && high.is_finite(), scale) {
            (false, _) => (1.0, 10.0),
            (true, Scale::FromZero) => (0.0, high * 1.08),
            // Whole decades would waste room: a little beyond the extremes.
            (true, Scale::Logarithmic) => (low / 1.25, high * 1.25),
        };
        Self { x, y, scale }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0).max(1e-9);
        let up = match self.scale {
            Scale::FromZero => (y - self.y.0) / (self.y.1 - self.y.0).max(1e-9),
            Scale::Logarithmic => (y / self.y.0).ln() / (self.y.1 / self.y.0).ln().max(1e-9),
        };
        let up = up.clamp(0.0, 1.0);
        (
            LEFT + across.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )
    }

    /// Where the horizontal lines lie.
    fn levels(&self) -> Vec<f64> {
        match self.scale {
            Scale::FromZero => {
                let step = nice((self.y.1 - self.y.0) / 4.0);
                (0..8)
                    .map(|index| f64::from(index) * step)
                    .filter(|level| *level <= self.y.1)
                    .collect()
            }
            Scale::Logarithmic => {
                let wide = self.y.1 / self.y.0 > 200.0;
                let within = |digits: &[f64]| -> Vec<f64> {
                    (-3..10)
                        .flat_map(|power| {
                            digits.iter().map(move |digit| digit * 10_f64.powi(power))
                        })
                        .filter(|level| (self.y.0..=self.y.1).contains(level))
                        .collect()
                };
                if wide { within(&[1.0]) } else { within(&[1.0, 2.0, 5.0]) }
            }
        }
    }

    fn draw(
        &self,
        title: &str,
        lines: &[Line],
        marks: &[(f64, String)],
        label: impl Fn(f64) -> String,
    ) -> String {
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escaped(title)
        );
        // Writing into a String does not fail.
        for level in self.levels() {
            let (_, y) = self.at(self.x.0, level);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"label\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                escaped(&label(level))
            );
        }
        for (mark, text) in marks {
            let (x, _) = self.at(*mark, self.y.0);
            let anchor = match () {
                () if x < LEFT + 1.0 => "start",
                () if x > WIDTH - RIGHT - 1.0 => "end",
                () => "middle",
            };
            let _ = write!(
                svg,
                "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>\
                 <text class=\"label\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{text}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 5.0,
                HEIGHT - BOTTOM + 20.0,
            );
        }
        for line in lines {
            let points: Vec<String> = line
                .points
                .iter()
                .map(|(x, y)| self.at(*x, *y))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = write!(
                svg,
                "<polyline class=\"line c{}\" points=\"{}\"><title>{}</title></polyline>",
                line.colour % COLOURS,
                points.join(" "),
                escaped(&line.name)
            );
        }
        svg + "</svg>" + &legend(lines)
    }
}

fn legend(lines: &[Line]) -> String {
    let entries: Vec<String> = lines
        .iter()
        .map(|line| {
            format!(
                "<span class=\"key\"><i class=\"c{}\"></i>{}</span>",
                line.colour % COLOURS,
                escaped(&line.name)
            )
        })
        .collect();
    format!("<div class=\"legend\">{}</div>", entries.join(""))
}

/// The next of 1, 2, 5 times a power of ten.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= value * 0.999);
    digit.unwrap_or(10.0) * power
}
