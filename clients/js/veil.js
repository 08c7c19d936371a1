/**
 * Lasting noise for locations: the same user in the same cell always gets the same answer, so reports from one cell
 * cannot be averaged. One file, for browsers and Node 20 or newer. docs/reference/veil.md of Nearveil specifies it.
 *
 *     import { Veil } from "./veil.js";
 *     const veil = new Veil(key, { noiseM: 500 }); // key: Veil.newKey(), made once and kept apart from the answers
 *     const [latitude, longitude] = await veil.blur("ann", 52.52, 13.405, { known, accuracyM: 15 });
 *
 * @typedef {[number, number]} Location latitude and longitude in degrees
 * @typedef {[number, number, number]} Vector
 * @typedef {{row: number, column: number, latitude: number, longitude: number}} Cell center in radians
 */

const webcrypto = globalThis.crypto;
const { PI, abs, asin, atan2, ceil, cos, exp, floor, hypot, log, max, min, sin, sqrt } = Math;
const EARTH_RADIUS_M = 6_371_008.8;
const SAME_M = 3; // an earlier answer that a store has rounded is still recognized
const utf8 = new TextEncoder();

export class Veil {
  /** @type {Promise<CryptoKey>} */ #key;
  #noiseM;
  #rows;
  #rowHeight;

  /**
   * @param {string | Uint8Array} key 64 hexadecimal digits or 32 bytes
   * @param {{noiseM?: number}} [options] noiseM: how far locations move on average, from 50 to 100,000 meters
   */
  constructor(key, options = {}) {
    const { noiseM = 500 } = checkedOptions(options, ["noiseM"]);
    if (!(Number.isFinite(noiseM) && noiseM >= 50 && noiseM <= 100_000)) {
      throw new RangeError("noiseM must be a number from 50 to 100,000 meters");
    }
    const digits = typeof key === "string" && /^[0-9a-f]{64}$/i.test(key) && key.match(/../g);
    const bytes = digits ? Uint8Array.from(digits, (byte) => parseInt(byte, 16)) : key;
    if (!(bytes instanceof Uint8Array && bytes.length === 32)) {
      throw new TypeError("the key must be 64 hexadecimal digits or 32 bytes; Veil.newKey() makes one");
    }
    if (!webcrypto?.subtle) throw new Error("Veil needs WebCrypto: Node 20 or newer, or a page on https or localhost");
    this.#key = webcrypto.subtle.importKey("raw", bytes.slice(), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    this.#noiseM = floor(noiseM * 1000 + 1 / 2) / 1000;
    this.#rows = floor((PI * EARTH_RADIUS_M) / (this.#noiseM / 4) + 1 / 2);
    this.#rowHeight = PI / this.#rows;
  }

  /** Return a new secret key: 64 hexadecimal digits. */
  static newKey() {
    const bytes = webcrypto.getRandomValues(new Uint8Array(32));
    return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /**
   * Return the location to store and publish in place of the true one.
   *
   * @param {string} user an internal id that never changes
   * @param {number} latitude @param {number} longitude in degrees
   * @param {{known?: Location[], accuracyM?: number | null}} [options] known: the user's earlier answers, oldest first,
   *   from your own table; accuracyM: the radius of accuracy that the phone states
   */
  async blur(user, latitude, longitude, options = {}) {
    const { known = /** @type {Location[]} */ ([]), accuracyM } = checkedOptions(options, ["known", "accuracyM"]);
    if (typeof user !== "string" || user === "" || /\p{Surrogate}/u.test(user)) {
      throw new TypeError("the user id must be a string of well-formed Unicode that is not empty");
    }
    if (!(Array.isArray(known) && known.every((each) => Array.isArray(each) && each.length === 2))) {
      throw new TypeError("known must be an array of [latitude, longitude]");
    }
    const location = unitVector([latitude, longitude]);
    const earlier = known.map(unitVector);
    const reachM = this.#reachM(accuracyM);
    const rotation = rotationMatrix(await this.#uniforms("rotation", user));
    const turned = times(rotation, location);
    if (earlier.length > 0) {
      const cells = this.#cellsWithin(reachM, turned);
      const answers = await Promise.all(cells.map((cell) => this.#answer(user, rotation, cell)));
      for (const each of earlier) {
        const distances = answers.map((answer) => distanceM(unitVector(answer), each));
        const nearestM = min(...distances);
        if (nearestM <= SAME_M) return answers[distances.indexOf(nearestM)];
      }
    }
    return this.#answer(user, rotation, this.#cellOf(turned));
  }

  /**
   * Return a public radius in meters around an answer: with at least a probability, what `blur` was given is within.
   *
   * @param {number} probability @param {number | null} [accuracyM] as for `blur`
   */
  radiusM(probability, accuracyM) {
    if (!(probability > 0 && probability < 1)) throw new RangeError("the probability must be between 0 and 1");
    let [low, high] = [0, 50]; // of eps times the distance, which is larger than x with probability (1 + x) exp(-x)
    for (let halved = 0; halved < 60; halved++) {
      const middle = (low + high) / 2;
      [low, high] = (1 + middle) * exp(-middle) > 1 - probability ? [middle, high] : [low, middle];
    }
    return (high * this.#noiseM) / 2 + this.#reachM(accuracyM);
  }

  /** @param {number | null} [accuracyM] */
  #reachM(accuracyM) {
    const stated = accuracyM ?? 0; // which gives the side of a cell
    if (typeof stated !== "number" || !(stated >= 0)) throw new RangeError("accuracyM must be a number of at least 0");
    return min(max(this.#noiseM / 4, 2 * stated), this.#noiseM);
  }

  /** @param {string} purpose @param {string} user @param {number[]} parts @returns four numbers between 0 and 1 */
  async #uniforms(purpose, user, ...parts) {
    const noiseMm = floor(this.#noiseM * 1000 + 1 / 2);
    const fields = ["nearveil/veil/1", purpose, noiseMm, user, ...parts].map((each) => utf8.encode(`${each}`));
    const message = fields.flatMap((each) => [...[24, 16, 8, 0].map((bits) => each.length >>> bits), ...each]);
    const bits = new DataView(await webcrypto.subtle.sign("HMAC", await this.#key, Uint8Array.from(message)));
    return [0, 8, 16, 24].map((at) => (bits.getUint32(at) * 2 ** 21 + (bits.getUint32(at + 4) >>> 11) + 0.5) / 2 ** 53);
  }

  /** @param {number} row @returns a cell, with how many columns its row has */
  #cell(row, column = 0) {
    const latitude = (row + 1 / 2) * this.#rowHeight - PI / 2;
    const columns = floor((2 * PI * cos(latitude)) / this.#rowHeight + 1 / 2);
    return { row, column, columns, latitude, longitude: (2 * PI * (column + 1 / 2)) / columns - PI };
  }

  /** @param {Vector} turned */
  #cellOf(turned) {
    const [latitude, longitude] = angles(turned);
    const row = max(0, min(floor((latitude + PI / 2) / this.#rowHeight), this.#rows - 1));
    const { columns } = this.#cell(row);
    return this.#cell(row, min(floor((columns * (longitude + PI)) / (2 * PI)), columns - 1));
  }

  /** @param {number} reachM @param {Vector} turned @returns all cells with a center within reach, by row and column */
  #cellsWithin(reachM, turned) {
    const [latitude, longitude] = angles(turned);
    const angle = 2 * asin(reachM / (2 * EARTH_RADIUS_M));
    const west = abs(latitude) + angle < PI / 2 ? asin(min(sin(angle) / cos(latitude), 1)) : PI; // all around a pole
    const [own, around] = [this.#cellOf(turned).row, ceil(angle / this.#rowHeight) + 1];
    const cells = [];
    for (let row = max(own - around, 0); row <= min(own + around, this.#rows - 1); row++) {
      const { columns } = this.#cell(row);
      const first = floor((columns * (longitude - west + PI)) / (2 * PI)) - 1 + 2 * columns;
      const length = min(ceil((columns * west) / PI) + 3, columns);
      const near = Array.from({ length }, (_, at) => (first + at) % columns).sort((one, other) => one - other);
      cells.push(...near.map((column) => this.#cell(row, column)));
    }
    return cells.filter((cell) => distanceM(vector(cell.latitude, cell.longitude), turned) <= reachM);
  }

  /** @param {string} user @param {Vector[]} rotation @param {Cell} cell @returns {Promise<Location>} */
  async #answer(user, rotation, { row, column, latitude, longitude }) {
    for (let attempt = 0; ; attempt++) {
      const [u1, u2, u3, u4] = await this.#uniforms("noise", user, row, column, attempt);
      const d = -(log(u1) + log(u2)) / ((2 / this.#noiseM) * EARTH_RADIUS_M);
      if (u4 * d > sin(d)) continue;
      const [north, east] = [sin(d) * cos(2 * PI * u3), sin(d) * sin(2 * PI * u3)];
      const out = cos(latitude) * cos(d) - sin(latitude) * north;
      const [x, y] = [cos(longitude) * out - sin(longitude) * east, sin(longitude) * out + cos(longitude) * east];
      const z = sin(latitude) * cos(d) + cos(latitude) * north;
      const [lat, lon] = angles(times(transposed(rotation), [x, y, z])).map(rounded);
      return [lat, lon === 180 ? -180 : lon];
    }
  }
}

/** @template {object} T @param {T} options @param {string[]} names @returns {T} options, none of them misspelled */
function checkedOptions(options, names) {
  if (Object(options) === options && Object.keys(options).every((name) => names.includes(name))) return options;
  throw new TypeError(`options must be an object with no other names than ${names.join(" and ")}`);
}

/** @param {Location} location */
function unitVector([latitude, longitude]) {
  if (!(Number.isFinite(latitude) && abs(latitude) <= 90)) throw new RangeError("latitudes must be from -90 to 90");
  if (!Number.isFinite(longitude)) throw new RangeError("longitudes must be finite numbers");
  return vector(latitude * (PI / 180), (longitude % 360) * (PI / 180));
}

/** @param {number} latitude @param {number} longitude in radians @returns {Vector} */
const vector = (latitude, longitude) => [cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude)];
/** @param {Vector} vector @returns latitude and longitude in radians */
const angles = ([x, y, z]) => [atan2(z, hypot(x, y)), atan2(y, x)];
/** @param {number} angle @returns degrees, and never -0 */
const rounded = (angle) => floor(angle * (180 / PI) * 1e5 + 1 / 2) / 1e5;
/** @param {Vector} one @param {Vector} other @returns the length of a straight line */
const distanceM = (one, other) => EARTH_RADIUS_M * hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
/** @param {Vector[]} matrix its rows @param {Vector} vector */
const times = (matrix, [x, y, z]) => /** @type {Vector} */ (matrix.map((row) => row[0] * x + row[1] * y + row[2] * z));
/** @param {Vector[]} matrix */
const transposed = (matrix) => [0, 1, 2].map((at) => /** @type {Vector} */ (matrix.map((row) => row[at])));
/** @param {number[]} uniforms @returns {Vector[]} the rows of a rotation */
function rotationMatrix([a, b, c]) {
  const [x, y] = [sqrt(1 - a) * sin(2 * PI * b), sqrt(1 - a) * cos(2 * PI * b)];
  const [z, w] = [sqrt(a) * sin(2 * PI * c), sqrt(a) * cos(2 * PI * c)];
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
    [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
    [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
  ];
}
