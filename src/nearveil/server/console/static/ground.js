// A map: ground, view, buttons, keys and scale. What is on it comes from others.

import { Frame } from "./geometry.js";
import { mapTools, tileCredit } from "./map-tools.js";
import { colour, onTheme } from "./theme.js";
import { length, make } from "./dom.js";

const coarse = matchMedia("(pointer: coarse)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const STILL_MS = 120, GLIDE_MS = 420;

export class Ground {
  // about: what /v1/console/map says; plot: where to draw; traces: gives what lies on the ground.
  constructor(plot, about, traces) {
    this.plot = plot;
    this.frame = new Frame(about.region);
    this.traces = traces;
    this.tileAddress = about.tile_address;
    this.land = about.coastline.features.map((line) => this.line(line.geometry.coordinates));
    this.moving = coarse.matches ? false : "pan";
    this.held = [this.frame.box, 1.04];
    this.view = this.home = this.square(...this.held);
    plot.parentElement.append(mapTools(this, coarse.matches));
    this.scale = make("div", { className: "scale" }, make("i"), make("span"));
    plot.parentElement.append(this.scale);
    if (this.tileAddress) plot.parentElement.append(tileCredit(this.tileAddress));
    this.draw().then(() => plot.on("plotly_relayout", () => this.readWindow()));
    plot.addEventListener("keydown", (event) => this.onKey(event));
    plot.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    new ResizeObserver(() => { clearTimeout(this.resizing); this.resizing = setTimeout(() => this.fit(), STILL_MS); }).observe(plot);
    onTheme(() => this.draw());
  }

  line(coordinates) {
    const points = coordinates.map(([longitude, latitude]) => this.frame.xy([latitude, longitude]));
    return { x: points.map(([x]) => x), y: points.map(([, y]) => y) };
  }

  // A view in the plot's proportions that holds a box, with a little room.
  square([west, south, east, north], room) {
    const { width, height } = this.plot.getBoundingClientRect();
    const proportion = width && height ? width / height : 1;
    const half = room * Math.max(north - south, (east - west) / proportion) / 2;
    const [x, y] = [(west + east) / 2, (south + north) / 2];
    return [x - half * proportion, y - half, x + half * proportion, y + half];
  }

  box(centre, halfM) {
    const [x, y] = this.frame.xy(centre);
    const half = halfM * this.frame.stretch(centre[0]);
    return [x - half, y - half, x + half, y + half];
  }

  ground() {
    const [west, south, east, north] = this.frame.box;
    const tiled = Boolean(this.tileAddress);
    const plain = { mode: "lines", hoverinfo: "skip", showlegend: false };
    const shore = this.land.map((line) => ({ ...plain, ...line, fill: tiled ? "none" : "toself", fillcolor: colour("land"),
      line: { color: colour("shore"), width: 1 } }));
    const outline = { ...plain, x: [west, east, east, west, west], y: [south, south, north, north, south],
      line: { color: colour("soft"), width: 1.2, dash: "dash" } };
    return [...shore, outline];
  }

  layout() {
    const [west, south, east, north] = this.view;
    const axis = { visible: false, zeroline: false, showgrid: false, fixedrange: this.moving === false };
    return [
      [...this.ground(), ...this.traces(this)],
      {
        margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, dragmode: this.moving, hovermode: "closest",
        paper_bgcolor: colour("water"), plot_bgcolor: colour("water"),
        font: { family: "system-ui, sans-serif", size: 13, color: colour("ink") },
        xaxis: { ...axis, range: [west, east] },
        yaxis: { ...axis, range: [south, north], scaleanchor: "x", scaleratio: 1 },
        images: this.tileAddress ? this.frame.tiles(this.tileAddress, this.view, this.plot.clientWidth) : [],
      },
    ];
  }

  async draw() {
    const [traces, layout] = this.layout();
    await Plotly.react(this.plot, traces, layout, { displayModeBar: false, doubleClick: false, responsive: false });
    this.showScale();
  }

  // Look at a box, gliding there unless motion is unwelcome.
  look(box, { glide = true } = {}) {
    this.held = [box, 1];
    const from = this.view, to = this.home = this.square(...this.held);
    cancelAnimationFrame(this.gliding);
    const still = from.every((edge, i) => Math.abs(edge - to[i]) < (to[2] - to[0]) / 500);
    if (!glide || calm.matches || still) {
      this.view = to;
      return this.draw();
    }
    const started = performance.now();
    const move = () => {
      const done = Math.min(1, (performance.now() - started) / GLIDE_MS);
      const eased = 1 - (1 - done) ** 3;
      this.view = done < 1 ? between(from, to, eased) : to;
      this.draw();
      if (done < 1) this.gliding = requestAnimationFrame(move);
    };
    move();
    return Promise.resolve();
  }

  fit() {
    if (!this.plot.clientWidth) return;
    const isHome = this.view === this.home;
    const [west, south, east, north] = this.view;
    const { width, height } = this.plot.getBoundingClientRect();
    const [x, halfHeight] = [(west + east) / 2, (north - south) / 2];
    const halfWidth = halfHeight * width / height;
    // In other proportions, what is to be seen takes another height.
    this.home = this.square(...this.held);
    this.view = isHome ? this.home : [x - halfWidth, south, x + halfWidth, north];
    Plotly.relayout(this.plot, { autosize: true, width, height });
    this.draw();
  }

  // With a finger: the page is scrolled unless it is told to move the map. Returns whether the map moves.
  toggleMoving() {
    this.moving = this.moving ? false : "pan";
    this.draw();
    return Boolean(this.moving);
  }

  zoom(factor, at) {
    const [west, south, east, north] = this.view;
    const [x, y] = at ?? [(west + east) / 2, (south + north) / 2];
    this.view = [x - (x - west) * factor, y - (y - south) * factor, x + (east - x) * factor, y + (north - y) * factor];
    this.draw();
  }

  pan(right, up) {
    const [west, south, east, north] = this.view;
    const [dx, dy] = [right * (east - west) / 5, up * (north - south) / 5];
    this.view = [west + dx, south + dy, east + dx, north + dy];
    this.draw();
  }

  reset() {
    this.view = this.home;
    this.fit();
  }

  readWindow() {
    const { xaxis, yaxis } = this.plot.layout;
    const [west, south, east, north] = [xaxis.range[0], yaxis.range[0], xaxis.range[1], yaxis.range[1]];
    if (this.view.every((edge, i) => Math.abs(edge - [west, south, east, north][i]) < 1e-6 * (east - west))) return;
    this.view = [west, south, east, north];
    this.showScale();
    if (this.tileAddress) this.draw();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (moves[event.key]) this.pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / 1.6);
    else if (event.key === "-") this.zoom(1.6);
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  // With the control key, as on other maps: the wheel alone scrolls the page.
  onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [west, south, east, north] = this.view;
    const { left, top, width, height } = this.plot.getBoundingClientRect();
    const at = [west + (event.clientX - left) / width * (east - west), north - (event.clientY - top) / height * (north - south)];
    this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, at);
  }

  showScale() {
    const [west, , east] = this.view;
    const most = (east - west) / 4;
    const power = 10 ** Math.floor(Math.log10(most));
    const metres = Math.max(...[1, 2, 5].map((step) => step * power).filter((step) => step <= most));
    this.scale.firstChild.style.width = `${metres / (east - west) * this.plot.clientWidth}px`;
    this.scale.lastChild.textContent = metres >= 1000 ? `${metres / 1000} km` : length(metres);
  }
}

// Between two views: the size changes by equal factors in equal times.
function between(from, to, share) {
  const middle = (w) => [(w[0] + w[2]) / 2, (w[1] + w[3]) / 2];
  const [[x0, y0], [x1, y1]] = [middle(from), middle(to)];
  const [width0, width1] = [from[2] - from[0], to[2] - to[0]];
  const width = width0 * (width1 / width0) ** share;
  // The middle moves as the size does, so that what matters stays in sight.
  const moved = Math.abs(width1 - width0) > 1e-9 * width0 ? (width - width0) / (width1 - width0) : share;
  const [x, y] = [x0 + (x1 - x0) * moved, y0 + (y1 - y0) * moved];
  const height = width * (to[3] - to[1]) / width1;
  return [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
}
