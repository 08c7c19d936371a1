// The page as a whole: sign in, fetch, show, and keep up to date.

import { Refusal, ask, key } from "./api.js";
import { forgetAskers, setUpAskers, showAskers } from "./askers.js";
import { setUpAttack } from "./attack.js";
import { showDial } from "./dial.js";
import { forgetKeys, setUpKeys, showKeys } from "./keys.js";
import { showLedger, tick } from "./ledger.js";
import { showMonths } from "./months.js";
import { showPeople } from "./people.js";
import { forgetPerson, setUpPerson, showPerson } from "./person.js";
import { showPromise } from "./promise.js";
import { showStore } from "./store.js";
import { setUpTheme } from "./theme.js";
import { $, count } from "./dom.js";

const REFRESH_S = 10;
let beats = null, age = 0, refreshing = false, outOfDate = false;

function complain(refusal) {
  $("notice").hidden = !refusal;
  if (!refusal) return;
  $("notice").querySelector("p").textContent = refusal.message;
  if (refusal.status === 401 || refusal.status === 403) signOut();
}

function signOut() {
  key.forget();
  clearInterval(beats);
  // What belongs to the key that was signed in, or names somebody.
  forgetPerson();
  forgetAskers();
  forgetKeys();
  $("console").hidden = $("sign-out").hidden = true;
  $("sign-in").hidden = false;
  $("key").value = "";
  $("key").focus();
}

async function open() {
  try {
    const [state, map, prediction] = await Promise.all(
      ["state", "map", "prediction"].map((part) => ask(`/v1/console/${part}`)));
    complain(null);
    // Shown first: charts measure the room they have.
    $("sign-in").hidden = true;
    $("console").hidden = $("sign-out").hidden = false;
    showState(state, map);
    showPeople(map);
    showPerson(state);
    showAskers(state);
    if (beats === null) {
      showDial(prediction, state);
      showMonths(prediction.year);
      setUpAttack(map, complain);
      if (map.tile_address) $("tiles-note").textContent = ", but for the map tiles";
    }
    clearInterval(beats);
    beats = setInterval(beat, 1000);
    age = 0;
    await Promise.all([showStore(), showKeys(state)]);
  } catch (refusal) {
    $("sign-in").hidden = !$("console").hidden;
    complain(refusal.status === 503 ? await why(refusal) : refusal);
  }
}

// What is wrong with the store, where that is why the service refuses.
async function why(refusal) {
  try {
    const { reason } = await ask("/v1/console/store");
    return reason === null ? refusal : new Refusal(503, reason);
  } catch {
    return refusal;
  }
}

function showState(state, map) {
  if (map) {
    $("about").textContent = `${title(map.region.name ?? "a region of its own")}`
      + (state.hide_among === null ? `, noise of ${count(state.noise_m)} m` : `, hide among ${count(state.hide_among)} people`);
  }
  showLedger(state);
  showPromise(state.guarantee);
}

const title = (name) => name.split("-").map((word) => word[0].toUpperCase() + word.slice(1)).join(" ");

async function beat() {
  age += 1;
  const passed = tick();
  if (document.hidden || refreshing || !(passed || age >= REFRESH_S)) return;
  refreshing = true;
  try {
    // First, because it also answers while the store is away.
    await showStore();
    showState(await ask("/v1/console/state"));
    if (passed) showPeople(await ask("/v1/console/map"));
    // What somebody else complained of is not mended by this.
    if (outOfDate) complain(null);
    outOfDate = false;
  } catch (refusal) {
    complain(refusal);
    outOfDate = true;
  } finally {
    age = 0;
    refreshing = false;
  }
}

setUpTheme();
setUpPerson();
setUpAskers();
setUpKeys(signOut);
$("sign-out").addEventListener("click", () => { complain(null); signOut(); });
$("notice").querySelector("button").addEventListener("click", () => complain(null));
$("sign-in").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.keep($("key").value.trim());
  open();
});
if (key.value) open();
else $("sign-in").hidden = false;
