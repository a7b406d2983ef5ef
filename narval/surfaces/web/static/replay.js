// The slider over the journal of a run (M34): the changes of each entry are loaded, so a move needs no request.
//
// <div id="replay" data-replay="…/replay.json"> holds links and a number without scripts; what this script
// makes is put before them. The JSON is {parts, arcs, entries, more}: parts ([id, state, tone, badge]) and
// arcs ([id, state, badge]) at the start, and of each entry {seq, at, what, mark} and its changes; an entry
// after which the run follows another version has its digest as version.

const PAGE = 1000;
const PACE = 250;          // milliseconds between two entries during playback

const box = document.getElementById("replay");

const make = (name, attributes = {}, text = "") => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
};

class Film {
  // The entries of a run, and the changes of each, forward and back.
  constructor() {
    this.entries = [];
    this.back = [];
    this.now = new Map();
    const elements = (name) => [...document.querySelectorAll(`svg [data-${name}]`)];
    this.parts = new Map(elements("part").map((element) => [element.dataset.part, element.id]));
    const idOf = ({ arc, from, to }) => arc ?? `${from}>${to}`;
    this.arcs = new Map(elements("from").map((element) => [idOf(element.dataset), element.id]));
  }

  rows({ parts = [], arcs = [] }) {
    return [
      ...parts.map(([id, ...rest]) => [this.parts.get(String(id)) ?? "", ...rest]),
      ...arcs.map(([id, state, badge = ""]) => [this.arcs.get(String(id)) ?? "", state, state, badge]),
    ];
  }

  add(found) {
    if (!this.entries.length) for (const row of this.rows(found)) this.now.set(row[0], row);
    for (const entry of found.entries) {
      const rows = this.rows(entry);
      this.back.push(rows.map(([id]) => this.now.get(id) ?? [id, "", "idle", ""]));
      for (const row of rows) this.now.set(row[0], row);
      this.entries.push({ ...entry, rows });
    }
  }

  between(from, to) {
    // The changes of the parts between entries `from` and `to`; -1 is before the first.
    const rows = new Map();
    for (let i = from + 1; i <= to; i += 1) for (const row of this.entries[i].rows) rows.set(row[0], row);
    for (let i = from; i > to; i -= 1) for (const row of this.back[i]) rows.set(row[0], row);
    return [...rows.values()];
  }

  indexOf(seq) {
    let [low, high] = [0, this.entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.entries[middle].seq <= seq) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

const film = new Film();
let at = -1;               // the entry that is shown
let playing = 0;
let loading = null;
let following = true;      // the present is shown
let isStale = true;        // there may be entries that are not loaded yet

const wanted = Number(new URLSearchParams(location.search).get("at") ?? Number.NaN);

const begin = () => {
  const bar = make("div", { class: "replay-bar", role: "group", "aria-label": "Replay" });
  const button = (text, name, act) => {
    const element = make("button", { type: "button", "aria-label": name, title: name }, text);
    element.addEventListener("click", act);
    bar.append(element);
    return element;
  };
  button("|◂", "First", () => go(0));
  button("◂", "Back", () => go(at - 1));
  const play = button("▶", "Play", () => toggle());
  button("▸", "Step", () => go(at + 1));
  button("▸|", "Now", () => present());
  const slider = make("input", { type: "range", min: "0", max: "0", value: "0", step: "1", "aria-label": "Entry of the journal" });
  const marks = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  marks.setAttribute("class", "marks");
  marks.setAttribute("aria-hidden", "true");
  marks.setAttribute("preserveAspectRatio", "none");
  const track = make("div", { class: "track" });
  track.append(slider, marks);
  const told = make("output", { class: "told" });
  bar.append(track, told);
  box.prepend(bar);

  const drawMarks = () => {
    const count = Math.max(film.entries.length - 1, 1);
    marks.setAttribute("viewBox", `0 0 ${count} 10`);
    const wide = Math.max(count / 400, 0.02);
    marks.replaceChildren(...film.entries.flatMap((entry, index) => {
      if (!entry.mark) return [];
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const place = { x: index - wide / 2, y: entry.mark === "error" ? 0 : 3, width: wide, height: entry.mark === "error" ? 10 : 7 };
      for (const [key, value] of Object.entries(place)) mark.setAttribute(key, String(value));
      mark.setAttribute("class", `mark-${/^[a-z]+$/.test(entry.mark) ? entry.mark : "other"}`);
      return [mark];
    }));
  };

  const tell = () => {
    const entry = film.entries[at];
    const text = entry ? `${entry.seq} · ${entry.what}` : "before the first entry";
    told.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };

  const load = () => {
    if (!loading && !isStale) return Promise.resolve();
    loading ??= (async () => {
      isStale = false;
      for (;;) {
        const url = new URL(box.dataset.replay, location.href);
        if (film.entries.length) url.searchParams.set("after", String(film.entries.at(-1).seq));
        url.searchParams.set("limit", String(PAGE));
        const answer = await fetch(url, { redirect: "error" });
        if (!answer.ok) throw new Error(String(answer.status));
        const found = await answer.json();
        film.add(found);
        slider.max = String(Math.max(film.entries.length - 1, 0));
        if (!found.more) break;
        told.textContent = `reading, ${film.entries.length} entries …`;
      }
      if (following) at = film.entries.length - 1;
      slider.value = String(at);
      drawMarks();
      tell();
    })().catch(() => {
      isStale = true;
      told.textContent = "The journal cannot be read for the moment.";
    }).finally(() => { loading = null; });
    return loading;
  };

  let written = 0;
  const write = () => {
    clearTimeout(written);
    written = setTimeout(() => {
      const url = new URL(location.href);
      if (following || at < 0) url.searchParams.delete("at");
      else url.searchParams.set("at", String(film.entries[at].seq));
      history.replaceState(history.state, "", url);
    }, 200);
  };

  let asked = 0;
  // Another version has another graph, which the server draws.
  const isRedrawn = (index) =>
    film.entries.slice(Math.min(at, index) + 1, Math.max(at, index) + 1).some((entry) => entry.version);

  const visit = (seq) => {
    const url = new URL(location.href);
    if (seq === undefined) url.searchParams.delete("at");
    else url.searchParams.set("at", String(seq));
    location.assign(url);
  };

  const show = (index) => {
    if (isRedrawn(index)) { visit(film.entries[index].seq); return; }
    const rows = film.between(at, index);
    at = index;
    following = false;
    document.dispatchEvent(new CustomEvent("narval:draw", { detail: rows }));
    slider.value = String(at);
    tell();
    write();
  };

  const go = async (index) => {
    await load();
    const to = Math.min(Math.max(index, 0), film.entries.length - 1);
    if (to >= 0) show(to);
  };

  const stop = () => {
    clearTimeout(playing);
    playing = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", "Play");
  };

  const present = async () => {
    stop();
    if (Number.isInteger(wanted) && !document.body.dataset.live) {  // this page shows one moment; the present has another page
      visit();
      return;
    }
    await load();
    if (!film.entries.length) return;
    if (isRedrawn(film.entries.length - 1)) { visit(); return; }
    show(film.entries.length - 1);
    following = true;
    document.dispatchEvent(new CustomEvent("narval:now"));
    write();
  };

  const onwards = () => {
    if (at >= film.entries.length - 1) { present(); return; }
    show(at + 1);
    playing = setTimeout(onwards, PACE);
  };

  const toggle = async () => {
    if (playing) { stop(); return; }
    await load();
    if (at >= film.entries.length - 1) show(0);
    play.textContent = "⏸";
    play.setAttribute("aria-label", "Pause");
    playing = setTimeout(onwards, PACE);
  };

  slider.addEventListener("input", () => {
    stop();
    const wanted = Number(slider.value);
    if (asked) cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => { asked = 0; go(wanted); });
  });
  bar.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === slider) { event.preventDefault(); toggle(); }
    if ((event.key === "m" || event.key === "M") && film.entries.length) {
      const way = event.key === "m" ? 1 : -1;
      for (let i = at + way; i >= 0 && i < film.entries.length; i += way) {
        if (film.entries[i].mark) { stop(); show(i); break; }
      }
    }
  });

  box.addEventListener("pointerenter", load);
  box.addEventListener("focusin", load);
  document.addEventListener("narval:parts", () => { isStale = true; });

  if (Number.isInteger(wanted)) {
    load().then(() => {
      const index = film.indexOf(wanted);
      if (index < 0) return;
      // The server has drawn this moment; later changes are held back.
      at = index;
      following = false;
      document.dispatchEvent(new CustomEvent("narval:draw", { detail: [] }));
      slider.value = String(at);
      tell();
    });
  } else if (!document.body.dataset.live) {
    load();  // a separate page, opened for the slider
  }
  box.classList.add("scripted");
};

if (box?.dataset.replay) begin();
