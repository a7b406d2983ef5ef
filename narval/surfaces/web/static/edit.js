// The text of a definition is checked as one types: what is beside it is made again by the server, which runs nothing.

const REST = 600;          // milliseconds without a key before it is checked
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
    } catch { /* whoever types on has it checked again, and Check does in any case */ }
  };

  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, REST);
    document.querySelector("main > .problem")?.remove();  // of what was sent before
  });
  form.addEventListener("submit", (event) => { sends = event.submitter?.formTarget !== "_blank"; });
  addEventListener("beforeunload", (event) => {
    if (!sends && text.value !== text.defaultValue) event.preventDefault();
  });
}
