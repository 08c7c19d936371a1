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
const DEGREE = Math.PI / 180;
const METERS_PER_DEGREE = 6_371_008.8 * DEGREE;

function distanceM([first, second], [third, fourth]) {
  const [lat, lon, otherLat, otherLon] = [first, second, third, fourth].map((each) => each * DEGREE);
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
  for (const each of errors) {
    const { key, noise_m: noiseM, user, latitude, longitude, known, accuracy_m: accuracyM } = each;
    const blurred = async () => new Veil(key, { noiseM }).blur(user, latitude, longitude, { known, accuracyM });
    await assert.rejects(blurred, ({ message }) => !/52\.52|13\.405|9f9f|\n/.test(message), JSON.stringify(each));
  }
  for (const user of ["\ud800", "a\udc00b"]) await assert.rejects(new Veil(KEY).blur(user, 52.52, 13.405), /well-formed/);
});

test("a misspelled option is an error, and so are options that are none", async () => {
  assert.throws(() => new Veil(KEY, { noise_m: 2000 }), /noiseM/);
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

test("a place is known from all sides, beside a pole of the user's grid and across it", async () => {
  const [veil, noise] = [new Veil(KEY, { noiseM: 10_000 }), 10_000 / METERS_PER_DEGREE];
  for (let number = 0; number < 80; number++) {
    const fields = ["nearveil/veil/1", "rotation", "10000000", `user ${number}`].map((each) => Buffer.from(each));
    const message = Buffer.concat(fields.flatMap((each) => [Buffer.from([0, 0, 0, each.length]), each]));
    const digest = createHmac("sha256", Buffer.from(KEY, "hex")).update(message).digest();
    const [a, b, c] = [0, 8, 16].map((at) => Number(digest.readBigUInt64BE(at)) / 2 ** 64);
    const [pole, longitude] = [Math.asin(2 * a - 1) / DEGREE, 180 - 360 * (b + c)];
    const across = noise / Math.cos((pole + 3 * noise) * DEGREE); // as much eastward
    const at = (side) => [pole + (number % 2 ? side : 3) * noise, longitude + (number % 2 ? 0 : side * across)];
    const known = [await veil.blur(`user ${number}`, ...at(-0.35))];
    assert.deepEqual(await veil.blur(`user ${number}`, ...at(0.35), { known, accuracyM: 1e9 }), known[0]);
  }
});

test("the radius is the quantile of the noise, and the reach", () => {
  const veil = new Veil(KEY);
  assert.ok(Math.abs(veil.radiusM(0.9) - (3.88972 * 250 + 125)) < 0.01);
  assert.ok(Math.abs(veil.radiusM(0.5, 1e9) - (1.67835 * 250 + 500)) < 0.01);
  for (const wrong of [0, 1, NaN]) assert.throws(() => veil.radiusM(wrong));
});
