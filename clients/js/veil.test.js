import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Veil } from "./veil.js";

const FILE = new URL("../../docs/reference/veil-vectors.json", import.meta.url);
/** What JSON has no numbers for is there as text. */
const NUMBERS = { NaN, Infinity, "-Infinity": -Infinity };
const { vectors, errors } = JSON.parse(readFileSync(FILE, "utf-8"), (_, value) => NUMBERS[value] ?? value);
const KEY = "07".repeat(32);

/** In a straight line. */
function distanceM([first, second], [third, fourth]) {
  const [lat, lon, otherLat, otherLon] = [first, second, third, fourth].map((each) => (each * Math.PI) / 180);
  const across = Math.cos(lat) * Math.cos(otherLat) * Math.sin((lon - otherLon) / 2) ** 2;
  return 2 * 6_371_008.8 * Math.sqrt(Math.sin((lat - otherLat) / 2) ** 2 + across);
}

test("every vector", async () => {
  assert.ok(vectors.length >= 32);
  for (const { key, noise_m: noiseM, user, then, ...first } of vectors) {
    const veil = new Veil(key, { noiseM });
    for (const { latitude, longitude, blurred, known, accuracy_m: accuracyM } of [first, ...then]) {
      const answer = await veil.blur(user, latitude, longitude, { known, accuracyM });
      assert.ok(distanceM(answer, blurred) <= 3, `${user}: ${answer} is not ${blurred}`);
      assert.ok(answer.every((each) => !Object.is(each, -0) && each !== 180));
    }
  }
});

test("inputs that must be errors", async () => {
  assert.ok(errors.length >= 50);
  for (const each of errors) {
    const { key, noise_m: noiseM, user, latitude, longitude, known, accuracy_m: accuracyM } = each;
    const blurred = async () => new Veil(key, { noiseM }).blur(user, latitude, longitude, { known, accuracyM });
    await assert.rejects(blurred, ({ message }) => !/52\.52|13\.405|9f9f|\n/.test(message), JSON.stringify(each));
  }
});

test("a misspelled option is an error, and so are options that are none", async () => {
  assert.throws(() => new Veil(KEY, { noise_m: 2000 }), /noiseM/);
  assert.throws(() => new Veil(KEY, 2000), /noiseM/);
  await assert.rejects(new Veil(KEY).blur("ann", 52.52, 13.405, { accuracy_m: 10 }), /accuracyM/);
  await assert.rejects(new Veil(KEY).blur("ann", 52.52, 13.405, [[52.52, 13.405]]), /known/);
});

test("a key is new each time, and the same in bytes, which may change later", async () => {
  const key = Veil.newKey();
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.notEqual(key, Veil.newKey());
  const bytes = Uint8Array.from(Buffer.from(key, "hex"));
  const veil = new Veil(bytes);
  bytes.fill(0);
  const answer = await veil.blur("ann", 52.52, 13.405);
  assert.deepEqual(answer, await new Veil(key.toUpperCase(), { noiseM: 500 }).blur("ann", 52.52, 13.405 + 720));
  assert.notDeepEqual(answer, await veil.blur("bob", 52.52, 13.405));
});

/** The location of a pole of the user's secret grid, as the specification has it, in radians. */
function poleOfGrid(user, noiseM) {
  const fields = ["nearveil/veil/1", "rotation", `${noiseM * 1000}`, user].map((each) => Buffer.from(each));
  const lengths = fields.map((each) => Buffer.from([0, 0, 0, each.length]));
  const hmac = createHmac("sha256", Buffer.from(KEY, "hex"));
  fields.forEach((each, at) => hmac.update(lengths[at]).update(each));
  const digest = hmac.digest();
  const [a, b, c] = [0, 8, 16].map((at) => (Number(digest.readBigUInt64BE(at) >> 11n) + 0.5) / 2 ** 53);
  return [Math.asin(2 * a - 1), Math.PI - 2 * Math.PI * (b + c)];
}

test("a place is known from all sides, beside a pole of the user's grid and across it", async () => {
  const noiseM = 10_000;
  const veil = new Veil(KEY, { noiseM });
  for (let number = 0; number < 80; number++) {
    const user = `user ${number}`;
    const [pole, longitude] = poleOfGrid(user, noiseM);
    const fromPole = number % 2 ? 0.35 : 3; // of the noise; the two locations are 0.7 of it apart
    const away = (fromPole * noiseM) / 6_371_008.8;
    const at = (side) => {
      const bearing = number + side * Math.asin(0.35 / fromPole);
      const sine = Math.sin(pole) * Math.cos(away) + Math.cos(pole) * Math.sin(away) * Math.cos(bearing);
      const east = Math.sin(bearing) * Math.sin(away) * Math.cos(pole);
      const turn = Math.atan2(east, Math.cos(away) - Math.sin(pole) * sine);
      return [Math.asin(sine), longitude + turn].map((angle) => (angle * 180) / Math.PI);
    };
    const known = [await veil.blur(user, ...at(-1))];
    assert.notDeepEqual(await veil.blur(user, ...at(1)), known[0]);
    assert.deepEqual(await veil.blur(user, ...at(1), { known, accuracyM: 1e9 }), known[0]);
  }
});

test("the radius contains the user with at least its probability", async () => {
  const veil = new Veil(KEY);
  assert.ok(Math.abs(veil.radiusM(0.9) - (3.88972 * 250 + 125)) < 0.01);
  assert.equal(veil.radiusM(0.5, 10), veil.radiusM(0.5));
  assert.equal(veil.radiusM(0.5, 1e9), veil.radiusM(0.5) + 375);
  for (const wrong of [0, 1, NaN]) assert.throws(() => veil.radiusM(wrong));
  const answers = await Promise.all(Array.from({ length: 500 }, (_, number) => veil.blur(`user ${number}`, 0, 0)));
  for (const probability of [0.1, 0.5, 0.9]) {
    const inside = answers.filter((answer) => distanceM(answer, [0, 0]) <= veil.radiusM(probability)).length / 500;
    assert.ok(inside >= probability, `${inside}`);
  }
});
