// Puts the charts into the page, and draws them again when a target is switched or another view is
// chosen.
"use strict";

const PAGE = JSON.parse(document.getElementById("data").textContent);
const colours = new Map(PAGE.targets.map((target) => [target.name, target.colour]));
const boxes = [...document.querySelectorAll("#targets input")];
const shown = () => new Set(boxes.filter((box) => box.checked).map((box) => box.value));

function drawFigure(element) {
  const figure = PAGE.figures[Number(element.dataset.figure)];
  const select = element.querySelector("select");
  const { plot } = figure.views[select ? select.selectedIndex : 0];
  const on = shown();
  const isShown = (target) => on.has(target);
  const make = plot.form === "lines" ? drawLines : drawBars;
  showTip(null);
  const svg = make(figure.title, plot, isShown, (target) => colours.get(target) ?? 0);
  element.querySelector(".plot").replaceChildren(keyOf(plot), svg);
}

for (const box of boxes) marker(box.parentElement.querySelector("svg"), colours.get(box.value) ?? 0, 9, 7, 5);
const figures = [...document.querySelectorAll("figure[data-figure]")];
for (const element of figures) {
  element.querySelector("select")?.addEventListener("change", () => drawFigure(element));
  drawFigure(element);
}
for (const box of boxes) box.addEventListener("change", () => figures.forEach(drawFigure));
