// The chart of the slider: shares above, the attacker's error below, over one axis of distances.

import { interpolated } from "./dial.js";
import { colour, faint } from "./theme.js";

const SERIES = [
  { name: "recall of 50", key: "recall_50", yaxis: "y", hue: "sky", symbol: "square", factor: 100, unit: "%" },
  { name: "recall of 10", key: "recall_10", yaxis: "y", hue: "blue", symbol: "circle-open", factor: 100, unit: "%" },
  { name: "found within 100 m", key: "within_100_m", yaxis: "y", hue: "orange", symbol: "triangle-up", factor: 100, unit: "%" },
  { name: "mean error", key: "error_m", yaxis: "y2", hue: "vermilion", symbol: "diamond", factor: 1, unit: "m" },
];
const TICKS = [50, 100, 200, 500, 1000, 2000];

export function drawDial(plot, points, chosen, setting) {
  const shapes = [upright(chosen, { color: colour("accent"), width: 2 })];
  const annotations = [];
  if (setting !== null) {
    shapes.push(upright(setting, { color: colour("soft"), width: 1.6, dash: "dot" }));
    annotations.push({ text: "set now", x: Math.log10(setting), y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      font: { size: 11.5, color: colour("soft") } });
  }
  const traces = [...SERIES.map((series) => line(series, points)), ...SERIES.map((series) => mark(series, points, chosen))];
  return Plotly.react(plot, traces, { ...layout(plot), shapes, annotations }, { displayModeBar: false, responsive: false });
}

const line = ({ name, key, yaxis, hue, symbol, factor, unit }, points) => ({
  type: "scatter", mode: "lines+markers", yaxis, x: points.map((point) => point.hide_within_m),
  y: points.map((point) => factor * point[key]), line: { color: colour(hue), width: 2.2 },
  marker: { color: colour(hue), size: 7, symbol, line: { color: colour(hue), width: 1.6 } },
  hovertemplate: `hide within %{x} m<br>${name}: %{y:.3~g} ${unit}<extra></extra>`,
});

const mark = ({ key, yaxis, hue, factor }, points, chosen) => ({
  type: "scatter", mode: "markers", yaxis, x: [chosen], y: [factor * interpolated(points, key, chosen)], hoverinfo: "skip",
  marker: { color: colour(hue), size: 12, line: { color: colour("halo"), width: 2 } },
});

const upright = (x, style) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: style, layer: "below" });

const ticks = (values, unit) => ({ tickvals: values, ticktext: values.map((value) => `${value.toLocaleString("en")} ${unit}`) });

function layout(plot) {
  const axis = { gridcolor: colour("line"), zeroline: false, tickfont: { size: 11.5 }, fixedrange: true };
  return {
    width: plot.clientWidth, height: plot.clientHeight, margin: { l: 62, r: 12, t: 20, b: 40 }, showlegend: false,
    paper_bgcolor: faint("page", 0), plot_bgcolor: colour("page"), hovermode: "closest", dragmode: false,
    font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    hoverlabel: { bgcolor: colour("page"), bordercolor: colour("line"), font: { color: colour("ink") } },
    xaxis: { ...axis, type: "log", ...ticks(TICKS, ""), anchor: "y2",
      range: [Math.log10(46), Math.log10(2180)], title: { text: "hide within, metres", font: { size: 12 }, standoff: 6 } },
    yaxis: { ...axis, domain: [.5, 1], range: [0, 104], ...ticks([0, 25, 50, 75, 100], "%") },
    yaxis2: { ...axis, domain: [0, .42], range: [0, 1750], ...ticks([0, 500, 1000, 1500], "m") },
  };
}
