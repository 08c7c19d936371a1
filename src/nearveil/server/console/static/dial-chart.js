// The chart of the dial: shares above, the attacker's error below, over one axis of distances or people.

import { interpolated } from "./dial.js";
import { colour, faint } from "./theme.js";

const SERIES = [
  { name: "recall of 50", key: "recall_50", yaxis: "y", hue: "sky", symbol: "square", factor: 100, unit: "%" },
  { name: "recall of 10", key: "recall_10", yaxis: "y", hue: "blue", symbol: "circle-open", factor: 100, unit: "%" },
  { name: "found within 100 m", key: "within_100_m", yaxis: "y", hue: "orange", symbol: "triangle-up", factor: 100, unit: "%" },
  { name: "named in the sparsest tenth", key: "named_sparsest", yaxis: "y", hue: "green", symbol: "x-thin", factor: 100, unit: "%" },
  { name: "mean error", key: "error_m", yaxis: "y2", hue: "vermilion", symbol: "diamond", factor: 1, unit: "m" },
];

export function drawDial(plot, points, kind, chosen, setting) {
  const shapes = [upright(chosen, { color: colour("accent"), width: 2 })];
  const annotations = [];
  if (setting !== null) {
    shapes.push(upright(setting, { color: colour("soft"), width: 1.6, dash: "dot" }));
    annotations.push({ text: "set now", x: Math.log10(setting), y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      font: { size: 11.5, color: colour("soft") } });
  }
  const traces = [...SERIES.map((series) => line(series, points, kind)),
    ...SERIES.map((series) => mark(series, points, kind, chosen))];
  return Plotly.react(plot, traces, { ...layout(plot, kind), shapes, annotations }, { displayModeBar: false, responsive: false });
}

const line = ({ name, key, yaxis, hue, symbol, factor, unit }, points, kind) => ({
  type: "scatter", mode: "lines+markers", yaxis, x: points.map((point) => point[kind.key]),
  y: points.map((point) => factor * point[key]), line: { color: colour(hue), width: 2.2 },
  marker: { color: colour(hue), size: 7, symbol, line: { color: colour(hue), width: 1.6 } },
  hovertemplate: `${kind.label.toLowerCase()} %{x} ${kind.unit}<br>${name}: %{y:.3~g} ${unit}<extra></extra>`,
});

const mark = ({ key, yaxis, hue, factor }, points, kind, chosen) => ({
  type: "scatter", mode: "markers", yaxis, x: [chosen], y: [factor * interpolated(points, kind.key, key, chosen)], hoverinfo: "skip",
  marker: { color: colour(hue), size: 12, line: { color: colour("halo"), width: 2 } },
});

const upright = (x, style) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: style, layer: "below" });

const ticks = (values, unit) => ({ tickvals: values, ticktext: values.map((value) => `${value.toLocaleString("en")} ${unit}`) });

function layout(plot, { label, unit, values, ticks: at }) {
  const axis = { gridcolor: colour("line"), zeroline: false, tickfont: { size: 11.5 }, fixedrange: true };
  return {
    width: plot.clientWidth, height: plot.clientHeight, margin: { l: 62, r: 12, t: 20, b: 40 }, showlegend: false,
    paper_bgcolor: faint("page", 0), plot_bgcolor: colour("page"), hovermode: "closest", dragmode: false,
    font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    hoverlabel: { bgcolor: colour("page"), bordercolor: colour("line"), font: { color: colour("ink") } },
    xaxis: { ...axis, type: "log", ...ticks(at, ""), anchor: "y2",
      range: [Math.log10(.92 * values[0]), Math.log10(1.09 * values.at(-1))],
      title: { text: `${label.toLowerCase()}, ${unit}`, font: { size: 12 }, standoff: 6 } },
    yaxis: { ...axis, domain: [.5, 1], range: [0, 104], ...ticks([0, 25, 50, 75, 100], "%") },
    yaxis2: { ...axis, domain: [0, .42], rangemode: "tozero", nticks: 4, ticksuffix: " m", separatethousands: true },
  };
}
