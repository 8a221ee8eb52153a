// Charts of bars that lie: a bar for each target, stacked where it has several parts.
"use strict";

const BARS = { width: 640, left: 150, right: 58, row: 23, head: 26, bottom: 44 };

/** Draws the bars of the targets that are switched on. */
function drawBars(title, plot, isShown, colourOf) {
  const bars = plot.bars.filter((bar) => isShown(bar.target));
  const groups = [...new Set(bars.map((bar) => bar.group))];
  const height = bars.length * BARS.row + groups.length * BARS.head + BARS.bottom;
  const svg = surface(BARS.width, height, title);
  const sum = (bar) => bar.values.reduce((all, value) => all + value, 0);
  const axis = { label: plot.label, scale: "linear", ticks: [] };
  const scale = makeScale(axis, bars.map(sum), BARS.left, BARS.width - BARS.right);
  drawBarAxis(svg, plot, scale, height - BARS.bottom);
  const points = [];
  let top = 0;
  for (const group of groups) {
    draw(svg, "text", { class: "group", x: 4, y: top + 17 }, group);
    top += BARS.head;
    for (const bar of bars.filter((one) => one.group === group)) {
      points.push(...drawBar(svg, plot, bar, scale, top, colourOf(bar.target)));
      top += BARS.row;
    }
  }
  explore(svg, points);
  return svg;
}

function drawBarAxis(svg, plot, scale, bottom) {
  for (const tick of scale.ticks) {
    draw(svg, "line", { class: "grid", x1: scale.at(tick), x2: scale.at(tick), y1: 0, y2: bottom });
    draw(svg, "text", { class: "tick", x: scale.at(tick), y: bottom + 17, "text-anchor": "middle" }, shortNumber(tick));
  }
  draw(svg, "text", { class: "axis", x: (BARS.left + BARS.width - BARS.right) / 2, y: bottom + 36, "text-anchor": "middle" }, plot.label);
}

function drawBar(svg, plot, bar, scale, top, colour) {
  const middle = top + BARS.row / 2;
  marker(svg, colour, 12, middle, 4.5);
  draw(svg, "text", { x: 24, y: middle + 4 }, bar.target);
  if (bar.broken) {
    draw(svg, "text", { class: "none", x: BARS.left + 6, y: middle + 4 }, "✕ BROKEN");
    return [{ x: BARS.left + 40, y: middle, says: `${bar.target}, ${bar.group}\nBROKEN: ${bar.broken}` }];
  }
  const places = [];
  let from = 0;
  bar.values.forEach((value, at) => {
    const [left, right] = [scale.at(from), scale.at(from + value)];
    from += value;
    if (value === 0) return;
    const part = plot.parts[at];
    const fill = part.colour === null ? `var(--t${colour})` : `var(--p${part.colour})`;
    draw(svg, "rect", { x: left, y: top + 3, width: Math.max(right - left - 0.75, 0.5), height: BARS.row - 6, rx: 1.5, fill });
    const inside = (x, y) => (Math.abs(y - middle) <= BARS.row / 2 && x >= left && x <= right ? 0 : 1e9);
    places.push({ x: (left + right) / 2, y: middle, inside, says: `${bar.target}, ${bar.group}\n${part.name}: ${shortNumber(value)}` });
  });
  draw(svg, "text", { x: scale.at(from) + 6, y: middle + 4 }, shortNumber(from));
  const notes = [bar.note, ...(places.length > 1 ? [`all: ${shortNumber(from)}`] : [])].filter(Boolean);
  return places.map((place) => ({ ...place, says: [place.says, ...notes].join("\n") }));
}

/** Which colour is which part; nothing where bars have the colours of their targets. */
function keyOf(plot) {
  const key = document.createElement("div");
  key.className = "key";
  for (const part of (plot.parts ?? []).filter((one) => one.colour !== null)) {
    const entry = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.style.background = `var(--p${part.colour})`;
    entry.append(swatch, part.name);
    key.append(entry);
  }
  return key;
}
