// From values to places on an axis, with ticks where a reader expects them.
"use strict";

/** A number with three digits that count, thousands apart. */
function shortNumber(n) {
  if (n === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(n))));
  const text = n.toFixed(Math.min(digits, 6));
  const trimmed = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return trimmed.replace(/\B(?=(\d{3})+$)/g, trimmed.includes(".") ? "" : "\u202f");
}

/** Steps of 1, 2 or 5 times a power of ten, about five of them. */
function linearTicks(most) {
  const rough = most / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, n) => n * step);
}

/** 1, 2, 5, 10, …; every power of ten alone where there are many. */
function logTicks(least, most) {
  const ticks = [];
  const many = Math.log10(most / least) > 3;
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most) + 1; power++) {
    for (const n of many ? [1] : [1, 2, 5]) ticks.push(n * 10 ** power);
  }
  const from = Math.max(0, ticks.findLastIndex((tick) => tick <= least * 1.0001));
  const to = ticks.findIndex((tick) => tick >= most * 0.9999);
  return ticks.slice(from, to + 1);
}

const PERCENTILES = [0, 50, 90, 99, 99.9, 99.99];

/** How values become numbers that are laid out evenly. */
const SPREAD = {
  linear: (value) => value,
  log: (value) => Math.log10(value),
  percentile: (value) => -Math.log10(1 - Math.min(value, 99.999) / 100),
};

/** A scale for these values from one place to another: `at` places a value, `ticks` are marked. */
function makeScale(axis, values, from, to) {
  const spread = SPREAD[axis.scale];
  const usable = values.filter((value) => Number.isFinite(value) && (axis.scale !== "log" || value > 0));
  const [least, most] = [Math.min(...usable), Math.max(...usable)];
  let ticks = [0, 1];
  if (axis.scale === "percentile") ticks = PERCENTILES.filter((tick) => tick <= Math.max(most, 90));
  else if (axis.ticks.length > 0) ticks = axis.ticks;
  else if (usable.length > 0 && axis.scale === "log") ticks = logTicks(least, most);
  else if (most > 0) ticks = linearTicks(most);
  let [low, high] = [spread(ticks[0]), spread(ticks[ticks.length - 1])];
  if (axis.scale !== "linear") high = Math.max(high, spread(Math.max(most, ticks[0])));
  if (high <= low) [low, high] = [low - 0.5, low + 0.5];
  return { ticks, at: (value) => from + ((spread(value) - low) / (high - low)) * (to - from) };
}
