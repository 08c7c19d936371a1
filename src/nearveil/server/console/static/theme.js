// Light and dark: as the system says, or as the button says. Charts read their colours from the style sheet.

import { $ } from "./dom.js";

const root = document.documentElement;
const darkness = matchMedia("(prefers-color-scheme: dark)");
const NAME = "nearveil-theme";
const followers = [];

const theme = () => root.dataset.theme || (darkness.matches ? "dark" : "light");

export const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
export const isDark = () => theme() === "dark";
export const onTheme = (follower) => followers.push(follower);

function changed() {
  const other = theme() === "dark" ? "light" : "dark";
  const button = $("theme");
  button.textContent = other === "dark" ? "Dark" : "Light";
  button.setAttribute("aria-label", `Switch to ${other} colours`);
  for (const follower of followers) follower();
}

export function setUpTheme() {
  let stored = null;
  try { stored = localStorage.getItem(NAME); } catch { /* as the system says */ }
  if (["light", "dark"].includes(stored)) root.dataset.theme = stored;
  $("theme").hidden = false;
  $("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    try { localStorage.setItem(NAME, root.dataset.theme); } catch { /* forgotten */ }
    changed();
  });
  darkness.addEventListener("change", changed);
  changed();
}

// A colour with so much of it left, as charts want it.
export function faint(name, share) {
  const [red, green, blue] = [1, 3, 5].map((start) => parseInt(full(colour(name)).slice(start, start + 2), 16));
  return `rgba(${red}, ${green}, ${blue}, ${share})`;
}

const full = (hex) => hex.length === 4 ? `#${[...hex.slice(1)].map((digit) => digit + digit).join("")}` : hex;
