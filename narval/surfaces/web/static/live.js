// Follows what changes on the page by server-sent events (M60 to M63).
//
// <body data-live="URL"> names the stream. Regions are elements with an id, whose content the server renders again;
// parts of a graph are patched by graph.js, which listens to "narval:parts".

const SAY = 5000;          // milliseconds between two announcements (M91)
const RETRIES = [1000, 2000, 5000, 15000, 30000];  // milliseconds before a refused stream is tried again

const url = document.body.dataset.live;
let source = null;
let state = "closed";      // closed, open, over, paused (by the server, until the page is visible)
let refused = 0;
let again = 0;

// On a phone the entry of this page may be outside the visible part of the navigation.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

// --- announcements -----------------------------------------------------------------------------------------

const banner = document.getElementById("banner");
const announcer = document.getElementById("told");

const show = (text) => {
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
};

const showEnded = () => {
  // A new login here returns to this page.
  const login = document.createElement("a");
  login.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  login.textContent = "Log in again";
  banner.replaceChildren("Your session has ended: this page is not followed any more. ", login);
  banner.hidden = false;
};

document.addEventListener("narval:ended", showEnded);

const hasEnded = async () => {
  // A refused stream gives no reason.
  try {
    return (await fetch("/sessions.json", { method: "HEAD" })).status === 401;
  } catch {
    return false;
  }
};

let unsaid = [];
let last = -SAY;
let saying = 0;

const speak = () => {
  saying = 0;
  last = performance.now();
  const more = unsaid.length > 3 ? `${unsaid.length} new lines, the last ones: ` : "";
  announcer.textContent = more + unsaid.slice(-3).join(". ");
  unsaid = [];
};

const announce = (text) => {
  const line = text.replace(/\s+/g, " ").trim().slice(0, 160);
  if (!line) return;
  unsaid.push(line);
  if (!saying) saying = setTimeout(speak, Math.max(0, last + SAY - performance.now()));
};

// --- notifications -----------------------------------------------------------------------------------------

// The title shows the count of the header. With notices on, the page is followed while it is hidden too, and the
// browser notifies when the count rises.

const title = document.title.replace(/^\(\d+\) /, "");
const switchOfNotices = globalThis.Notification && document.getElementById("notices");
const inNeed = () => Number(document.querySelector("#live_attention .count")?.textContent ?? 0);
let needed = inNeed();

const hasNotices = () => {
  try {
    return Boolean(switchOfNotices) && Notification.permission === "granted" && localStorage.getItem("notices") === "on";
  } catch {
    return false;
  }
};

const count = () => {
  const before = needed;
  needed = inNeed();
  document.title = needed ? `(${needed}) ${title}` : title;
  if (needed > before && document.hidden && hasNotices()) {
    const things = needed === 1 ? "1 thing needs" : `${needed} things need`;
    new Notification(title, { body: `${things} somebody.`, tag: "narval" });
  }
};

const labelNotices = () => { switchOfNotices.textContent = hasNotices() ? "Notices: on" : "Notices: off"; };

if (switchOfNotices) {
  switchOfNotices.addEventListener("click", async () => {
    const turnsOn = !hasNotices() && (await Notification.requestPermission()) === "granted";
    try {
      localStorage.setItem("notices", turnsOn ? "on" : "off");
    } catch { /* a browser that keeps nothing has none */ }
    labelNotices();
  });
  labelNotices();
  switchOfNotices.hidden = false;
}

// --- regions -----------------------------------------------------------------------------------------------

const isTouched = (field) => {
  if (field instanceof HTMLSelectElement) {
    const options = [...field.options];
    const opensWithFirst = !field.multiple && !options.some((o) => o.defaultSelected);
    return opensWithFirst ? field.selectedIndex > 0 : options.some((o) => o.selected !== o.defaultSelected);
  }
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return field.value !== field.defaultValue;
};

const isFilledIn = (form) => [...form.querySelectorAll("input:not([type=hidden]), textarea, select")].some(isTouched);

const leave = (form, isGone) => {
  // If the page no longer has the form, its buttons are hidden; the typed text stays. They return with the form.
  form.toggleAttribute("data-left", isGone);
  for (const button of form.querySelectorAll("button")) button.disabled = button.hidden = isGone;
};

const keptForm = (node) => node instanceof Element && node.matches("form, details") && isFilledIn(node);

const keeping = {
  // Keep filled-in fields and unfolded details as the user left them.
  beforeNodeMorphed: (old) => {
    if (!(old instanceof Element)) return true;
    if (old.matches("input, textarea, select")) return old !== document.activeElement && !isTouched(old);
    const isKept = old.matches("form") && isFilledIn(old);
    if (isKept) leave(old, false);
    return !isKept;
  },
  beforeAttributeUpdated: (name, node) => !(name === "open" && (node.matches("details") || node.matches("dialog"))),
  beforeNodeRemoved: (node) => {
    const isKept = keptForm(node);
    if (isKept) leave(node, true);
    return !isKept;
  },
};

const sameAs = (focused) => {
  const id = focused.id;
  const href = focused.getAttribute("href");
  return (region) =>
    (id && document.getElementById(id)) || (href && region.querySelector(`a[href="${CSS.escape(href)}"]`)) || null;
};

const morph = (region, html) => {
  const focused = region.contains(document.activeElement) ? document.activeElement : null;
  const find = focused && sameAs(focused);
  const name = focused?.getAttribute("href");
  const added = [];
  globalThis.Idiomorph.morph(region, html, {
    morphStyle: "innerHTML",
    callbacks: { ...keeping, afterNodeAdded: (node) => added.push(node) },
  });
  if (focused && (document.activeElement !== focused || focused.getAttribute("href") !== name)) {
    find(region)?.focus({ preventScroll: true });
  }
  for (const node of added) if (node instanceof Element && node.matches("li, tr")) announce(node.textContent);
};

const regions = (contents) => {
  for (const [id, html] of Object.entries(contents)) {
    const region = document.getElementById(id);
    if (region) morph(region, html);
  }
  if ("live_attention" in contents) count();
};

// --- the stream --------------------------------------------------------------------------------------------

const read = (event) => {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
};

const close = (next) => {
  clearTimeout(again);
  source?.close();
  source = null;
  state = next;
  document.body.dataset.stream = next;
};

const open = () => {
  if (!url || source || state === "over" || (document.hidden && !hasNotices())) return;
  clearTimeout(again);
  state = "open";
  source = new EventSource(url);
  source.addEventListener("open", () => {
    refused = 0;
    document.body.dataset.stream = "open";
    show("");
  });
  source.addEventListener("error", async () => {
    // The browser itself retries if no server answers; a refused stream is retried here.
    show("This page is not followed for the moment; it shows what was known.");
    document.body.dataset.stream = "waiting";
    if (source?.readyState !== EventSource.CLOSED) return;
    close("closed");
    again = setTimeout(open, RETRIES[Math.min(refused, RETRIES.length - 1)]);
    refused += 1;
    if (await hasEnded()) {
      close("over");
      showEnded();
    }
  });
  source.addEventListener("regions", (event) => regions(read(event) ?? {}));
  source.addEventListener("parts", (event) =>
    document.dispatchEvent(new CustomEvent("narval:parts", { detail: read(event) ?? [] })));
  source.addEventListener("gone", (event) => show(read(event)?.text ?? "No daemon is running."));
  source.addEventListener("back", () => show(""));
  source.addEventListener("over", () => close("over"));
  source.addEventListener("superseded", () => {
    close("paused");
    show("Paused, as other pages are open; it goes on when you look at it.");
  });
};

const resume = () => {
  if (state === "closed" || state === "paused") open();
};

if (url) {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) resume();
    else if (state === "open" && !hasNotices()) close("closed");
  });
  addEventListener("focus", resume);
  addEventListener("pointerdown", resume);
  addEventListener("pagehide", () => { if (state === "open") close("closed"); });
  addEventListener("pageshow", (event) => { if (event.persisted) resume(); });
  open();
}
