"use strict";
// Fetches the demo's state twice a second, and shows it. All of it is put into the page as text.

const ASK_EVERY_MS = 500;
const WIDE = 960;
const HIGH = 180;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;

const PHASES = {
  prepares: "a server is made ready",
  runs: "the bank runs",
  checks: "what is left of the bank is checked",
  kept: "every promise was kept",
  broken: "a promise was BROKEN",
  failed: "the demo could not be carried out",
};
const OVER = ["kept", "broken", "failed"];

const byId = (id) => document.getElementById(id);
const count = (value) => Math.round(value).toLocaleString("en");

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

/** An empty picture with an axis from 0 to at least `most`, and the place of a value on it. */
function axes(most, words) {
  const top = round(Math.max(most, 4));
  const y = (value) => TOP + (1 - value / top) * (HIGH - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": words });
  for (const part of [0, 1, 2, 3, 4]) {
    const value = (part * top) / 4;
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: WIDE - 4, y1: y(value), y2: y(value) }));
    picture.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, count(value)));
  }
  return { picture, y };
}

function showRates(state) {
  // The last second is not over yet, unless the run is.
  const seconds = state.phase === "runs" ? state.seconds.slice(0, -1) : state.seconds;
  if (seconds.length === 0) return;
  const most = seconds.reduce((a, [transfers]) => Math.max(a, transfers), 0);
  const { picture, y } = axes(most, `Transfers in each second, ${count(most)} at most`);
  const span = Math.max(seconds.length - 1, 1);
  const x = (n) => LEFT + (n / span) * (WIDE - LEFT - 24);
  seconds.forEach(([, kills], n) => {
    if (kills > 0) picture.append(svg("line", { class: "kill", x1: x(n), x2: x(n), y1: TOP, y2: HIGH - BOTTOM }));
  });
  const line = seconds.map(([transfers], n) => `${n === 0 ? "M" : "L"}${x(n).toFixed(1)} ${y(transfers).toFixed(1)}`);
  picture.append(svg("path", { d: `${line.join("")}h0` }));
  for (const n of [0, seconds.length - 1]) {
    const words = `${state.first_second + n + 1} s`;
    picture.append(svg("text", { x: x(n), y: HIGH - 5, "text-anchor": n === 0 ? "start" : "end" }, words));
  }
  byId("rates").replaceChildren(picture);
}

function showAccounts(state) {
  const { balances, sum, age_ms: age } = state.accounts;
  const most = balances.reduce((a, b) => Math.max(a, b), 0);
  const least = balances.reduce((a, b) => Math.min(a, b), Infinity);
  const { picture, y } = axes(most, `Balances of ${balances.length} accounts, from ${count(least)} to ${count(most)}`);
  const step = (WIDE - LEFT - 4) / balances.length;
  const wide = Math.max(step * 0.8, 0.3).toFixed(2);
  const bars = balances.map((balance, n) => {
    const high = (y(0) - y(Math.max(balance, 0))).toFixed(1);
    return `M${(LEFT + n * step).toFixed(2)} ${y(0).toFixed(1)}v-${high}h${wide}v${high}z`;
  });
  picture.append(svg("path", { class: "bars", d: bars.join("") }));
  const even = y(state.expected / balances.length);
  picture.append(svg("line", { class: "even", x1: LEFT, x2: WIDE - 4, y1: even, y2: even }));
  byId("accounts").replaceChildren(picture);
  const words = `The balance of each, all read in one transaction ${(age / 1_000).toFixed(1)} s ago. Dashed: what each began with.`;
  byId("accounts-words").textContent = words;
  const tile = byId("tile-sum");
  tile.textContent = sum === state.expected ? count(sum) : `${count(sum)} instead of ${count(state.expected)}`;
  tile.className = sum === state.expected ? "good" : "wrong";
}

function showTiles(state) {
  const { figures } = state;
  const rate = state.phase === "runs" ? (state.seconds.at(-2)?.[0] ?? figures.per_second) : figures.per_second;
  const tiles = { rate, transfers: figures.transfers, kills: figures.kills, repairs: figures.repairs, conflicts: figures.conflicts };
  for (const [id, value] of Object.entries(tiles)) byId(`tile-${id}`).textContent = count(value);
  const sums = byId("tile-sums");
  sums.textContent = figures.wrong_sums > 0 ? `${figures.wrong_sums} of ${figures.sums} WRONG` : `${count(figures.sums)} right`;
  sums.className = figures.wrong_sums > 0 ? "wrong" : "";
  const failures = figures.failures.map((words) => {
    const item = document.createElement("li");
    item.textContent = words;
    return item;
  });
  byId("failures").hidden = failures.length === 0;
  byId("failures").querySelector("ul").replaceChildren(...failures);
}

function showWorkers(state) {
  const items = state.workers.map(({ number, incarnation, killed_ms_ago: ago }) => {
    const item = document.createElement("li");
    const isNew = state.phase === "runs" && ago !== null && ago < 1_500;
    item.className = isNew ? "killed" : "";
    const times = incarnation > 0 ? `, killed ${incarnation === 1 ? "once" : `${incarnation} times`}` : "";
    item.textContent = isNew ? `worker ${number}: killed, and started again` : `worker ${number}${times}`;
    return item;
  });
  byId("workers").replaceChildren(...items);
}

function show(state) {
  const phase = byId("phase");
  phase.textContent = PHASES[state.phase] ?? state.phase;
  phase.className = { kept: "good", broken: "wrong", failed: "wrong" }[state.phase] ?? "faint";
  byId("progress").value = state.length_ms > 0 ? Math.min(state.elapsed_ms / state.length_ms, 1) : 0;
  byId("lines").textContent = state.lines.join("\n");
  showWorkers(state);
  if (state.figures) {
    showTiles(state);
    showRates(state);
  }
  if (state.accounts) showAccounts(state);
}

function complain(words) {
  const problem = byId("problem");
  problem.hidden = !words;
  problem.textContent = words ?? "";
}

async function ask() {
  try {
    const answer = await fetch("state");
    if (!answer.ok) throw new Error(await answer.text());
    const state = await answer.json();
    show(state);
    complain(null);
    // The demo ends now, and its page with it; this one stays as it is.
    if (OVER.includes(state.phase)) return;
  } catch (error) {
    complain(`The demo does not answer: ${error.message}`);
  }
  setTimeout(ask, ASK_EVERY_MS);
}

ask();
