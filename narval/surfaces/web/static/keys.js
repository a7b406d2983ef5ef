// Keyboard shortcuts, the switches of keys and colours, and moments in other words (M11, M91, M92).
//
// A link with data-key="g m" is followed when these keys are pressed one after the other; "/" goes to the search
// field. No key acts on data. #theme and #keys are the switches, which need scripts.

const WITHIN = 1500;  // milliseconds between the two keys of a pair

const kept = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => {
    try {
      if (value) localStorage.setItem(name, value);
      else localStorage.removeItem(name);
    } catch { /* without storage it lasts as long as the page */ }
  },
};

const button = (text, act) => {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  element.addEventListener("click", act);
  return element;
};

// --- switches ----------------------------------------------------------------------------------------------

const THEMES = { "": "Colours: system", dark: "Colours: dark", light: "Colours: light" };
let theme = kept.get("theme") ?? "";
if (!(theme in THEMES)) theme = "";
let isOn = kept.get("keys") !== "off";

const themeSwitch = document.getElementById("theme");
const keySwitch = document.getElementById("keys");

const label = () => {
  if (themeSwitch) themeSwitch.textContent = THEMES[theme];
  if (keySwitch) keySwitch.textContent = isOn ? "Keys: on" : "Keys: off";
};

themeSwitch?.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme = names[(names.indexOf(theme) + 1) % names.length];
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  kept.set("theme", theme);
  label();
});
keySwitch?.addEventListener("click", () => {
  isOn = !isOn;
  kept.set("keys", isOn ? "" : "off");
  label();
});
label();
for (const one of [themeSwitch, keySwitch]) if (one) one.hidden = false;

// --- keys --------------------------------------------------------------------------------------------------

const links = () => [...document.querySelectorAll("a[data-key]")];
const search = () => document.getElementById("search");

let dialog = null;

const help = () => {
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.className = "keys";
    dialog.setAttribute("aria-labelledby", "keys-title");
    const title = document.createElement("h2");
    title.id = "keys-title";
    title.textContent = "Keys";
    const list = document.createElement("dl");
    const rows = [["/", "search"], ["?", "this list"]];
    for (const link of links()) rows.push([link.dataset.key, link.textContent.trim()]);
    if (document.querySelector("svg [data-part]")) {
      rows.push(["Tab", "parts in the order of flow"], ["← ↑ → ↓", "along the arcs"], ["Enter", "open a part"],
        ["Escape", "close it"], ["+ − 0", "larger, smaller, all of the graph"], ["Shift with ← ↑ → ↓", "move the graph"]);
    }
    for (const [key, what] of rows) {
      const term = document.createElement("dt");
      term.append(document.createElement("kbd"));
      term.firstChild.textContent = key;
      const meaning = document.createElement("dd");
      meaning.textContent = what;
      list.append(term, meaning);
    }
    dialog.append(title, list, button("Close", () => dialog.close()));
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
};

const isTyping = (target) =>
  target instanceof Element && Boolean(target.closest("input, textarea, select, [contenteditable]"));

let first = "";
let since = 0;

document.addEventListener("keydown", (event) => {
  if (!isOn || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) || dialog?.open) return;
  const now = performance.now();
  const pressed = first && now - since < WITHIN ? `${first} ${event.key}` : event.key;
  first = "";
  if (pressed === "/") {
    const field = search();
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (pressed === "?") {
    event.preventDefault();
    help();
  } else {
    const link = links().find((one) => one.dataset.key === pressed);
    if (link) {
      event.preventDefault();
      location.assign(link.href);
    } else if (links().some((one) => one.dataset.key.startsWith(`${event.key} `))) {
      first = event.key;
      since = now;
    }
  }
});

// --- moments -----------------------------------------------------------------------------------------------

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

const age = (moment) => {
  const seconds = Math.round((moment - Date.now()) / 1000);
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return new Intl.RelativeTimeFormat("en", { numeric: "always" }).format(Math.trunc(seconds / size), unit);
};

const tell = (event) => {
  const time = event.target instanceof Element ? event.target.closest("time[datetime]") : null;
  const moment = time ? new Date(time.dateTime) : null;
  if (moment && !Number.isNaN(moment.getTime())) time.title = `${moment.toISOString()}, ${age(moment)}`;
};

document.addEventListener("pointerover", tell);
document.addEventListener("focusin", tell);
