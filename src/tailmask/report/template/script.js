"use strict";
(() => {
  const data = JSON.parse(document.getElementById("class-data").textContent);
  const table = document.getElementById("class-table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.querySelectorAll("th[data-key]"));
  const find = (id) => document.getElementById(id);
  const [filter, group, choice, clear] = ["filter", "group", "method", "clear"].map((id) => find("class-" + id));
  const compared = heads.some((head) => head.dataset.key === "difference");
  const baseline = data.methods[data.baseline];
  let name = choice ? choice.value : Object.keys(data.methods).find((key) => key !== data.baseline);
  let sorted = { key: "train", descending: true };

  const number = (value) => (value === null ? "–" : value.toFixed(1));
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(1);
  const method = () => data.methods[name];

  function column(key) {
    const [place, metric] = key.split(".");
    if (metric) return (place === "baseline" ? baseline : method())[metric];
    if (key === "difference") return method().difference;
    return { name: data.names, train: data.train, test: data.test }[key];
  }

  function effect(index) {
    if (!compared || !method().low) return 0;
    return method().low[index] > 0 ? 1 : method().high[index] < 0 ? -1 : 0;
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function drawChange(row, index, scale) {
    const cells = row.cells;
    const [text, picture] = [cells[cells.length - 2], cells[cells.length - 1]];
    text.replaceChildren();
    picture.replaceChildren();
    if (!method().difference || method().difference[index] === null) return;
    const [mean, low, high] = ["difference", "low", "high"].map((key) => method()[key][index]);
    const kind = { 1: "better", 0: "same", "-1": "worse" }[effect(index)];
    text.append(element("span", "change " + kind, signed(mean)), " ", element("span", "ends", signed(low) + " to " + signed(high)));
    const bar = element("span", "bar " + kind);
    bar.setAttribute("aria-hidden", "true");
    const place = (value) => 50 + (48 * value) / scale;
    const line = element("i", "");
    line.style.left = place(low) + "%";
    line.style.width = place(high) - place(low) + "%";
    const dot = element("b", "");
    dot.style.left = place(mean) + "%";
    bar.append(line, dot);
    picture.append(bar);
  }

  function showMethod() {
    if (!compared) return;
    const ends = (method().low || []).concat(method().high || []).filter((value) => value !== null);
    const scale = Math.max(1e-9, ...ends.map(Math.abs));
    rows.forEach((row, index) => {
      ["precision", "recall", "f1"].forEach((metric, place) => {
        row.cells[4 + 2 * place].textContent = number(method()[metric][index]);
      });
      drawChange(row, index, scale);
    });
    const labels = { precision: "Precision", recall: "Recall", f1: "F1" };
    for (const head of heads.filter((each) => each.classList.contains("method"))) {
      const button = head.querySelector("button");
      button.textContent = name;
      button.setAttribute("aria-label", labels[head.dataset.key.split(".")[1]] + " of " + name);
    }
  }

  function sort(key, descending) {
    sorted = { key, descending };
    const values = column(key);
    const order = rows.map((_, index) => index);
    const collator = new Intl.Collator(undefined, { numeric: true });
    order.sort((one, two) => {
      const [a, b] = [values[one], values[two]];
      if (a === null || b === null) return (a === null) - (b === null) || one - two;
      const compared = typeof a === "string" ? collator.compare(a, b) : a - b;
      return (descending ? -compared : compared) || one - two;
    });
    body.replaceChildren(...order.map((index) => rows[index]));
    for (const head of heads) {
      if (head.dataset.key === key) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  function show() {
    const text = filter.value.trim().toLowerCase();
    let number = 0;
    rows.forEach((row, index) => {
      const hidden =
        !data.names[index].toLowerCase().includes(text) ||
        (group.value && data.groups[index] !== group.value) ||
        (clear && clear.checked && effect(index) === 0);
      row.hidden = hidden;
      number += hidden ? 0 : 1;
    });
    find("class-count").textContent = number + " of " + rows.length + " classes";
  }

  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const key = head.dataset.key;
      sort(key, sorted.key === key ? !sorted.descending : key !== "name");
    });
  }
  filter.addEventListener("input", show);
  group.addEventListener("change", show);
  if (clear) clear.addEventListener("change", show);
  if (choice) {
    choice.addEventListener("change", () => {
      name = choice.value;
      showMethod();
      sort(sorted.key, sorted.descending);
      show();
    });
  }
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  showMethod();
  sort("train", true);
  show();
})();
