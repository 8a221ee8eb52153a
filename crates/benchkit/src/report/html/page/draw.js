// Shapes: what every chart is drawn with.
"use strict";

const NAMESPACE = document.querySelector("svg").namespaceURI;

/** An SVG element with attributes, in a parent. */
function draw(parent, name, attributes, text) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/** The surface of a chart. It can have the focus: arrow keys go from point to point. */
function surface(width, height, label) {
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("tabindex", "0");
  return svg;
}

const MARKERS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.3 * r}L${1.25 * r},${r}L${-1.25 * r},${r}z`,
  (r) => `M0,${-1.4 * r}L${1.4 * r},0L0,${1.4 * r}L${-1.4 * r},0z`,
  (r) => `M0,${1.3 * r}L${1.25 * r},${-r}L${-1.25 * r},${-r}z`,
];

/** The marker of a target. */
function marker(parent, colour, x, y, radius) {
  const shape = MARKERS[colour % MARKERS.length](radius);
  return draw(parent, "path", { d: shape, transform: `translate(${x},${y})`, fill: `var(--t${colour})` });
}

/** The cross of a run that is broken. */
function cross(parent, x, y) {
  const d = `M${x - 5},${y - 5}l10,10m-10,0l10,-10`;
  return draw(parent, "path", { d, stroke: "var(--wrong)", "stroke-width": 2.5, fill: "none" });
}

/** Shows what a point says, beside it; hides it where there is none. */
function showTip(point, svg) {
  const tip = document.getElementById("tip");
  tip.hidden = !point;
  if (!point) return;
  tip.textContent = point.says;
  const scale = svg.getBoundingClientRect();
  const ratio = scale.width / svg.viewBox.baseVal.width;
  const [left, top] = [scale.left + point.x * ratio, scale.top + point.y * ratio];
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, left + width + 18 > innerWidth ? left - width - 12 : left + 12)}px`;
  tip.style.top = `${Math.max(4, Math.min(top - height / 2, innerHeight - height - 4))}px`;
}

/**
 * Lets a reader look at points: with the pointer the nearest one, with arrow keys one after the
 * other.
 */
function explore(svg, points) {
  const ring = draw(svg, "circle", { r: 8, fill: "none", stroke: "var(--text)", "stroke-width": 1.5, visibility: "hidden" });
  let at = -1;
  const show = (index) => {
    at = index;
    const point = points[index];
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (point) {
      ring.setAttribute("cx", point.x);
      ring.setAttribute("cy", point.y);
    }
    showTip(point, svg);
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const ratio = svg.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    const far = points.map((point) => (point.inside ? point.inside(x, y) : Math.hypot(point.x - x, point.y - y)));
    const nearest = far.indexOf(Math.min(...far));
    show(far[nearest] < 60 ? nearest : -1);
  });
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") show(-1);
    if (!step || points.length === 0) return;
    event.preventDefault();
    show((Math.max(at, step > 0 ? -1 : 0) + step + points.length) % points.length);
  });
}
