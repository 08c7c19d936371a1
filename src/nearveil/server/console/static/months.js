// What months give away: found within 100 m against months, for the settings of this service if they were measured.

import { showLegend } from "./legend.js";
import { colour, faint, onTheme } from "./theme.js";
import { $, count, make } from "./dom.js";

const LOOKS = {
  "density": { hue: "blue", symbol: "circle-open", mark: "circle", dash: "dot", label: "at home, no address known" },
  "addresses": { hue: "vermilion", symbol: "diamond", mark: "filled", dash: "solid", label: "at home, every address known" },
  "home and work": { hue: "purple", symbol: "square", mark: "square", dash: "dash", label: "commutes, home and work known" },
};

let curves = [];

export function showMonths(year) {
  // Commuters are found by those who know where people work; for the others, who stays at home is the worse case.
  curves = year.curves.filter(({ person, attacker }) => (person === "commutes") === (attacker === "home and work"));
  $("months-figures").hidden = !curves.length;
  $("months-text").textContent = about(year);
  $("months-measured").textContent = `Measured on ${year.population}, not on the users of this service, by \u2018${year.command}\u2019. `
    + year.protocol;
  if (!curves.length) return;
  showLegend($("months-legend"), curves.map(({ attacker }) => [LOOKS[attacker].mark, LOOKS[attacker].hue, LOOKS[attacker].label]));
  showTable();
  draw();
  onTheme(draw);
  new ResizeObserver(draw).observe($("months-plot"));
}

function about({ settings, command }) {
  const how = `\u2018nearveil plan\u2019 measures months on your own users, and \u2018${command}\u2019 on synthetic ones.`;
  if (!curves.length) return `What months of published locations give away was not measured for these settings. ${how}`;
  const { months } = curves[0];
  return `Everything that is published of a user in ${months[0]} to ${months[months.length - 1]} months, combined by one attacker. `
    + `Every twentieth fix of a phone is 150 m off. These are the settings of this service: ${settings}.`;
}

const text = ({ value, low, high }) => `${(100 * value).toFixed(0)}\u00a0% (${(100 * low).toFixed(0)}\u00a0to\u00a0${(100 * high).toFixed(0)})`;

function showTable() {
  const cell = (tag, textContent, properties = {}) => make(tag, { textContent, ...properties });
  $("months-table").querySelector("thead").replaceChildren(make("tr", {}, cell("th", "Months", { scope: "col" }),
    ...curves.map(({ attacker, people }) => cell("th", `${LOOKS[attacker].label}; ${count(people)} people`, { scope: "col" }))));
  $("months-table").querySelector("tbody").replaceChildren(...curves[0].months.map((months, row) => make("tr", {},
    cell("th", count(months), { scope: "row" }), ...curves.map(({ found }) => cell("td", text(found[row]))))));
}

function draw() {
  const plot = $("months-plot");
  if (!curves.length || !plot.clientWidth) return;
  const axis = { gridcolor: colour("line"), zeroline: false, tickfont: { size: 11.5 }, fixedrange: true };
  const months = curves[0].months;
  Plotly.react(plot, curves.map(trace), {
    width: plot.clientWidth, height: plot.clientHeight, margin: { l: 66, r: 12, t: 10, b: 40 }, showlegend: false,
    paper_bgcolor: faint("page", 0), plot_bgcolor: colour("page"), hovermode: "closest", dragmode: false,
    font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    hoverlabel: { bgcolor: colour("page"), bordercolor: colour("line"), font: { color: colour("ink") } },
    xaxis: { ...axis, type: "log", tickvals: months, ticktext: months.map(String), title: { text: "months", font: { size: 12 }, standoff: 6 } },
    yaxis: { ...axis, range: [0, 104], tickvals: [0, 25, 50, 75, 100], ticktext: ["0 %", "25 %", "50 %", "75 %", "100 %"],
      title: { text: "found within 100 m", font: { size: 12 }, standoff: 6 } },
  }, { displayModeBar: false, responsive: false });
}

function trace({ attacker, months, found }) {
  const { hue, symbol, dash, label } = LOOKS[attacker];
  const shares = (name) => found.map((share) => 100 * share[name]);
  const value = shares("value");
  return {
    type: "scatter", mode: "lines+markers", name: label, x: months, y: value, line: { color: colour(hue), width: 2.2, dash },
    marker: { color: colour(hue), size: 8, symbol, line: { color: colour(hue), width: 1.6 } },
    error_y: { type: "data", symmetric: false, color: colour(hue), thickness: 1.4, width: 4,
      array: shares("high").map((high, row) => high - value[row]), arrayminus: shares("low").map((low, row) => value[row] - low) },
    hovertemplate: `${label}<br>after %{x} months: %{y:.0f} %<extra></extra>`,
  };
}
