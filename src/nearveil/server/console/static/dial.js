// The dial: what a noise, or a number of people to hide among, costs and gives, between measured points.

import { drawDial } from "./dial-chart.js";
import { showLegend } from "./legend.js";
import { onTheme } from "./theme.js";
import { $, count, length, make, percent } from "./dom.js";

export const KINDS = {
  metres: {
    key: "noise_m", label: "Noise", usual: 500, unit: "metres", ticks: [50, 100, 200, 500, 1000, 2000],
    values: [50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900,
      1000, 1200, 1400, 1600, 1800, 2000],
    text: length,
    about: "How far people are moved on average, everywhere alike. More hides better, and makes the list of people nearby less exact.",
  },
  people: {
    key: "hide_among", label: "Hide among", usual: 100, unit: "people", ticks: [20, 50, 100, 200, 500, 1000],
    values: [20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 400, 500, 600, 800, 1000],
    text: (people) => `${count(people)}\u00a0people`,
    about: "How many people are nearer to somebody than the point that is published, on average: half of all people have fewer than "
      + "about half as many others nearer. People are moved little where it is crowded, and far where few live. More hides better, "
      + "and makes the list less exact.",
  },
};
const SLIDERS = ["hide", "attack-hide"];
const SWITCHES = ["dial-kind", "attack-kind"];

let measured = { metres: [], people: [] }, kind = "metres", setting = null;
const chosen = { metres: KINDS.metres.usual, people: KINDS.people.usual };

// What a demonstration is asked for: one of the two.
export const strength = () => ({ [KINDS[kind].key]: chosen[kind] });

export function showDial(prediction, state) {
  measured = { metres: prediction.points, people: prediction.among_points };
  setting = state.hide_among === null ? { kind: "metres", value: state.noise_m } : { kind: "people", value: state.hide_among };
  $("measured").textContent = `Measured on ${prediction.population}, not on the people of this service. ${prediction.protocol} `
    + "Between measured points the figures are interpolated.";
  showLegend($("dial-legend"), [["circle", "blue", "recall of 10"], ["square", "sky", "recall of 50"],
    ["triangle", "orange", "found within 100 m"], ["cross", "green", "named in the sparsest tenth"],
    ["filled", "vermilion", "attacker's mean error"]]);
  for (const slider of SLIDERS) $(slider).addEventListener("input", () => choose(KINDS[kind].values[$(slider).value]));
  for (const name of SWITCHES) $(name).addEventListener("change", (event) => turnTo(event.target.value));
  chosen[setting.kind] = nearest(KINDS[setting.kind].values, setting.value);
  turnTo(setting.kind);
  onTheme(draw);
  new ResizeObserver(draw).observe($("dial-plot"));
}

function turnTo(other) {
  kind = other;
  const { label, values, text, about } = KINDS[kind];
  for (const name of SWITCHES) $(name).querySelector(`input[value=${kind}]`).checked = true;
  for (const slider of SLIDERS) {
    $(slider).max = values.length - 1;
    $(`${slider}-label`).textContent = label;
  }
  $("dial-text").textContent = about;
  $("dial-least").textContent = text(values[0]);
  $("dial-most").textContent = text(values.at(-1));
  choose(chosen[kind]);
}

function nearest(values, wanted) {
  const apart = (value) => Math.abs(Math.log(value / wanted));
  return values.reduce((best, value) => apart(value) < apart(best) ? value : best);
}

function choose(value) {
  const { values, unit, text } = KINDS[kind];
  chosen[kind] = value;
  for (const slider of SLIDERS) {
    $(slider).value = values.indexOf(value);
    $(slider).setAttribute("aria-valuetext", `${value} ${unit}`);
    $(`${slider}-value`).textContent = text(value);
  }
  showFigures();
  draw();
}

function draw() {
  if (!measured[kind].length || !$("dial-plot").clientWidth) return;
  drawDial($("dial-plot"), measured[kind], KINDS[kind], chosen[kind], setting?.kind === kind ? setting.value : null);
}

// Straight between measured points, by the logarithm of what was chosen; beyond them as at the last one.
export function interpolated(points, key, name, value) {
  const after = points.findIndex((point) => point[key] >= value);
  if (after === -1) return points.at(-1)[name];
  if (after === 0) return points[0][name];
  const [low, high] = [points[after - 1], points[after]];
  const share = Math.log(value / low[key]) / Math.log(high[key] / low[key]);
  return low[name] + share * (high[name] - low[name]);
}

function showFigures() {
  const value = (name) => interpolated(measured[kind], KINDS[kind].key, name, chosen[kind]);
  const figure = (className, term, number, note) => make("div", { className }, make("dt", { textContent: term }),
    make("dd", { textContent: number }), make("dd", { className: "note", textContent: note }));
  $("figures").replaceChildren(
    figure("r10", "Recall of the 10 nearest", percent(value("recall_10")),
      `${(10 * value("recall_10")).toFixed(1)} of the 10 truly nearest are listed`),
    figure("r50", "Recall of the 50 nearest", percent(value("recall_50")),
      `${Math.round(50 * value("recall_50"))} of the 50 truly nearest are listed`),
    figure("error", "The best attacker is off by", length(value("error_m")), "on average"),
    figure("share", "Found within 100 m", percent(value("within_100_m")), "of people, by the best attacker"),
    figure("named", "Named by their address", percent(value("named")), "of people, by an attacker who knows all addresses"),
    figure("exposed", "Named in the sparsest tenth", percent(value("named_sparsest")), "of those who live most alone"));
}
