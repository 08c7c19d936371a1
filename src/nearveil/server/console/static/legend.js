// Legends: small drawings in the colours of the style sheet, with labels.

import { make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const MARKS = {
  dot: (colour) => [shape("circle", { cx: 9, cy: 9, r: 3.5, fill: `var(--${colour})` })],
  question: (colour) => [shape("circle", { cx: 9, cy: 9, r: 5.5, fill: `var(--${colour})`, stroke: "var(--halo)", "stroke-width": 1.5 })],
  triangle: (colour) => [shape("path", { d: "M9 3 15 14H3z", fill: `var(--${colour})` })],
  star: (colour) => [shape("path", { d: "M9 1.5l2.2 4.9 5.3.5-4 3.5 1.2 5.2L9 12.9l-4.7 2.7 1.2-5.2-4-3.5 5.3-.5z", fill: `var(--${colour})` })],
  diamond: (colour) => [shape("path", { d: "M9 2.5 15.5 9 9 15.5 2.5 9z", fill: "none", stroke: `var(--${colour})`, "stroke-width": 2.2 })],
  cross: (colour) => [shape("path", { d: "M4 4 14 14M14 4 4 14", stroke: `var(--${colour})`, "stroke-width": 2.6 })],
  circle: (colour) => [shape("circle", { cx: 9, cy: 9, r: 6.5, fill: "none", stroke: `var(--${colour})`, "stroke-width": 2 })],
  dashes: (colour) => [shape("circle", { cx: 9, cy: 9, r: 6.5, fill: "none", stroke: `var(--${colour})`, "stroke-width": 1.6, "stroke-dasharray": "3 2.2" })],
  square: (colour) => [shape("rect", { x: 4, y: 4, width: 10, height: 10, fill: `var(--${colour})` })],
  filled: (colour) => [shape("path", { d: "M9 2.5 15.5 9 9 15.5 2.5 9z", fill: `var(--${colour})` })],
  area: (colour) => [shape("rect", { x: 2, y: 4, width: 14, height: 10, rx: 2, fill: `var(--${colour})`, "fill-opacity": .4 })],
  outline: (colour) => [shape("rect", { x: 2, y: 4, width: 14, height: 10, fill: "none", stroke: `var(--${colour})`, "stroke-width": 1.4, "stroke-dasharray": "3 2.2" })],
};

// entries: [mark, colour, label]
export function showLegend(list, entries) {
  list.replaceChildren(...entries.map(([mark, colour, label]) => {
    const picture = shape("svg", { width: 18, height: 18, viewBox: "0 0 18 18", "aria-hidden": "true" });
    picture.append(...MARKS[mark](colour));
    return make("li", {}, picture, label);
  }));
}
