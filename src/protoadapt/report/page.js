"use strict";
// Search by file or class, and reverse the order of the galleries. Without this script the page is otherwise complete.
const tools = document.querySelector(".tools");
const galleries = [...document.querySelectorAll(".gallery")].map((box) => ({
  box,
  title: box.querySelector("h3").textContent.toLowerCase(),
  grid: box.querySelector(".grid"),
  items: [...box.querySelectorAll(".card, .plain li")].map((item) => ({ item, words: item.textContent.toLowerCase() })),
}));
const find = document.getElementById("find");
const found = document.getElementById("found");

find.addEventListener("input", () => {
  const query = find.value.trim().toLowerCase();
  let count = 0;
  for (const { box, title, items } of galleries) {
    let here = 0;
    for (const { item, words } of items) {
      item.hidden = !(title.includes(query) || words.includes(query));
      here += !item.hidden;
    }
    box.hidden = query !== "" && here === 0;
    count += here;
  }
  found.textContent = query === "" ? "" : `${count} found`;
});

document.getElementById("order").addEventListener("change", () => {
  for (const { grid } of galleries) {
    if (!grid) continue;
    const cards = [...grid.children];
    const examples = cards.filter((card) => card.classList.contains("example"));
    const others = cards.filter((card) => !card.classList.contains("example"));
    grid.append(...examples, ...others.reverse());
  }
});

tools.hidden = false;
