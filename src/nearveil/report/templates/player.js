const plot = document.getElementById("{plot_id}");
const texts = JSON.parse(document.getElementById("texts").textContent);
let at = 0;
plot.on("plotly_animatingframe", (frame) => {
  at = Number(frame.name);
  document.getElementById("said").textContent = texts[at];
});
const play = document.getElementById("play");
const options = (duration) => ({ mode: "immediate", fromcurrent: true, transition: { duration: 0 }, frame: { duration } });
function playing(on) {
  play.textContent = on ? "❚❚ Pause" : "▶ Play";
}
function step(by) {
  playing(false);
  Plotly.animate(plot, [String(Math.min(Math.max(at + by, 0), texts.length - 1))], options(0));
}
play.onclick = () => {
  const start = play.textContent.endsWith("Play");
  playing(start);
  if (start && at === texts.length - 1) at = -1;
  const rest = texts.map((_, number) => String(number)).slice(at + 1);
  Plotly.animate(plot, start ? rest : [null], options(start ? 1500 : 0)).catch(() => {});
};
plot.on("plotly_animated", () => playing(false));
plot.on("plotly_sliderstart", () => playing(false));
document.getElementById("back").onclick = () => step(-1);
document.getElementById("next").onclick = () => step(1);
document.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight") step(1);
  if (event.key === "ArrowLeft") step(-1);
});
