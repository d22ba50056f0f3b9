// A click on a picture asks what it is; the answer is an event 'named' of {key, label} or {key, drop: true}.
// When the answers come back, cards glide from where they were, and those that changed class are marked.
const dialog = document.createElement("dialog");
dialog.id = "choose";
dialog.setAttribute("aria-labelledby", "choose-title");
dialog.innerHTML = `
  <div class="head"><img alt=""><div><h3 id="choose-title">What is this?</h3><p></p></div></div>
  <div class="choices"></div>
  <form><input maxlength="80" aria-label="a name" autocomplete="off"><button>Name it</button></form>
  <div class="rest"><button data-act="clear">No label</button><button data-act="drop">Leave this picture out</button><button data-act="cancel">Cancel</button></div>`;
element.parentElement.append(dialog);
const part = (selector) => dialog.querySelector(selector);
let key = null;

const answer = (data) => { dialog.close(); remember(); trigger("named", { key, ...data }); };

element.addEventListener("click", (event) => {
  const card = event.target.closest(".card");
  if (!card) return;
  key = card.dataset.key;
  part("img").src = card.querySelector("img").src;
  part("p").textContent = card.dataset.name;
  part("input").value = "";
  part("[data-act=clear]").hidden = !("given" in card.dataset);
  const classes = JSON.parse(element.querySelector(".board").dataset.classes);
  part("input").placeholder = classes.length ? "another name" : "its name";
  part(".choices").replaceChildren(...classes.map((name) => {
    const button = document.createElement("button");
    button.textContent = name;
    button.setAttribute("aria-pressed", name === card.dataset.label);
    button.onclick = () => answer({ label: name });
    return button;
  }));
  dialog.showModal();
});
part("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const label = part("input").value.trim();
  if (label) answer({ label });
});
part(".rest").addEventListener("click", (event) => {
  const act = event.target.dataset.act;
  if (act === "clear") answer({ label: null });
  if (act === "drop") answer({ drop: true });
  if (act === "cancel") dialog.close();
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

let before = new Map();
const cards = () => [...element.querySelectorAll(".card")];
const place = (card) => { const box = card.getBoundingClientRect(); return [box.left + scrollX, box.top + scrollY]; };
const remember = () => { before = new Map(cards().map((card) => [card.dataset.key, [place(card), card.dataset.label]])); };
watch("value", () => {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (const card of cards()) {
    const [was, label] = before.get(card.dataset.key) ?? [];
    if (!was) continue;
    card.classList.toggle("moved", label !== "" && label !== card.dataset.label);
    const [x, y] = place(card).map((now, axis) => was[axis] - now);
    if (!still && (x || y)) card.animate([{ transform: `translate(${x}px, ${y}px)` }, {}], { duration: 450, easing: "ease-out" });
  }
  remember();
});

// Pictures live as long as the page: a reload by accident would lose the work.
addEventListener("beforeunload", (event) => { if (element.querySelector(".card")) event.preventDefault(); });
