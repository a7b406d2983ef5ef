// The draft of an answer is saved after a second without typing, when the page is left, and when the answer
// was refused (P51).

const REST = 1_000;
const form = document.querySelector("form[data-draft]");

if (form) {
  let changed = "refused" in form.dataset;
  let rest = 0;
  const save = async () => {
    if (!changed || "left" in form.dataset) return;
    changed = false;
    const fields = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(form.dataset.draft, { method: "POST", body: fields, redirect: "manual", keepalive: true });
      if (answer.type !== "opaqueredirect" && !answer.ok) changed = true;
      if (answer.status === 401) document.dispatchEvent(new Event("narval:ended"));
    } catch {
      changed = true;
    }
  };
  form.addEventListener("input", () => {
    changed = true;
    clearTimeout(rest);
    rest = setTimeout(save, REST);
  });
  form.addEventListener("submit", () => { clearTimeout(rest); changed = false; });
  document.addEventListener("visibilitychange", () => { if (document.hidden) save(); });
  save();
}
