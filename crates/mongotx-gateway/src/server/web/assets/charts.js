// Lines over the last minutes, as SVG. Values come as numbers, and nothing else is put into it.

const SPAN_MS = 300_000;
const WIDE = 480;
const HIGH = 176;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;

function svg(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The least of 1, 2, 5, 10, 20, … that is not less. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999999) ?? 10 * power;
}

/** Where values stand: from nothing up to the largest one. */
function linear(most) {
  const top = round(Math.max(most, 4));
  return { place: (value) => value / top, ticks: [0, 1, 2, 3, 4, 5].map((part) => (part * top) / 5) };
}

/** Where values stand: equal factors take equal room. */
function logarithmic(least, most) {
  const low = Math.floor(Math.log10(Math.max(least, 1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(most, 1))), low + 1);
  const ticks = [];
  for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
  return { place: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low), ticks };
}

/**
 * Draws series into an element, as `how` says: `{log, words: value => text}`. A series is
 * `{name, colour, dashed, points: [[time, value or null], …]}`.
 */
function draw(element, legend, series, now, how) {
  const values = series.flatMap((one) => one.points.map((point) => point[1])).filter((value) => value !== null);
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const least = values.reduce((a, b) => Math.min(a, b), Infinity);
  const scale = how.log ? logarithmic(least, most) : linear(most);
  const x = (time) => LEFT + (1 - (now - time) / SPAN_MS) * (WIDE - LEFT - 4);
  const y = (value) => TOP + (1 - scale.place(value)) * (HIGH - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
  for (const tick of scale.ticks) {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: WIDE - 4, y1: y(tick), y2: y(tick) }));
    picture.append(svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, how.words(tick)));
  }
  for (const minutes of [4, 3, 2, 1, 0]) {
    const words = minutes === 0 ? "now" : `−${minutes} min`;
    const anchor = minutes === 0 ? "end" : "middle";
    picture.append(svg("text", { x: x(now - minutes * 60_000), y: HIGH - 5, "text-anchor": anchor }, words));
  }
  for (const one of series) {
    let path = "";
    let pen = "M";
    for (const [time, value] of one.points) {
      if (value === null || time < now - SPAN_MS) {
        pen = "M";
        continue;
      }
      // A second that stands alone is a dot.
      path += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h0" : ""}`;
      pen = "L";
    }
    if (path) picture.append(svg("path", { class: `${one.colour}${one.dashed ? " dashed" : ""}`, d: path }));
  }
  element.replaceChildren(picture);
  legend.replaceChildren(
    ...series
      .filter((one) => !one.dashed)
      .map((one) => {
        const entry = make("span", { class: one.colour });
        const last = one.points.at(-1)?.[1];
        entry.append(make("i"), one.name, make("b", {}, last === null || last === undefined ? "–" : how.words(last)));
        return entry;
      }),
  );
}
