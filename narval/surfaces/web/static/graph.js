// An interactive drawing: zoomed, moved, searched, and operated by keys (M33, M63, M91).
//
// .graph holds an SVG of parts, <g id=… data-part="ID" class="p s-TONE"><title>name: state</title><a href=…>, and
// arcs, <g id=… data-from="ID" data-to="ID" class="arc e-STATE">; data-arc="ID" where that is not FROM>TO. "narval:parts" says what changed,
// "narval:draw" what is shown instead (replay), "narval:now" that the present is shown again; their details are rows
// [id of an element of SVG, state, tone, badge].

const LARGE = 300;         // parts from which a graph opens on what is active or failed
const FURTHEST = 4;        // pixels a unit
const READABLE = 11 / 12;  // pixels a unit at which letters, which have 12 units, have 11
const NARROW = "(max-width: 600px)";
const STEP = 1.3;

const PART = "[data-part]";
const partOf = (node) => (node instanceof Element ? node.closest(PART) : null);
const linkOf = (part) => part.querySelector("a[href]");

// --- patches -----------------------------------------------------------------------------------------------

const dressed = (element, start, name) => {
  const wanted = `${start}${String(name || "idle").replace(/ /g, "-")}`;
  const others = [...element.classList].filter((one) => one.startsWith(start) && one !== wanted);
  if (others.length) element.classList.remove(...others);
  element.classList.add(wanted);
};

const paint = ([id, word, tone, badge = ""]) => {
  const element = document.getElementById(id);
  if (!element) return;
  if (!element.matches(PART)) {
    dressed(element, "e-", tone ?? word);
    put(element.querySelector(".badge"), badge);
    return;
  }
  dressed(element, "s-", tone);
  put(badgeOf(element, badge), badge);
  const title = element.querySelector("title");
  element.dataset.name ??= title?.textContent.replace(/: [^:]*$/, "") ?? element.dataset.part;
  put(title, `${element.dataset.name}: ${word}`);
  linkOf(element)?.setAttribute("aria-label", [element.dataset.name, word, badge].filter(Boolean).join(", "));
};

// An empty badge is not in the page. It is added at the upper right of its part when it has a text, and
// above it if it would cover the name.
const badgeOf = (part, text) => {
  const known = part.querySelector(".badge"), box = part.querySelector("rect");
  if (!text || !box) return known;
  const badge = known ?? document.createElementNS("http://www.w3.org/2000/svg", "text");
  const at = (name) => Number(box.getAttribute(name));
  const has = { class: "badge", x: at("x") + at("width") - 8, y: at("y") + (text.length < 3 ? 16 : -4) };
  for (const [name, value] of Object.entries(has)) badge.setAttribute(name, value);
  return known ?? box.parentElement.appendChild(badge);
};

const put = (element, text) => {
  if (element && element.textContent !== text) element.textContent = text;
};

let held = null;           // the changes while another moment is shown, by id; null while the present is

document.addEventListener("narval:parts", ({ detail }) => {
  if (held) for (const row of detail) held.set(row[0], row);
  else detail.forEach(paint);
});
document.addEventListener("narval:draw", ({ detail }) => {
  held ??= new Map();
  detail.forEach(paint);
});
document.addEventListener("narval:now", () => {
  held?.forEach(paint);
  held = null;
});

// --- looking -----------------------------------------------------------------------------------------------

const svgNumber = (text) => Number.parseFloat(text) || 0;

class View {
  // The visible part of a drawing: x, y and pixels per unit.
  constructor(svg) {
    this.svg = svg;
    const [x, y, width, height] = (svg.getAttribute("viewBox") ?? "0 0 100 100").split(/[\s,]+/).map(svgNumber);
    this.all = { x, y, width, height };
    this.x = x;
    this.y = y;
    this.scale = 1;
  }

  get width() { return this.svg.clientWidth || 1; }

  get height() { return this.svg.clientHeight || 1; }

  show() {
    const box = [this.x, this.y, this.width / this.scale, this.height / this.scale];
    this.svg.setAttribute("viewBox", box.map((number) => number.toFixed(2)).join(" "));
  }

  grow(scale = Math.min(this.width / this.all.width, 1)) {
    // As high as the drawing at the available width, but low enough to leave room to scroll the page.
    const most = Math.max(innerHeight * 0.9, 200);
    this.svg.setAttribute("height", String(Math.round(Math.min(Math.max(this.all.height * scale, 160), most))));
  }

  fit() {
    const { x, y, width, height } = this.all;
    this.scale = Math.min(this.width / width, this.height / height, 1);
    this.x = x - (this.width / this.scale - width) / 2;
    this.y = y - (this.height / this.scale - height) / 2;
    this.show();
  }

  zoom(factor, left = this.width / 2, top = this.height / 2) {
    const least = Math.min(this.width / this.all.width, this.height / this.all.height, 1) / 2;
    const scale = Math.min(FURTHEST, Math.max(least, this.scale * factor));
    this.x += left / this.scale - left / scale;
    this.y += top / this.scale - top / scale;
    this.scale = scale;
    this.show();
  }

  move(right, down) {
    this.x -= right / this.scale;
    this.y -= down / this.scale;
    this.show();
  }

  centre(part) {
    const box = placeOf(part);
    this.x = box.x - this.width / this.scale / 2;
    this.y = box.y - this.height / this.scale / 2;
    this.show();
  }

  begin(part) {
    // Centres a part, but shows no empty room beyond the drawing.
    this.centre(part);
    const within = (at, seen, start, length) => seen >= length
      ? start - (seen - length) / 2
      : Math.min(Math.max(at, start), start + length - seen);
    this.x = within(this.x, this.width / this.scale, this.all.x, this.all.width);
    this.y = within(this.y, this.height / this.scale, this.all.y, this.all.height);
    this.show();
  }

  reveal(part) {
    // Moves just far enough to show the whole part.
    const box = placeOf(part);
    const [width, height] = [this.width / this.scale, this.height / this.scale];
    const left = box.x - box.width / 2;
    const top = box.y - box.height / 2;
    const seen = left >= this.x && top >= this.y && left + box.width <= this.x + width && top + box.height <= this.y + height;
    if (!seen) this.centre(part);
  }
}

const placeOf = (part) => {
  // The middle of a part in the units of the drawing, through all transforms of groups.
  const box = part.getBBox();
  const matrix = part.getCTM() && part.ownerSVGElement.getCTM()?.inverse().multiply(part.getCTM());
  const point = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(matrix ?? new DOMMatrix());
  return { x: point.x, y: point.y, width: box.width, height: box.height };
};

const tools = (view, graph, parts) => {
  let bar = graph.querySelector(".tools");
  if (!bar) {
    bar = document.createElement("div");
    bar.className = "tools";
    graph.prepend(bar);
  }
  bar.classList.remove("hidden");
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "The view of the graph");
  const button = (text, name, act) => {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = text;
    element.setAttribute("aria-label", name);
    element.title = name;
    element.addEventListener("click", act);
    bar.append(element);
  };
  button("+", "Larger", () => view.zoom(STEP));
  button("−", "Smaller", () => view.zoom(1 / STEP));
  button("Fit", "All of the graph", () => view.fit());
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Find a part";
  field.setAttribute("aria-label", "Find a part");
  field.autocomplete = "off";
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  told.className = "found-count";
  bar.append(field, told);
  let found = [];
  let at = 0;
  const look = () => {
    for (const part of found) part.classList.remove("found");
    const text = field.value.trim().toLowerCase();
    found = text ? parts.filter((part) => part.textContent.toLowerCase().includes(text)) : [];
    at = 0;
    for (const part of found) part.classList.add("found");
    told.textContent = text ? `${found.length} of ${parts.length}` : "";
    if (found.length) {
      if (view.scale < 0.7) view.scale = 1;
      view.centre(found[0]);
    }
  };
  field.addEventListener("input", look);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.length) {
      event.preventDefault();
      linkOf(found[at % found.length])?.focus({ preventScroll: true });
      view.centre(found[at % found.length]);
      at += 1;
    } else if (event.key === "Escape") {
      field.value = "";
      look();
    }
  });
};

const pointers = (view, svg) => {
  const down = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    if (!down.size) moved = 0;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  const span = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  svg.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const wide = down.size === 2 ? span() : 0;
    const [right, below] = [event.clientX - before.x, event.clientY - before.y];
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(right) + Math.abs(below);
    if (moved > 4 && !svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
    if (wide) {
      const box = svg.getBoundingClientRect();
      const [a, b] = [...down.values()];
      view.zoom(span() / wide, (a.x + b.x) / 2 - box.x, (a.y + b.y) / 2 - box.y);
    }
    const scrolls = event.pointerType === "touch" && down.size === 1;  // vertical moves of one finger scroll the page
    view.move(right / down.size, scrolls ? 0 : below / down.size);
  });
  const up = (event) => down.delete(event.pointerId);
  svg.addEventListener("pointerup", up);
  svg.addEventListener("pointercancel", up);
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("click", (event) => {
    if (moved > 4) { event.preventDefault(); event.stopImmediatePropagation(); }  // the end of a drag opens nothing
    moved = 0;
  }, { capture: true });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls; a pinch on a touchpad sets ctrl
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    view.zoom(Math.exp(-event.deltaY / 200), event.clientX - box.x, event.clientY - box.y);
  }, { passive: false });
};

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const neighbours = (svg, part) => {
  const found = [];
  const id = part.dataset.part;
  for (const arc of svg.querySelectorAll("[data-from]")) {
    const { from, to } = arc.dataset;
    const other = from === id ? to : to === id ? from : "";
    const element = other && other !== id ? svg.querySelector(`[data-part="${CSS.escape(other)}"]`) : null;
    if (element) found.push(element);
  }
  return found;
};

const towards = (svg, part, [right, down]) => {
  // The best of its neighbours in that direction.
  const from = placeOf(part);
  let best = null;
  let most = 0.2;
  for (const other of neighbours(svg, part)) {
    const to = placeOf(other);
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const cosine = ((to.x - from.x) * right + (to.y - from.y) * down) / length;
    const worth = cosine - length / 1e5;
    if (worth > most) [best, most] = [other, worth];
  }
  return best;
};

const keys = (view, graph, svg) => {
  graph.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    const direction = ARROWS[event.key];
    const part = partOf(event.target);
    if (direction && event.shiftKey) view.move(-60 * direction[0], -60 * direction[1]);
    else if (direction && part) {
      const next = towards(svg, part, direction);
      if (next) linkOf(next)?.focus({ preventScroll: true });
    } else if (event.key === "+" || event.key === "=") view.zoom(STEP);
    else if (event.key === "-" || event.key === "−") view.zoom(1 / STEP);
    else if (event.key === "0") view.fit();
    else return;
    event.preventDefault();
  });
  // Not on the drawing: an element that listens to focus becomes focusable, a useless tab stop.
  graph.addEventListener("focusin", (event) => {
    const part = partOf(event.target);
    if (part && event.target.matches(":focus-visible")) view.reveal(part);
  });
};

// --- a part beside its graph -------------------------------------------------------------------------------

let shown = null;          // the part whose page is open; the address names it, as ?part=ID

const panel = document.getElementById("panel");

const address = (part) => {
  const url = new URL(location.href);
  if (part) url.searchParams.set("part", part);
  else url.searchParams.delete("part");
  return url;
};

const closePanel = () => {
  if (!shown) return;
  panel.hidden = true;
  panel.replaceChildren();
  panel.parentElement.classList.remove("open");
  const link = linkOf(shown);
  shown = null;
  link?.removeAttribute("aria-current");
  link?.focus({ preventScroll: true });
};

const leavePanel = () => {
  // Going back in the history closes a part that was opened here.
  closePanel();
  if (history.state?.part) history.back();
  else history.replaceState(history.state, "", address(null));
};

const contentOf = (text) => {
  // The server's rendering, without ids that the surrounding page has.
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main") ?? page.body;
  for (const element of main.querySelectorAll("[id]")) {
    const other = document.getElementById(element.id);
    if (other && !panel.contains(other)) element.removeAttribute("id");
  }
  return main;
};

const fetchPart = async (part) => {
  const answer = await fetch(linkOf(part).getAttribute("href"), { headers: { "X-Fragment": "part" }, redirect: "error" });
  if (!answer.ok) throw new Error(String(answer.status));
  return contentOf(await answer.text());
};

const goToPart = (part) => {
  const state = { ...history.state, part: true };
  if (!shown) history.pushState(state, "", address(part.dataset.part));
  else history.replaceState(history.state, "", address(part.dataset.part));
  openPart(part);
};

const openPart = async (part) => {
  let content;
  try {
    content = await fetchPart(part);
  } catch {
    location.replace(linkOf(part).getAttribute("href"));
    return;
  }
  if (new URLSearchParams(location.search).get("part") !== part.dataset.part) return;  // the page shows another part by now
  if (shown) linkOf(shown)?.removeAttribute("aria-current");
  shown = part;
  linkOf(part).setAttribute("aria-current", "true");
  const close = document.createElement("button");
  close.type = "button";
  close.className = "link";
  close.textContent = "Close";
  close.addEventListener("click", leavePanel);
  const box = document.createElement("div");
  box.append(...content.childNodes);
  panel.replaceChildren(close, box);
  panel.tabIndex = -1;
  panel.hidden = false;
  panel.parentElement.classList.add("open");
  panel.focus();
};

const named = () => {
  // The part that the address names, if it is in this drawing.
  const id = new URLSearchParams(location.search).get("part");
  return id ? document.querySelector(`.beside [data-part="${CSS.escape(id)}"]`) : null;
};

const followAddress = () => {
  const part = panel && named();
  if (!part) closePanel();
  else if (part !== shown) openPart(part);
};

addEventListener("popstate", followAddress);

let renewing = 0;

document.addEventListener("narval:parts", ({ detail }) => {
  if (!shown || renewing || !detail.some(([id]) => id === shown.id)) return;
  renewing = setTimeout(async () => {
    renewing = 0;
    const part = shown;
    try {
      const content = part && await fetchPart(part);
      const box = panel.querySelector(":scope > div");
      if (content && box && shown === part) {
        globalThis.Idiomorph.morph(box, content.innerHTML, { morphStyle: "innerHTML" });
      }
    } catch { /* the next change of the part tries again */ }
  }, 500);
});

// --- a graph -----------------------------------------------------------------------------------------------

const OPENS_ON = [".s-failed", ".s-active", ".s-waiting"];

const begin = (graph) => {
  const svg = graph.querySelector("svg");
  const parts = svg ? [...svg.querySelectorAll(PART)] : [];
  if (!parts.length) return;
  const view = new View(svg);
  graph.classList.add("zoomable");
  graph.querySelector(".canvas")?.removeAttribute("tabindex");  // it is moved by the script, and no longer scrolls
  view.grow();
  view.fit();
  const isLarge = parts.length > LARGE;
  if (isLarge) graph.classList.add("large");
  if (isLarge || (view.scale < READABLE && matchMedia(NARROW).matches)) {
    // Not all of it is readable at once: it opens where something happens.
    const of = OPENS_ON.map((tone) => parts.find((part) => part.matches(tone))).find(Boolean);
    view.scale = isLarge ? 1 : READABLE;
    view.grow(view.scale);
    view.begin(of ?? parts[0]);
  }
  tools(view, graph, parts);
  pointers(view, svg);
  document.addEventListener("narval:draw", ({ detail }) => {
    // A replay stays where something happens: at what it alters last, best at what is at work or failed.
    const altered = detail.map(([id]) => document.getElementById(id)).filter((part) => part?.matches(PART) && svg.contains(part));
    const part = OPENS_ON.map((tone) => altered.findLast((one) => one.matches(tone))).find(Boolean) ?? altered.at(-1);
    if (part) view.reveal(part);
  });
  keys(view, graph, svg);
  svg.addEventListener("click", (event) => {
    const part = partOf(event.target);
    if (!panel || !part || !event.target.closest("a")) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    goToPart(part);
  });
  let width = view.width;
  new ResizeObserver(() => {
    // The middle stays in place, and the focused part visible.
    if (Math.abs(view.width - width) <= 1) return;
    view.x += (width - view.width) / 2 / view.scale;
    width = view.width;
    view.show();
    if (shown && svg.contains(shown)) view.reveal(shown);
  }).observe(svg);
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && shown && !event.defaultPrevented && !document.querySelector("dialog[open]")) leavePanel();
});

document.querySelectorAll(".graph").forEach(begin);
followAddress();
