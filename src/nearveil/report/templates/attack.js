"use strict";
const story = JSON.parse(document.getElementById("story").textContent);
const $ = id => document.getElementById(id), map = $("map"), pen = map.getContext("2d");
const frames = [...story.steps, story.result], last = frames.length - 1;
const calm = matchMedia("(prefers-reduced-motion: reduce)"), dark = matchMedia("(prefers-color-scheme: dark)");
let now = 0, view = null, timer = null, moving = 0, size = 1, ink = {};

const X = x => (x - view[0] + view[2]) / (2 * view[2]) * size, Y = y => (view[1] + view[2] - y) / (2 * view[2]) * size;
const R = metres => metres / (2 * view[2]) * size;
const length = m => m >= 10000 ? Math.round(m / 1000) + " km" : m >= 1000 ? (m / 1000).toFixed(1) + " km"
  : m >= 9.95 ? Math.round(m) + " m" : m.toFixed(1) + " m";

// The dark end of the scale is lost on a dark map.
const shade = colour => !dark.matches ? colour : "#" + [1, 3, 5].map(i =>
  Math.round(.62 * parseInt(colour.slice(i, i + 2), 16) + .38 * 255).toString(16).padStart(2, "0")).join("");
function path(points, x, y) {
  pen.beginPath();
  points.forEach(([dx, dy], i) => i ? pen.lineTo(x + dx, y + dy) : pen.moveTo(x + dx, y + dy));
}
function circle(x, y, radius, colour, width, dash = []) {
  pen.beginPath(); pen.arc(X(x), Y(y), R(radius), 0, 7);
  pen.strokeStyle = colour; pen.lineWidth = width; pen.setLineDash(dash); pen.stroke(); pen.setLineDash([]);
}
function dot(x, y, radius, colour, edge) {
  pen.beginPath(); pen.arc(X(x), Y(y), radius, 0, 7); pen.fillStyle = colour; pen.fill();
  pen.strokeStyle = edge; pen.lineWidth = 1.5; pen.stroke();
}
function write(label, x, y, colour, font = "13px system-ui, sans-serif", align = "center") {
  pen.font = font; pen.textAlign = align; pen.textBaseline = "middle"; pen.lineJoin = "round";
  if (colour === ink.ink) { pen.strokeStyle = ink.map; pen.lineWidth = 4; pen.strokeText(label, x, y); }
  pen.fillStyle = colour; pen.fillText(label, x, y);
}
function drawLand() {
  const [west, south, east, north] = story.region;
  pen.save();
  pen.beginPath(); pen.rect(X(west), Y(north), R(east - west), R(north - south)); pen.clip();
  pen.fillStyle = ink.water; pen.fillRect(0, 0, size, size);
  pen.fillStyle = ink.land; pen.strokeStyle = ink.shore; pen.lineWidth = 1;
  for (const ring of story.land) {
    pen.beginPath();
    for (let i = 0; i < ring.length; i += 2) pen.lineTo(X(ring[i]), Y(ring[i + 1]));
    pen.closePath(); pen.fill(); pen.stroke();
  }
  pen.restore();
}
function drawKnown(frame) {
  const known = frames.slice(0, now + 1).filter(each => each.boxes).pop();
  if (known) {
    // All boxes as one shape, so that they do not darken each other where they touch.
    pen.beginPath();
    for (let i = 0, b = known.boxes; i < b.length; i += 4)
      pen.rect(X(b[i]), Y(b[i + 3]), R(b[i + 2] - b[i]) + .4, R(b[i + 3] - b[i + 1]) + .4);
    pen.globalAlpha = .45; pen.fillStyle = shade(known.colour); pen.fill(); pen.globalAlpha = 1;
  }
  const [west, south, east, north] = story.region;
  pen.strokeStyle = ink.line; pen.lineWidth = 1; pen.strokeRect(X(west), Y(north), R(east - west), R(north - south));
  if (frame.ring) {
    const [x, y] = frame.place;
    pen.beginPath(); pen.arc(X(x), Y(y), R(Math.min(frame.ring[1], 1e6)), 0, 7);
    pen.arc(X(x), Y(y), R(frame.ring[0]), 7, 0, true);
    pen.globalAlpha = .25; pen.fillStyle = ink.circle; pen.fill("evenodd"); pen.globalAlpha = 1;
  }
  pen.fillStyle = ink.dot; pen.globalAlpha = .7;
  const p = story.people, wide = view[2] > 5000 ? 1.2 : 2.4;
  for (let i = 0; i < p.length; i += 2)
    if (Math.abs(p[i] - view[0]) < view[2] && Math.abs(p[i + 1] - view[1]) < view[2])
      pen.fillRect(X(p[i]) - wide / 2, Y(p[i + 1]) - wide / 2, wide, wide);
  pen.globalAlpha = 1;
  frame.circles.forEach(([x, y, radius]) => circle(x, y, radius, ink.circle, 2));
}
function drawEnds(frame) {
  circle(0, 0, story.tau, ink.true, 2, [6, 4]);
  if (story.published) {
    const x = X(story.published[0]), y = Y(story.published[1]), dx = x - X(0), dy = y - Y(0), far = Math.hypot(dx, dy);
    pen.strokeStyle = pen.fillStyle = ink.published; pen.lineWidth = 2.5;
    if (far > 26) {
      const ux = dx / far, uy = dy / far, tx = x - 11 * ux, ty = y - 11 * uy;
      path([[8 * ux, 8 * uy], [dx - 18 * ux, dy - 18 * uy]], X(0), Y(0)); pen.stroke();
      path([[0, 0], [-10 * ux - 5 * uy, -10 * uy + 5 * ux], [-10 * ux + 5 * uy, -10 * uy - 5 * ux]], tx, ty);
      pen.fill();
    }
    path([[0, -10], [10, 0], [0, 10], [-10, 0]], x, y); pen.closePath(); pen.stroke();
  }
  const star = Array.from({length: 10}, (_, i) =>
    [(i % 2 ? 6 : 15) * Math.sin(Math.PI * i / 5), -(i % 2 ? 6 : 15) * Math.cos(Math.PI * i / 5)]);
  path(star, X(0), Y(0)); pen.closePath();
  pen.fillStyle = ink.true; pen.fill(); pen.strokeStyle = ink.map; pen.lineWidth = 1.2; pen.stroke();
  if (frame === story.result) {
    story.others.forEach(([x, y]) => dot(x, y, 3, "transparent", ink.ink));
    if (story.estimate) for (const [colour, width] of [[ink.map, 4], [ink.ink, 2]]) {
      const x = X(story.estimate[0]), y = Y(story.estimate[1]);
      pen.strokeStyle = colour; pen.lineWidth = width;
      path([[-5, -5], [5, 5]], x, y); pen.stroke(); path([[-5, 5], [5, -5]], x, y); pen.stroke();
    }
  }
}
function drawQuestion(frame, number) {
  const [x, y] = frame.place, away = [];
  frame.accounts.forEach(([cx, cy]) => {
    const distance = Math.hypot(cx - x, cy - y);
    circle(x, y, distance, ink.account, 1.5, [2, 4]);
    if (Math.max(Math.abs(cx - view[0]), Math.abs(cy - view[1])) > view[2]) away.push([distance, cx, cy]);
    path([[0, -8], [7, 6], [-7, 6]], X(cx), Y(cy)); pen.closePath();
    pen.fillStyle = ink.account; pen.fill(); pen.strokeStyle = ink.ink; pen.lineWidth = .7; pen.stroke();
  });
  if (away.length) {
    // Where the way to the first of them leaves the map.
    const [, cx, cy] = away[0], dx = X(cx) - X(x), dy = Y(cy) - Y(y);
    const reach = (from, by, room) => by > 0 ? (size - room - from) / by : by < 0 ? (room - from) / by : Infinity;
    const share = Math.max(0, Math.min(1, reach(X(x), dx, 50), reach(Y(y), dy, 26)));
    const at = [X(x) + share * dx, Y(y) + share * dy];
    // Not on the question's own mark, where that is close to the edge.
    if (Math.hypot(share * dx, share * dy) < 80) at[0] = X(x) + (X(x) < size / 2 ? 80 : -80);
    const label = away.map(each => length(each[0])).join(", ") + " away", half = pen.measureText(label).width / 2 + 6;
    at[0] = Math.min(Math.max(at[0], half), size - half);
    write(away.length > 1 ? "accounts" : "account", at[0], at[1] - 8, ink.ink);
    write(label, at[0], at[1] + 8, ink.ink);
  }
  const colour = shade(frame.colour), [red, green, blue] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
  dot(x, y, 12, colour, ink.map);
  write(number, X(x), Y(y) + 1, .3 * red + .6 * green + .1 * blue < 140 ? "#ffffff" : "#000000");
}
function drawScale() {
  const most = view[2] * .55, power = 10 ** Math.floor(Math.log10(most));
  const metres = power * [5, 2, 1].find(each => each * power <= most), right = size - 14, y = size - 16;
  // Nobody's dot shows through.
  pen.fillStyle = ink.map; pen.globalAlpha = .88; pen.fillRect(right - R(metres) - 7, y - 25, R(metres) + 14, 34);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.ink; pen.lineWidth = 2;
  path([[0, -5], [0, 0], [-R(metres), 0], [-R(metres), -5]], right, y); pen.stroke();
  write(metres >= 1000 ? metres / 1000 + " km" : metres + " m", right - R(metres) / 2, y - 12, ink.ink);
}
function draw() {
  const ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
  size = map.clientWidth; map.width = map.height = Math.round(size * ratio);
  for (const name of ["ink", "map", "line", "dot", "true", "published", "account", "circle", "land", "water", "shore"])
    ink[name] = style.getPropertyValue("--" + name).trim();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = ink.map; pen.fillRect(0, 0, size, size);
  const frame = frames[now];
  drawLand();
  drawKnown(frame);
  story.steps.slice(0, now + 1).forEach(step => dot(step.place[0], step.place[1], 4, shade(step.colour), ink.map));
  drawEnds(frame);
  if (frame.place) drawQuestion(frame, now + 1);
  drawScale();
}
function show(number, smoothly = true) {
  now = Math.max(0, Math.min(last, number));
  $("caption").textContent = frames[now].text; $("slider").value = now;
  history.replaceState(null, "", "#step=" + (now + 1));
  const from = view || frames[now].view, to = frames[now].view, began = performance.now();
  cancelAnimationFrame(moving);
  (function move() {
    const share = smoothly && !calm.matches ? Math.min(1, (performance.now() - began) / 500) : 1;
    const eased = share * share * (3 - 2 * share), half = from[2] * (to[2] / from[2]) ** eased;
    // The middle goes with the half width, so that the way in is straight.
    const along = Math.abs(to[2] - from[2]) > 1 ? (half - from[2]) / (to[2] - from[2]) : eased;
    view = [from[0] + (to[0] - from[0]) * along, from[1] + (to[1] - from[1]) * along, half];
    draw();
    if (share < 1) moving = requestAnimationFrame(move);
  })();
}
function pause() { clearInterval(timer); timer = null; $("play").textContent = "Play"; }
function play() {
  if (timer) return pause();
  show(now === last ? 0 : now + 1);
  $("play").textContent = "Pause";
  timer = setInterval(() => { if (now < last) show(now + 1); if (now === last) pause(); }, 1400);
}
function go(number) { pause(); show(number); }
function fromHash() {
  const asked = /^#step=(\d+)$/.exec(location.hash);
  return asked ? asked[1] - 1 : 0;
}
const keys = { published: story.published, estimate: story.estimate, question: story.steps.length,
  account: story.steps.some(step => step.accounts.length), circle: story.result.circles.length,
  area: story.steps.some(step => step.boxes), others: story.others.length };
for (const [name, there] of Object.entries(keys)) $("key-" + name).hidden = !there;
$("slider").max = last;
$("slider").oninput = event => go(+event.target.value);
$("play").onclick = play; $("back").onclick = () => go(now - 1); $("next").onclick = () => go(now + 1);
addEventListener("keydown", event => {
  const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
  if (to !== undefined) { event.preventDefault(); go(to); }
  else if (event.key === " " && event.target.tagName !== "BUTTON") { event.preventDefault(); play(); }
});
addEventListener("hashchange", () => go(fromHash()));
addEventListener("resize", draw); dark.addEventListener("change", draw);
show(fromHash(), false);
