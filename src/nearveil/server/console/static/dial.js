// The slider: what a distance to hide within costs and gives, between measured points.

import { drawDial } from "./dial-chart.js";
import { showLegend } from "./legend.js";
import { onTheme } from "./theme.js";
import { $, length, make, percent } from "./dom.js";

export const VALUES_M = [50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900,
  1000, 1200, 1400, 1600, 1800, 2000];
const SLIDERS = [["hide", "hide-value"], ["attack-hide", "attack-hide-value"]];

let points = [], setting = null, chosen = 500;

export const hideWithin = () => chosen;

export function showDial(prediction, state) {
  points = prediction.points;
  setting = state.policy === "off" ? null : state.hide_within_m;
  $("measured").textContent = `Measured on ${prediction.population}, not on the people of this service. ${prediction.protocol} `
    + "Between measured distances the figures are interpolated.";
  showLegend($("dial-legend"), [["circle", "blue", "recall of 10"], ["square", "sky", "recall of 50"],
    ["triangle", "orange", "found within 100 m"], ["filled", "vermilion", "attacker's mean error"]]);
  for (const [slider] of SLIDERS) {
    $(slider).max = VALUES_M.length - 1;
    $(slider).addEventListener("input", () => choose(VALUES_M[$(slider).value]));
  }
  choose(nearest(setting ?? 500));
  onTheme(draw);
  new ResizeObserver(draw).observe($("dial-plot"));
}

function nearest(metres) {
  const apart = (value) => Math.abs(Math.log(value / metres));
  return VALUES_M.reduce((best, value) => apart(value) < apart(best) ? value : best);
}

function choose(metres) {
  chosen = metres;
  for (const [slider, output] of SLIDERS) {
    $(slider).value = VALUES_M.indexOf(metres);
    $(slider).setAttribute("aria-valuetext", `${metres} metres`);
    $(output).textContent = length(metres);
  }
  showFigures();
  draw();
}

function draw() {
  if (points.length && $("dial-plot").clientWidth) drawDial($("dial-plot"), points, chosen, setting);
}

// Straight between measured points, by the logarithm of the distance; beyond them as at the last one.
export function interpolated(measured, name, metres) {
  const after = measured.findIndex((point) => point.hide_within_m >= metres);
  if (after === -1) return measured.at(-1)[name];
  if (after === 0) return measured[0][name];
  const [low, high] = [measured[after - 1], measured[after]];
  const share = Math.log(metres / low.hide_within_m) / Math.log(high.hide_within_m / low.hide_within_m);
  return low[name] + share * (high[name] - low[name]);
}

function showFigures() {
  const value = (name) => interpolated(points, name, chosen);
  const figure = (kind, term, number, note) => make("div", { className: kind }, make("dt", { textContent: term }),
    make("dd", { textContent: number }), make("dd", { className: "note", textContent: note }));
  $("figures").replaceChildren(
    figure("r10", "Recall of the 10 nearest", percent(value("recall_10")),
      `${(10 * value("recall_10")).toFixed(1)} of the 10 truly nearest are listed`),
    figure("r50", "Recall of the 50 nearest", percent(value("recall_50")),
      `${Math.round(50 * value("recall_50"))} of the 50 truly nearest are listed`),
    figure("error", "The best attacker is off by", length(value("error_m")), "on average"),
    figure("share", "Found within 100 m", percent(value("within_100_m")), "of people, by the best attacker"));
}
