// The demonstration: choose, run, and look at it step by step.

import { ask } from "./api.js";
import { KINDS, strength } from "./dial.js";
import { Ground } from "./ground.js";
import { showLegend } from "./legend.js";
import { picture, legendOf } from "./scene.js";
import { $, count, length, make } from "./dom.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const ATTACKS = {
  "gi-lia": ["Two circles", "GI-LIA. An account of the attacker is moved nearer and farther until it swaps places with the "
    + "target in the list. That gives the distance from one place; two such circles cross at the target."],
  "zo-lia": ["Rank walk", "ZO-LIA. One circle as above, then a walk towards wherever the target moves up in the list."],
  adaptive: ["Adaptive", "Four accounts at distances chosen so that each answer rules out as much of the map as it can."],
  unfolding: ["Unfolding", "No accounts at all. Only one arrangement of people explains who comes before whom in all lists."],
};
const STEP_MS = 1500, QUICK_STEPS = 30;

let ground = null, about = null, story = null, now = 0, seed = 1, timer = null, gone = 0;
const last = () => story.steps.length;
const playing = () => timer !== null;

export function setUpAttack(map, complain) {
  about = map;
  $("attacks").replaceChildren(...Object.entries(ATTACKS).map(([value, [name]], number) => {
    const radio = make("input", { type: "radio", name: "attack", value, checked: number === 0 });
    return make("label", {}, radio, make("span", { textContent: name }));
  }));
  $("attack-form").addEventListener("change", showChosen);
  $("attack-form").addEventListener("submit", (event) => { event.preventDefault(); run(complain); });
  $("another").addEventListener("click", () => { seed += 1; run(complain); });
  $("back").addEventListener("click", () => { pause(); go(now - 1); });
  $("step").addEventListener("click", () => { pause(); go(now + 1); });
  $("to-end").addEventListener("click", () => { pause(); go(last()); });
  $("play").addEventListener("click", () => playing() ? pause() : play());
  $("scrub").addEventListener("input", () => { pause(); go(Number($("scrub").value)); });
  showChosen();
}

function chosen() {
  const form = new FormData($("attack-form"));
  return { attack: form.get("attack"), protected: form.get("protected") === "on", ...strength(), k: 10, seed };
}

function showChosen() {
  const { attack, protected: isProtected } = chosen();
  $("attack-text").textContent = ATTACKS[attack][1];
  $("attack-slider").hidden = !isProtected;
}

async function run(complain) {
  pause();
  $("run").disabled = $("another").disabled = true;
  $("run").textContent = "Attacking…";
  $("attack-empty").textContent = "Attacking… The first attack takes some seconds.";
  try {
    story = await ask("/v1/console/demonstration", chosen());
    complain(null);
    begin();
  } catch (refusal) {
    $("attack-empty").textContent = "Choose an attack and run it.";
    complain(refusal);
  } finally {
    $("run").disabled = $("another").disabled = false;
    $("run").textContent = "Run the attack";
  }
}

function begin() {
  $("player").hidden = $("attack-legend").hidden = false;
  $("attack-empty").hidden = true;
  $("scrub").max = last();
  showLegend($("attack-legend"), legendOf(story));
  gone = 0;
  now = 0;
  ground ??= new Ground($("attack-plot"), about, (on) => picture(on, story, now));
  go(0, { glide: false });
  addRun();
  // On a phone the map lies below the button.
  $("attack-frame").scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
  if (calm.matches) $("step").focus({ preventScroll: true });
  else play();
}

// From 0, the first query, to the number of queries, the result.
function go(number, { glide = true } = {}) {
  now = Math.min(Math.max(number, 0), last());
  const ended = now === last();
  const step = ended ? story.result : story.steps[now];
  ground.look(ground.box(step.view.centre, step.view.half_m), { glide });
  $("scrub").value = now;
  $("scrub").setAttribute("aria-valuetext", ended ? "result" : `query ${now + 1} of ${last()}`);
  $("scrub-text").textContent = ended ? `Result after ${count(last())} queries` : `Query ${now + 1} of ${last()}`;
  $("caption").textContent = step.text;
  $("back").disabled = now === 0;
  $("step").disabled = $("to-end").disabled = ended;
  showVerdict(ended);
}

function showVerdict(ended) {
  $("verdict").hidden = !ended;
  const { error_m: error, found_within_m: near } = story;
  const found = error !== null && error <= near;
  $("verdict").className = found ? "found" : "hidden-well";
  $("error").textContent = error === null ? "no guess" : `${length(error)} off`;
  $("verdict-text").textContent = found
    ? `The inferred point is within ${length(near)} of the made-up person${story.protected ? ", by chance: noise is short sometimes." : "."}`
    : error === null ? "The attacker has nothing to point at."
      : `${story.verdict}.`;
}

function play() {
  if (now === last()) go(0, { glide: false });
  $("play").textContent = "Pause";
  // Every caption of a film read aloud would be noise; the result is read.
  $("caption").setAttribute("aria-live", "off");
  gone = 0;
  timer = setTimeout(next, pace());
}

function next() {
  go(now + 1);
  gone += 1;
  if (now === last()) pause();
  else timer = setTimeout(next, pace());
}

function pause() {
  clearTimeout(timer);
  timer = null;
  $("play").textContent = "Play";
  $("caption").setAttribute("aria-live", "polite");
}

// Long attacks are shown faster, after a few steps at leisure.
function pace() {
  const crowd = last() > QUICK_STEPS && gone > 5 ? QUICK_STEPS / last() : 1;
  return STEP_MS * Number($("speed").value) * crowd;
}

function addRun() {
  const hidden = story.hide_among === null ? length(story.noise_m) : KINDS.people.text(story.hide_among);
  const cells = [ATTACKS[story.attack][0], story.protected ? `on, ${hidden}` : "off"];
  const numbers = [count(story.questions), story.error_m === null ? "no guess" : length(story.error_m)];
  const row = make("tr", {}, ...cells.map((text) => make("td", { textContent: text })),
    ...numbers.map((text) => make("td", { className: "number", textContent: text })));
  $("runs").tBodies[0].prepend(row);
  while ($("runs").tBodies[0].rows.length > 5) $("runs").tBodies[0].rows[5].remove();
  $("runs").hidden = false;
}
