//! Data of charts, as the page's script draws them. Which charts there are is decided in
//! [`super::charts`].

use serde::Serialize;

/// One place on the page with a chart in it.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Title, shown above the chart on the page.
    pub title: String,
    /// Explanation of the figure for its reader, a sentence or two.
    #[serde(skip)]
    pub about: String,
    /// Views that can be chosen; the first is shown at once. A figure needs at least one.
    pub views: Vec<View>,
}

/// One view of a figure; its buttons switch between them.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// Label of the view in the choice.
    #[serde(skip)]
    pub label: String,
    /// Chart that is drawn while the view is chosen.
    pub plot: Plot,
}

/// A chart as data: what its axes or bars are, and their values.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum Plot {
    /// Lines with a horizontal and a vertical axis.
    Lines {
        /// Axis of the x values.
        x: Axis,
        /// Axis of the y values.
        y: Axis,
        /// Lines of the chart, each of one target.
        series: Vec<Series>,
    },
    /// Lying bars, stacked where they have several parts.
    Bars {
        /// Label of the bars, with the unit.
        label: String,
        /// The parts that every bar has.
        parts: Vec<Part>,
        /// The bars, those of one group next to each other.
        bars: Vec<Bar>,
    },
}

/// An axis of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Label of the axis, with the unit.
    pub label: String,
    /// Spread of the values over the length of the axis.
    pub scale: Scale,
    /// Values at which the axis has marks; empty: where they fit.
    pub ticks: Vec<f64>,
}

/// Spread of values over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// From 0, with even steps.
    Linear,
    /// Each power of ten takes the same space.
    Log,
    /// Percent; what is missing to 100 is spread as with [`Scale::Log`].
    Percentile,
}

/// One line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The target that switches it.
    pub target: String,
    /// Name of the line in the legend and beside its points.
    pub name: String,
    /// True if it is a lesser line beside another one of the same target.
    pub dashed: bool,
    /// From left to right, or in the order in which they are joined.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Horizontal position of the point.
    pub x: f64,
    /// Vertical position of the point; without meaning when the run is broken.
    pub y: f64,
    /// Least value of all rounds.
    pub least: Option<f64>,
    /// Greatest value of all rounds.
    pub most: Option<f64>,
    /// Further remark about the point.
    pub note: String,
    /// Reason why there are no figures, if there are none.
    pub broken: Option<String>,
}

/// A part of all bars.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Name of the part in the legend of the chart.
    pub name: String,
    /// Colour of the part, 0 to 8; `None`: that of the bar's target.
    pub colour: Option<u8>,
}

/// One bar of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// The target that switches it.
    pub target: String,
    /// Heading that the bar stands under.
    pub group: String,
    /// A value for each part.
    pub values: Vec<f64>,
    /// Further remark about the bar.
    pub note: String,
    /// Reason why there are no figures, if there are none.
    pub broken: Option<String>,
}

impl Axis {
    /// An axis that is marked where it fits.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ticks: Vec::new() }
    }
}

impl Figure {
    /// Returns true if any view has something to draw.
    pub fn has_figures(&self) -> bool {
        self.views.iter().any(|view| match &view.plot {
            Plot::Lines { series, .. } => series.iter().any(|line| line.points.iter().any(|p| p.broken.is_none())),
            Plot::Bars { bars, .. } => bars.iter().any(|bar| bar.broken.is_none()),
        })
    }
}
