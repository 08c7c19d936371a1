// Buttons on a map, and where its tiles are from.

import { make } from "./dom.js";

export function mapTools(ground, withFingers) {
  const button = (sign, name, act) => {
    const made = make("button", { type: "button", textContent: sign, title: name, onclick: act });
    made.setAttribute("aria-label", name);
    return made;
  };
  const tools = make("div", { className: "map-tools" },
    button("+", "Zoom in", () => ground.zoom(1 / 1.6)),
    button("\u2212", "Zoom out", () => ground.zoom(1.6)),
    button("\u2302", "Show everything", () => ground.reset()));
  if (withFingers) {
    const move = button("\u2725", "Move the map with a finger", () => {
      move.setAttribute("aria-pressed", String(ground.toggleMoving()));
    });
    move.setAttribute("aria-pressed", "false");
    tools.append(move);
  }
  return tools;
}

export function tileCredit(address) {
  const host = new URL(address.replace(/[{}]/g, "")).hostname;
  const text = host.endsWith("openstreetmap.org") ? "Map tiles © OpenStreetMap contributors" : `Map tiles: ${host}`;
  return make("p", { className: "tile-credit", textContent: text });
}
