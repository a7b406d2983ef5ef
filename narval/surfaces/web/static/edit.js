// The text of a definition is checked during typing: the server renders what is beside it again, and runs nothing.

const REST = 600;          // milliseconds without a key before the check
const form = document.getElementById("editor");
const text = document.getElementById("edited");

if (form && !text.readOnly) {
  const judged = document.getElementById("judged");
  let timer = 0;
  let asking = null;
  let sends = false;

  const check = async () => {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(form.getAttribute("action"), {
        method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Fragment": "judged" }, redirect: "error",
        signal: asking.signal,
      });
      if (answer.status === 401) document.dispatchEvent(new Event("narval:ended"));
      if (answer.ok || answer.status === 400) globalThis.Idiomorph.morph(judged, await answer.text(), { morphStyle: "innerHTML" });
    } catch { /* the next input checks again, and so does the button Check */ }
  };

  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, REST);
    document.querySelector("main > .problem")?.remove();  // it is about the previous submission
  });
  form.addEventListener("submit", (event) => { sends = event.submitter?.formTarget !== "_blank"; });
  addEventListener("beforeunload", (event) => {
    if (!sends && text.value !== text.defaultValue) event.preventDefault();
  });
}
