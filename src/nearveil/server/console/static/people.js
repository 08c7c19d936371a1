// The map of published people.

import { Ground } from "./ground.js";
import { showLegend } from "./legend.js";
import { colour } from "./theme.js";
import { $, count } from "./dom.js";

let ground = null, about = null;

export function showPeople(found) {
  about = found;
  const shown = about.places.length;
  const all = about.number === shown ? "All" : `A sample of ${count(shown)} of`;
  $("map-text").textContent = about.number ? `${all} ${count(about.number)} people, where they are published. No true place is on this map, and none is kept.`
    : "Nobody is published yet. Reports appear here after the next epoch boundary.";
  showLegend($("people-legend"), [["dot", "vermilion", "a published place"], ["outline", "soft", "edge of the region"]]);
  if (ground) ground.draw();
  else ground = new Ground($("people-plot"), about, traces);
}

function traces({ frame }) {
  const points = about.places.map((place) => frame.xy(place));
  const size = points.length > 1500 ? 4 : points.length > 300 ? 5 : 7;
  return [{
    type: "scatter", mode: "markers", hoverinfo: "skip", x: points.map(([x]) => x), y: points.map(([, y]) => y),
    marker: { color: colour("vermilion"), size, opacity: points.length > 300 ? .6 : .9, line: { width: 0 } },
  }];
}
