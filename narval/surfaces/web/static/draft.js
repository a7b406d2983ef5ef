// The draft of an answer is saved every ten seconds while something is typed (P51).

const EVERY = 10_000;
const form = document.querySelector("form[data-draft]");

if (form) {
  let changed = false;
  form.addEventListener("input", () => { changed = true; });
  setInterval(async () => {
    if (!changed || document.hidden) return;
    changed = false;
    const fields = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(form.dataset.draft, { method: "POST", body: fields, redirect: "manual" });
      if (answer.type !== "opaqueredirect" && !answer.ok) changed = true;
      if (answer.status === 401) document.dispatchEvent(new Event("narval:ended"));
    } catch {
      changed = true;
    }
  }, EVERY);
}
