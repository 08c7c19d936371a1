
"use strict";
// Interactive charts: Plotly is unpacked from the page, and takes the place of the drawn picture.
(() => {
  const root = document.documentElement;
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (darkness.matches ? "dark" : "light")) === "dark";

  async function loadPlotly() {
    const packed = document.getElementById("plotly");
    if (!packed) return false;
    const script = document.createElement("script");
    script.textContent = await window.unpacked(packed.textContent);
    document.head.append(script);
    return Boolean(window.Plotly);
  }

  function choice(box, caption, axes, redraw) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    for (const axis of axes) select.append(new Option(axis.name, axis.name));
    select.addEventListener("change", redraw);
    label.append(`${caption} `, select);
    box.append(label);
    return () => axes.find((axis) => axis.name === select.value);
  }

  const number = (value) => (value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 3 }));
  const said = ([value, low, high]) => number(value) + (low === null ? "" : ` (${number(Math.max(low, 0))} to ${number(high)})`);

  function bars(points, colour) {
    return {
      type: "data", symmetric: false, color: `${colour}66`, thickness: 1, width: 0,
      array: points.map(([value, , high]) => (high === null ? 0 : high - value)),
      arrayminus: points.map(([value, low]) => (low === null ? 0 : value - low)),
    };
  }

  function trace(curve, x, y) {
    const [xs, ys] = [curve.values[x.name], curve.values[y.name]];
    const colour = isDark() ? curve.dark : curve.light;
    const order = xs.map((_, index) => index).sort((one, other) => xs[one][0] - xs[other][0]);
    const ordered = (values) => order.map((index) => values[index]);
    const text = ordered(curve.notes.map((note, index) =>
      `<b>${curve.label}</b><br>${note}<br>${y.name} ${said(ys[index])}<br>${x.name} ${said(xs[index])}`));
    return {
      type: "scatter", mode: "lines+markers", name: curve.own ? `<b>${curve.label}</b>` : curve.label,
      x: ordered(xs).map(([value]) => value), y: ordered(ys).map(([value]) => value), text, hoverinfo: "text",
      error_y: bars(ordered(ys), colour), zorder: curve.own ? 1 : 0,
      line: { color: colour, dash: curve.dash, width: curve.own ? 3.5 : 1.6 },
      marker: { color: colour, symbol: curve.symbol, size: curve.own ? 12 : 8 },
    };
  }

  const logTicks = [0, 1, 2, 3, 4, 5].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

  function layout(x, y, width) {
    const narrow = width < 640;
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true };
    return {
      paper_bgcolor: colour("page"), plot_bgcolor: colour("panel"), hovermode: "closest", dragmode: narrow ? false : "zoom",
      font: { color: colour("ink"), size: 13, family: style.fontFamily || "sans-serif" },
      margin: { l: 56, r: 12, t: 12, b: 56 }, width, height: narrow ? 560 : 600,
      hoverlabel: { align: "left" },
      legend: narrow ? { orientation: "h", y: -0.2, font: { size: 12 } } : { x: 1.01, y: 1 },
      xaxis: { ...axis, title: { text: x.label }, type: x.log ? "log" : "linear", tickformat: ",", tickvals: x.log ? logTicks : undefined,
        autorange: x.reversed ? "reversed" : true },
      yaxis: { ...axis, title: { text: y.label }, rangemode: "tozero" },
    };
  }

  function explorer(box) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const controls = document.createElement("div");
    controls.className = "controls";
    const plot = document.createElement("div");
    const draw = () => Plotly.react(plot, data.curves.map((curve) => trace(curve, x(), y())),
      // Without its buttons, of which some versions send the data to a service.
      layout(x(), y(), box.clientWidth), { displayModeBar: false });
    const y = choice(controls, "Lists:", data.y, draw);
    const x = choice(controls, "Attacker:", data.x, draw);
    box.append(controls, plot);
    box.closest("figure").classList.add("explored");
    draw();
    new MutationObserver(draw).observe(root, { attributeFilter: ["data-theme"] });
    darkness.addEventListener("change", draw);
    addEventListener("resize", draw);
  }

  addEventListener("load", async () => {
    const boxes = document.querySelectorAll(".explore");
    // Where it fails, the drawn picture stays.
    if (boxes.length && await loadPlotly().catch(() => false)) boxes.forEach(explorer);
  });
})();
