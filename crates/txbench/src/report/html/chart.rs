//! What a chart shows, as the page's script draws it. What is worth a chart is decided in [`super::charts`].

use serde::Serialize;

/// One place on the page with a chart in it.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What stands above it.
    pub title: String,
    /// How to read it, a sentence or two.
    #[serde(skip)]
    pub about: String,
    /// What can be chosen to be shown; the first is shown at once. A figure without views is none.
    pub views: Vec<View>,
}

/// One of the views of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// What is chosen by.
    #[serde(skip)]
    pub label: String,
    /// What is drawn.
    pub plot: Plot,
}

/// What is drawn.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum Plot {
    /// Lines with a horizontal and a vertical axis.
    Lines {
        /// The horizontal one.
        x: Axis,
        /// The vertical one.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
    },
    /// Lying bars, stacked where they have several parts.
    Bars {
        /// What is measured, with its unit.
        label: String,
        /// The parts that every bar has.
        parts: Vec<Part>,
        /// The bars, those of one group next to each other.
        bars: Vec<Bar>,
    },
}

/// One axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// How values are spread over it.
    pub scale: Scale,
    /// Where it is marked; empty: where it fits.
    pub ticks: Vec<f64>,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// From 0, evenly.
    Linear,
    /// Each power of ten takes the same space.
    Log,
    /// Percent; what is missing to 100 is spread as with [`Scale::Log`].
    Percentile,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The target that switches it.
    pub target: String,
    /// What it is called.
    pub name: String,
    /// Whether it is a lesser line beside another one of the same target.
    pub dashed: bool,
    /// From left to right, or in the order in which they are joined.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Where it is.
    pub x: f64,
    /// Where it is; means nothing when it is broken.
    pub y: f64,
    /// The least of all rounds, with [`Self::most`].
    pub least: Option<f64>,
    /// The most of all rounds.
    pub most: Option<f64>,
    /// What else is to be said of it.
    pub note: String,
    /// Why there are no figures.
    pub broken: Option<String>,
}

/// A part of all bars.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// Its colour, 0 to 8; `None`: that of the bar's target.
    pub colour: Option<u8>,
}

/// One bar.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// The target that switches it.
    pub target: String,
    /// The heading it stands under.
    pub group: String,
    /// A value for each part.
    pub values: Vec<f64>,
    /// What else is to be said of it.
    pub note: String,
    /// Why there are no figures.
    pub broken: Option<String>,
}

impl Axis {
    /// An axis that is marked where it fits.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ticks: Vec::new() }
    }
}

impl Figure {
    /// Whether there is anything to see.
    pub fn has_figures(&self) -> bool {
        self.views.iter().any(|view| match &view.plot {
            Plot::Lines { series, .. } => series.iter().any(|line| line.points.iter().any(|p| p.broken.is_none())),
            Plot::Bars { bars, .. } => bars.iter().any(|bar| bar.broken.is_none()),
        })
    }
}
