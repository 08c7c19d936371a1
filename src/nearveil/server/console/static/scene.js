// What is drawn of an attack at one step.

import { distanceM, joined } from "./geometry.js";
import { colour, faint, isDark } from "./theme.js";

const QUIET = { type: "scatter", hoverinfo: "skip", showlegend: false };

export function legendOf(story) {
  const entries = [["star", "blue", "the made-up person"], ["dashes", "blue", "100 m around them"]];
  if (story.published_place) entries.push(["diamond", "vermilion", "where they are published"]);
  entries.push(["question", "question", "a question"]);
  if (story.steps.some((step) => step.accounts.length)) entries.push(["triangle", "purple", "an account of the attacker (account)"]);
  if (story.steps.some((step) => step.circles.length) || story.result.circles.length) entries.push(["circle", "orange", "a circle found"]);
  if (story.steps.some((step) => step.cells || step.ring_m)) entries.push(["area", "green", "still possible"]);
  if (story.others.length) entries.push(["circle", "ink", "others located"]);
  entries.push(["cross", "ink", "the inferred point"], ["dot", "grey", "people, as the service has them"]);
  return entries;
}

export function picture({ frame }, story, now) {
  const ended = now === story.steps.length;
  const step = ended ? null : story.steps[now];
  const shown = ended ? story.result : step;
  const asked = story.steps.slice(0, ended ? now : now + 1);
  const cells = asked.findLast((each) => each.cells)?.cells;
  const traces = [
    ...(cells ? [boxes(frame, cells)] : []),
    ...(step ? ring(frame, step) : []),
    points(frame, story.people, { color: colour("grey"), size: 3.5, opacity: .55 }),
    ...shown.circles.map(({ centre, radius_m: radius }) => ({ ...QUIET, mode: "lines", ...frame.circle(centre, radius),
      line: { color: colour("orange"), width: 2.2 } })),
    ...(step ? [rulers(frame, step)] : []),
    questions(frame, asked, step),
    ...(step ? [points(frame, step.accounts, { color: colour("purple"), symbol: "triangle-up", size: 12, line: edge() })] : []),
    ...(ended ? [points(frame, story.others, { color: colour("ink"), symbol: "circle-open", size: 8, line: { width: 1.2 } })] : []),
    ...ends(frame, story, ended),
  ];
  return traces;
}

const edge = () => ({ color: colour("halo"), width: 1.5 });

function points(frame, places, marker) {
  const at = places.map((place) => frame.xy(place));
  return { ...QUIET, mode: "markers", x: at.map(([x]) => x), y: at.map(([, y]) => y), marker };
}

function boxes(frame, cells) {
  const lines = cells.map(([south, west, north, east]) => {
    const [[left, bottom], [right, top]] = [frame.xy([south, west]), frame.xy([north, east])];
    return { x: [left, right, right, left, left], y: [bottom, bottom, top, top, bottom] };
  });
  return { ...QUIET, mode: "lines", ...joined(lines), fill: "toself", fillcolor: faint("green", .3),
    line: { color: faint("green", .35), width: .6 } };
}

// Thin circles through the accounts: in the list, the target is before or after each of them.
function rulers(frame, step) {
  const lines = step.accounts.map((account) => frame.circle(step.place, distanceM(step.place, account)));
  return { ...QUIET, mode: "lines", ...joined(lines), line: { color: colour("purple"), width: 1.2, dash: "dot" } };
}

// What the answers from one place leave: between two distances, drawn as one line out, around and back in.
function ring(frame, { place, ring_m: bounds }) {
  if (!bounds) return [];
  // Beyond the region nothing is possible anyway.
  const outer = frame.circle(place, bounds[1] ?? 1e5, 180);
  const inner = bounds[0] ? frame.circle(place, bounds[0], 180) : { x: [], y: [] };
  const there = (axis) => [...outer[axis], ...inner[axis].toReversed(), outer[axis][0]];
  return [{ ...QUIET, mode: "lines", x: there("x"), y: there("y"), fill: "toself", fillcolor: faint("green", .2), line: { width: 0 } }];
}

// Older questions are paler.
function questions(frame, asked, step) {
  const at = asked.map((each) => frame.xy(each.place));
  const current = asked.length - 1;
  const share = (i) => asked.length > 1 ? .35 + .65 * i / current : 1;
  return {
    ...QUIET, mode: "markers+text", x: at.map(([x]) => x), y: at.map(([, y]) => y),
    text: asked.map((each, i) => step && i === current ? String(asked.length) : ""),
    textfont: { color: isDark() ? "#14171c" : "#fff", size: 12 }, textposition: "middle center",
    marker: { color: colour("question"), opacity: asked.map((_, i) => share(i)), line: edge(),
      size: asked.map((_, i) => step && i === current ? 24 : 10) },
  };
}

function ends(frame, story, ended) {
  const found = [{ ...QUIET, mode: "lines", ...frame.circle(story.true_place, story.found_within_m),
    line: { color: colour("blue"), width: 1.6, dash: "dash" } }];
  if (story.published_place) {
    const [[x0, y0], [x1, y1]] = [frame.xy(story.true_place), frame.xy(story.published_place)];
    found.push({ ...QUIET, mode: "lines", x: [x0, x1], y: [y0, y1], line: { color: colour("vermilion"), width: 1.8 } });
    found.push(points(frame, [story.published_place], { color: colour("vermilion"), symbol: "diamond-open", size: 18, line: { width: 2.8 } }));
  }
  found.push(points(frame, [story.true_place], { color: colour("blue"), symbol: "star", size: 20, line: edge() }));
  if (ended && story.inferred_place) {
    // A cross on a wider one of the page's colour is seen on anything.
    for (const [hue, width] of [["halo", 7], ["ink", 3.2]]) {
      found.push(points(frame, [story.inferred_place], { color: colour(hue), symbol: "x-thin", size: 13, line: { color: colour(hue), width } }));
    }
  }
  return found;
}
