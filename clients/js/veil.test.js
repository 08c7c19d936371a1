import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Veil } from "./veil.js";

const { vectors, errors } = JSON.parse(readFileSync(new URL("../../docs/reference/veil-vectors.json", import.meta.url), "utf-8"));
const KEY = "07".repeat(32);
const METERS_PER_DEGREE = (6_371_008.8 * Math.PI) / 180;

/** In a straight line. */
function distanceM([first, second], [third, fourth]) {
  const vector = (lat, lon) =>
    [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)].map((each) => each * 6_371_008.8);
  const [one, other] = [[first, second], [third, fourth]].map((each) => vector(...each.map((angle) => (angle * Math.PI) / 180)));
  return Math.hypot(...one.map((each, at) => each - other[at]));
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

test("inputs that must be errors", { todo: errors.length === 0 }, async () => {
  for (const { key, noise_m: noiseM, user, latitude, longitude, known, accuracy_m: accuracyM } of errors) {
    await assert.rejects(async () => new Veil(key, { noiseM }).blur(user, latitude, longitude, { known, accuracyM }));
  }
});

for (const [name, ...inputs] of [
  ["a lone surrogate", "ann\ud800", 12.34567, 76.54321],
  ["an empty user id", "", 12.34567, 76.54321],
  ["a user id that is a number", 7, 12.34567, 76.54321],
  ["a latitude beyond a pole", "ann", 92.34567, 76.54321],
  ["a latitude in text", "ann", "12.34567", 76.54321],
  ["a longitude that is none", "ann", 12.34567, NaN],
  ["a negative accuracy", "ann", 12.34567, 76.54321, { accuracyM: -1 }],
  ["an accuracy that is none", "ann", 12.34567, 76.54321, { accuracyM: NaN }],
  ["known beyond a pole", "ann", 12.34567, 76.54321, { known: [[92.34567, 76.54321]] }],
  ["known of three numbers", "ann", 12.34567, 76.54321, { known: [[12.34567, 76.54321, 1]] }],
  ["known that is one location", "ann", 12.34567, 76.54321, { known: [12.34567, 76.54321] }],
  ["a misspelled option", "ann", 12.34567, 76.54321, { accuracy_m: 10 }],
]) {
  test(`${name} is refused in one sentence without the location`, async () => {
    await assert.rejects(new Veil(KEY).blur(...inputs), ({ message }) => !/34567|54321|\n/.test(message));
  });
}

test("a key or noise that is none is refused", () => {
  for (const key of ["", "07".repeat(31), "0g".repeat(32), ` ${KEY}`, new Uint8Array(31), Array(32).fill(7), undefined]) {
    assert.throws(() => new Veil(key), ({ message }) => message.includes("key") && !message.includes("0707"));
  }
  for (const noiseM of [49.9, 100_001, NaN, "500", null]) assert.throws(() => new Veil(KEY, { noiseM }), /noiseM/);
  assert.throws(() => new Veil(KEY, { noise_m: 2000 }), /noiseM/);
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

test("two fixes of one home are one answer where it is known, wherever the user's grid has its poles", async () => {
  for (let number = 0; number < 200; number++) {
    const veil = new Veil(KEY, { noiseM: 100_000 });
    const [latitude, longitude] = [((number * 0.618) % 1) * 180 - 90, number * 137.5];
    const known = [await veil.blur(`user ${number}`, latitude, longitude)];
    const moved = latitude + (latitude > 0 ? -1 : 1) * (40_000 / METERS_PER_DEGREE);
    assert.deepEqual(await veil.blur(`user ${number}`, moved, longitude, { known, accuracyM: 1e9 }), known[0]);
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
