//! Charts as SVG, drawn by plotters. They need no script, print sharply, and take their colours
//! from the page's style, for light, dark and paper alike: plotters draws in colours that only
//! stand for those of the style, which are put in their place at the end.

use std::error::Error;
use std::ops::Range;

use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::report::html::escaped;
use crate::units::{micros, rate};

/// Width of a chart in its own units.
const WIDTH: u32 = 480;
/// Height of a chart.
const HEIGHT: u32 = 240;
/// Room for the labels on the left.
const LEFT: u32 = 66;
/// Room for the labels below.
const BOTTOM: u32 = 30;
/// Size of the letters.
const LETTERS: u32 = 13;
/// Colours that the style sheet has.
pub const COLOURS: usize = 10;
/// Stands for the colour of letters.
const SOFT: RGBColor = RGBColor(2, 0, 0);
/// Stands for the colour of the grid.
const GRID: RGBColor = RGBColor(2, 0, 1);
/// Percentiles below say nothing that is asked for, and would take half of the room.
const FIRST_PERCENTILE: f64 = 10.0;

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

/// Latency by percentile: both axes logarithmic, so that the rare and slow are seen. Latencies in
/// microseconds.
pub fn percentiles(title: &str, lines: &[Line]) -> String {
    // Each further nine lies the same distance to the right.
    let place = |percentile: f64| -((100.0 - percentile.min(99.999)) / 100.0).log10();
    let lines = kept(lines, |(x, y)| (x >= FIRST_PERCENTILE && y > 0.0).then(|| (place(x), y)));
    let marks = [50.0, 90.0, 99.0, 99.9, 99.99];
    let across = Marked {
        axis: RangedCoordf64::from(place(FIRST_PERCENTILE)..place(99.99)),
        marks: marks.map(place).to_vec(),
    };
    let (low, high) = extremes(&lines);
    let up = Marked {
        axis: LogCoord::from((low / 1.25..high * 1.25).log_scale()),
        marks: levels(low, high),
    };
    let name = |x: &f64| {
        let mark = marks.iter().find(|mark| (place(**mark) - x).abs() < 1e-9);
        mark.map_or(String::new(), |mark| format!("p{mark}"))
    };
    framed(title, &lines, across, up, &name, &|y| micros(*y))
}

/// An axis with its own marks.
struct Marked<A> {
    axis: A,
    marks: Vec<f64>,
}

impl<A: Ranged<ValueType = f64>> Ranged for Marked<A> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// A rate over time: seconds, and operations per second.
pub fn series(title: &str, lines: &[Line]) -> String {
    let lines = kept(lines, |(x, y)| (x >= 0.0 && y >= 0.0).then_some((x, y)));
    let end = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(0.1, f64::max);
    let (_, high) = extremes(&lines);
    let seconds = |x: &f64| format!("{x:.1} s");
    framed(title, &lines, 0.0..end, 0.0..high * 1.08, &seconds, &|y| format!("{}/s", rate(*y)))
}

/// The lines with those of their points that can be shown.
fn kept(lines: &[Line], at: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> Vec<Line> {
    let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let points = |line: &Line| line.points.iter().copied().filter_map(&at).filter(finite).collect();
    lines.iter().map(|line| Line { points: points(line), ..line.clone() }).collect()
}

/// The smallest and largest value above zero; something to draw a frame of if there is none.
fn extremes(lines: &[Line]) -> (f64, f64) {
    let values =
        || lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).filter(|y| *y > 0.0);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    if low.is_finite() { (low, high) } else { (1.0, 10.0) }
}

/// Where the horizontal lines of a logarithmic axis lie: at most about ten.
fn levels(low: f64, high: f64) -> Vec<f64> {
    let digits: &[f64] = if high / low > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (-3..10)
        .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
        .filter(|level| (low / 1.25..=high * 1.25).contains(level))
        .collect()
}

fn framed<X, Y>(
    title: &str,
    lines: &[Line],
    across: X,
    up: Y,
    name_x: &dyn Fn(&f64) -> String,
    name_y: &dyn Fn(&f64) -> String,
) -> String
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let mut svg = String::new();
    // Drawing into a String does not fail; if it did, the tables still have all figures.
    match draw(&mut svg, lines, across, up, name_x, name_y) {
        Ok(()) => finished(&svg, title, lines) + &legend(lines),
        Err(_) => String::new(),
    }
}

fn draw<X, Y>(
    svg: &mut String,
    lines: &[Line],
    across: X,
    up: Y,
    name_x: &dyn Fn(&f64) -> String,
    name_y: &dyn Fn(&f64) -> String,
) -> Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin_top(10)
        .margin_right(18)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(6)
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(("sans-serif", LETTERS).into_font().color(&SOFT))
        .x_label_formatter(name_x)
        .y_label_formatter(name_y)
        .draw()?;
    for line in lines {
        let style = colour(line.colour).stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
    }
    area.present()?;
    Ok(())
}

/// Stands for a colour of the style.
fn colour(number: usize) -> RGBColor {
    RGBColor(1, 0, u8::try_from(number % COLOURS).unwrap_or(0))
}

/// The drawing as a part of the page: with the style's colours, a name for those who cannot see
/// it, and each line's own name under the pointer.
fn finished(svg: &str, title: &str, lines: &[Line]) -> String {
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let mut body =
        body.replace("\"#020000\"", "\"var(--soft)\"").replace("\"#020001\"", "\"var(--line)\"");
    for line in lines {
        let stands = format!("stroke=\"#0100{:02X}\"", line.colour % COLOURS);
        let real = format!("class=\"line\" stroke=\"var(--k{})\"", line.colour % COLOURS);
        body = body.replace(&stands, &real);
    }
    let mut named = String::new();
    let mut names = lines.iter().filter(|line| !line.points.is_empty());
    for piece in body.split_inclusive("/>") {
        match piece.strip_suffix("/>").filter(|piece| piece.contains("class=\"line\"")) {
            Some(start) => {
                let name = names.next().map_or(String::new(), |line| escaped(&line.name));
                named += &format!("{start}><title>{name}</title></polyline>");
            }
            None => named += piece,
        }
    }
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{named}",
        escaped(title)
    )
}

fn legend(lines: &[Line]) -> String {
    let entries: Vec<String> = lines
        .iter()
        .map(|line| {
            let (colour, name) = (line.colour % COLOURS, escaped(&line.name));
            format!("<span class=\"key\"><i class=\"c{colour}\"></i>{name}</span>")
        })
        .collect();
    format!("<div class=\"legend\">{}</div>", entries.join(""))
}
