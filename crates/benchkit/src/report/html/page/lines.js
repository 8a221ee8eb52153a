// Charts of lines: a series for each target.
"use strict";

const LINES = { width: 640, height: 360, left: 72, right: 18, top: 14, bottom: 46 };

/** Draws the series that are switched on; the axes fit what is shown. */
function drawLines(title, plot, isShown, colourOf) {
  const { width, height, left, right, top, bottom } = LINES;
  const svg = surface(width, height, title);
  const series = plot.series.filter((one) => isShown(one.target));
  const sound = series.flatMap((one) => one.points.filter((point) => !point.broken));
  const x = makeScale(plot.x, series.flatMap((one) => one.points.map((point) => point.x)), left, width - right);
  const y = makeScale(plot.y, sound.flatMap((point) => [point.y, point.least ?? point.y, point.most ?? point.y]), height - bottom, top);
  drawAxes(svg, plot, x, y);
  const points = series.flatMap((one) => drawSeries(svg, one, plot, x, y, colourOf(one.target)));
  if (points.length === 0) draw(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing is switched on that has figures here");
  explore(svg, points);
  return svg;
}

function drawAxes(svg, plot, x, y) {
  const { width, height, left, right, top, bottom } = LINES;
  for (const tick of y.ticks) {
    draw(svg, "line", { class: "grid", x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick) });
    draw(svg, "text", { class: "tick", x: left - 7, y: y.at(tick) + 4, "text-anchor": "end" }, shortNumber(tick));
  }
  for (const tick of x.ticks) {
    draw(svg, "line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: top, y2: height - bottom });
    const text = plot.x.scale === "percentile" ? String(tick) : shortNumber(tick);
    draw(svg, "text", { class: "tick", x: x.at(tick), y: height - bottom + 17, "text-anchor": "middle" }, text);
  }
  draw(svg, "line", { class: "base", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom });
  draw(svg, "text", { class: "axis", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, plot.x.label);
  const middle = (top + height - bottom) / 2;
  draw(svg, "text", { class: "axis", transform: `translate(13,${middle}) rotate(-90)`, "text-anchor": "middle" }, plot.y.label);
}

/** Draws one series; answers its points with their places and what they say. */
function drawSeries(svg, series, plot, x, y, colour) {
  const places = series.points.map((point) => {
    const place = point.broken ? LINES.height - LINES.bottom - 7 : y.at(point.y);
    return { point, x: x.at(point.x), y: place, says: says(series, point, plot) };
  });
  const sound = places.filter(({ point }) => !point.broken);
  const dash = series.dashed ? "5 4" : "none";
  const stroke = { stroke: `var(--t${colour})`, "stroke-width": 2, "stroke-dasharray": dash, fill: "none" };
  draw(svg, "polyline", { ...stroke, points: sound.map((place) => `${place.x},${place.y}`).join(" ") });
  for (const place of places) {
    const { point } = place;
    if (point.broken) cross(svg, place.x, place.y);
    else if (point.least !== null) {
      draw(svg, "line", { ...stroke, "stroke-width": 1.5, "stroke-dasharray": "none", x1: place.x, x2: place.x, y1: y.at(point.least), y2: y.at(point.most) });
    }
    if (!point.broken) marker(svg, colour, place.x, place.y, series.dashed ? 2.5 : 4);
  }
  return places;
}

function says(series, point, plot) {
  const figures = point.broken ? `BROKEN: ${point.broken}` : `${plot.y.label}: ${shortNumber(point.y)}`;
  const range = point.least === null || point.broken ? "" : ` [${shortNumber(point.least)}–${shortNumber(point.most)}]`;
  const notes = point.note ? `\n${point.note}` : "";
  return `${series.name}\n${plot.x.label}: ${+point.x.toPrecision(6)}\n${figures}${range}${notes}`;
}
