// Looks in INDEX: every word that was typed must be in a section; a hit in a title counts more.
(() => {
  const LIMIT = 20, CONTEXT = 60;
  const MADE = /^(litmus|traceability|CHANGELOG)\.html/; // lists of names: last among equals
  const form = document.querySelector("form[role=search]");
  const input = form.elements.q, list = document.getElementById("found");
  const up = document.documentElement.dataset.up;
  let chosen = -1;

  const score = (row, words) => {
    const [page, , title, text] = row.map((it) => it.toLowerCase());
    let sum = 0;
    for (const word of words) {
      const here = (title === word ? 40 : 0) + (title.includes(word) ? 20 : 0)
        + (page.includes(word) ? 5 : 0) + Math.min(5, text.split(word).length - 1);
      if (!here) return 0;
      sum += here;
    }
    return MADE.test(row[1]) ? sum / 4 : sum;
  };

  const marked = (text, words) => {
    const low = text.toLowerCase();
    const at = Math.min(...words.map((it) => low.indexOf(it)).filter((it) => it >= 0));
    const from = Number.isFinite(at) ? Math.max(0, at - CONTEXT) : 0;
    const piece = text.slice(from, from + 3 * CONTEXT);
    const nodes = [from ? "…" : ""];
    let rest = piece;
    while (rest) {
      const hits = words.map((it) => [rest.toLowerCase().indexOf(it), it]).filter(([n]) => n >= 0);
      if (!hits.length) break;
      const [n, word] = hits.sort((a, b) => a[0] - b[0])[0];
      const mark = document.createElement("mark");
      mark.textContent = rest.slice(n, n + word.length);
      nodes.push(rest.slice(0, n), mark);
      rest = rest.slice(n + word.length);
    }
    return [...nodes, rest, "…"];
  };

  const entry = (row, words, n) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const where = document.createElement("small"), text = document.createElement("span");
    item.id = `found-${n}`;
    item.setAttribute("role", "option");
    link.href = up + row[1];
    link.tabIndex = -1;
    where.textContent = row[0] === row[2] ? "" : ` ${row[0]}`;
    text.append(...marked(row[3], words));
    link.append(...marked(row[2], words).filter((it) => it !== "…"), where, text);
    item.append(link);
    return item;
  };

  const choose = (n) => {
    const items = list.children;
    if (chosen >= 0 && items[chosen]) items[chosen].removeAttribute("aria-selected");
    chosen = items.length ? (n + items.length) % items.length : -1;
    if (chosen < 0) return;
    items[chosen].setAttribute("aria-selected", "true");
    items[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", items[chosen].id);
  };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length ? INDEX.map((row) => [score(row, words), row]).filter(([n]) => n) : [];
    hits.sort((a, b) => b[0] - a[0]);
    list.replaceChildren(...hits.slice(0, LIMIT).map(([, row], n) => entry(row, words, n)));
    if (words.length && !hits.length) {
      const none = document.createElement("li");
      none.textContent = "nothing found";
      list.append(none);
    }
    list.hidden = !words.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
    chosen = -1;
  };

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };

  form.hidden = false;
  input.addEventListener("input", show);
  input.addEventListener("focus", () => input.value && show());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const link = (list.children[Math.max(0, chosen)] || form).querySelector("a");
    if (link) link.click();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1));
    }
    if (event.key === "Escape") {
      input.value = "";
      close();
      input.blur();
    }
  });
  list.addEventListener("click", close);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("header")) close();
  });
  document.addEventListener("keydown", (event) => {
    const busy = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !busy && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
  const pages = document.querySelector("nav.pages details");
  if (matchMedia("(max-width: 60rem)").matches) pages.open = false;
})();
