// On the page of all results: a click on a heading sorts the table, and the field before it filters its rows by words.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.getElementById("results");
  if (!table) return;
  const body = table.tBodies[0];
  const text = (row, column) => row.cells[column].textContent;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    let direction = -1;
    heading.style.cursor = "pointer";
    heading.addEventListener("click", () => {
      direction = -direction;
      const compared = (a, b) => text(a, column).localeCompare(text(b, column), "en", { numeric: true });
      body.append(...[...body.rows].sort((a, b) => direction * compared(a, b)));
    });
  });
  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => content.includes(word));
    }
  });
});
