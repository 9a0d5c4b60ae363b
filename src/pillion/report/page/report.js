// SPDX-License-Identifier: Apache-2.0
// What moves on the page. Whatever comes from a model is set as text, never as markup.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const facts = JSON.parse(one("facts").textContent);
  root.classList.add("scripted");

  function make(parent, tag, text, class_) {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (class_) made.className = class_;
    if (parent) parent.append(made);
    return made;
  }
  const grouped = (number) => number.toLocaleString("en-US");

  // Light and dark.
  const remembered = {
    get() { try { return localStorage.getItem("pillion-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("pillion-theme", theme); } catch { /* pages from disk may have none */ } },
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  if (remembered.get()) root.dataset.theme = remembered.get();
  one("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    remembered.set(root.dataset.theme);
  });

  // Tables: a heading sorts by its column, and again the other way; what is missing stays at the end.
  function valueOf(row, column, kind) {
    const cell = row.cells[column];
    if (kind !== "number") return cell.textContent.trim().toLowerCase();
    const text = cell.dataset.value;
    return text === "" || text === undefined ? null : Number(text);
  }
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  }
  for (const table of all("table.sortable")) {
    const heads = all("th", table);
    heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
      const kind = head.dataset.kind;
      const first = kind === "number" && column > 0 ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row, place) => ({ row, place, value: valueOf(row, column, kind) }));
      rows.sort((a, b) => compare(a.value, b.value, order === "ascending" ? 1 : -1) || a.place - b.place);
      body.append(...rows.map((r) => r.row));
    }));
  }

  // The filter of ops.
  const filter = one("filter");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = all("#ops tbody tr");
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    one("shown").textContent = words.length ? `${shown} of ${rows.length}` : "";
  });

  // The graph: its view box is what one sees of it.
  const view = one("view");
  const picture = one("network");
  const whole = picture.viewBox.baseVal;
  const home = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
  let seen = { ...home };
  function show(next) {
    const w = Math.min(Math.max(next.w, 120), home.w * 1.6);
    const h = w * home.h / home.w;
    const x = Math.min(Math.max(next.x, home.x - w / 2), home.x + home.w - w / 2);
    const y = Math.min(Math.max(next.y, home.y - h / 2), home.y + home.h - h / 2);
    seen = { x, y, w, h };
    picture.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
  }
  const at = (x, y) => new DOMPoint(x, y).matrixTransform(picture.getScreenCTM().inverse());
  function zoom(factor, point) {
    const fixed = point || { x: seen.x + seen.w / 2, y: seen.y + seen.h / 2 };
    const w = Math.min(Math.max(seen.w / factor, 120), home.w * 1.6);
    const part = w / seen.w;
    show({ x: fixed.x - (fixed.x - seen.x) * part, y: fixed.y - (fixed.y - seen.y) * part, w });
  }
  const zooms = { in: () => zoom(1.4), out: () => zoom(1 / 1.4), fit: () => show(home) };
  all("[data-zoom]").forEach((button) => button.addEventListener("click", zooms[button.dataset.zoom]));
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), at(event.clientX, event.clientY));
  }, { passive: false });
  view.addEventListener("dblclick", (event) => zoom(1.8, at(event.clientX, event.clientY)));
  let drag = null;
  let dragged = false;
  view.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType !== "touch") drag = { x: event.clientX, y: event.clientY, seen };
    dragged = false;
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const scale = picture.getScreenCTM().a;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    dragged ||= Math.abs(dx) + Math.abs(dy) > 4;
    if (!dragged) return;
    view.classList.add("moving");
    show({ ...drag.seen, x: drag.seen.x - dx / scale, y: drag.seen.y - dy / scale });
  });
  addEventListener("pointerup", () => { drag = null; view.classList.remove("moving"); });
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  function bringIntoView(node) {
    const box = node.getBBox();
    const inside = box.x >= seen.x && box.y >= seen.y && box.x + box.width <= seen.x + seen.w && box.y + box.height <= seen.y + seen.h;
    if (!inside) show({ x: box.x + box.width / 2 - seen.w / 2, y: box.y + box.height / 2 - seen.h / 2, w: seen.w });
  }
  picture.addEventListener("focusin", (event) => {
    const node = event.target.closest("a.op");
    view.scrollTo(0, 0);
    if (node) bringIntoView(node);
  });

  // The chosen op: the same everywhere on the page, with all that is known of it beside.
  const details = one("details");
  let chosen = -1;
  let opener = null;
  function choose(number, from) {
    const op = facts.ops[number];
    if (!op) return;
    if (from) opener = from;
    chosen = number;
    all(".chosen").forEach((e) => e.classList.remove("chosen"));
    all(`[data-op="${number}"]`).forEach((e) => e.classList.add("chosen"));
    all(`.edge[data-from="${number}"], .edge[data-to="${number}"]`).forEach((e) => e.classList.add("chosen"));
    const node = picture.querySelector(`a.op[data-op="${number}"]`);
    if (node) bringIntoView(node);
    tell(op);
    history.replaceState(null, "", `#op-${number}`);
  }
  function close() {
    if (details.hidden) return;
    details.hidden = true;
    root.classList.remove("detailed");
    all(".chosen").forEach((e) => e.classList.remove("chosen"));
    history.replaceState(null, "", location.pathname + location.search);
    if (opener?.isConnected) opener.focus({ preventScroll: true });
    opener = null;
  }
  function part(title) {
    make(details, "h3", title);
    return make(details, "div");
  }
  function listed(parent, rows) {
    const list = make(parent, "dl");
    for (const [what, value] of rows) { make(list, "dt", what); make(list, "dd", value); }
  }
  const tensor = (t) => `${t.name}: ${t.dtype} ${t.shape.join("×")}, ${grouped(t.bytes)} bytes${t.quantization ? `, ${t.quantization}` : ""}`;
  function tell(op) {
    details.replaceChildren();
    const head = make(details, "header");
    make(head, "span", op.unit.toUpperCase(), `unit ${op.unit}`);
    make(head, "h2", `${op.kind} ${op.module || op.name}`);
    const shut = make(head, "button", "×");
    shut.title = "Close (Esc)";
    shut.addEventListener("click", close);
    make(details, "p", op.module ? `${op.name}, ${op.source}` : op.source, "note");
    decision(op);
    kernel(op);
    cost(op);
    const held = part("Tensors");
    const list = make(held, "ul");
    for (const [word, tensors] of [["reads", op.reads], ["constant", op.constants], ["makes", op.makes]]) {
      for (const t of tensors) make(list, "li", `${word} ${tensor(t)}`);
    }
    const settings = Object.entries(op.attributes);
    if (settings.length) listed(part("Attributes"), settings);
    quality(op);
    details.hidden = false;
    root.classList.add("detailed");
    details.scrollTop = 0;
  }
  function decision(op) {
    const box = part(`Why on the ${op.unit.toUpperCase()}${op.segment === null ? "" : `, segment ${op.segment}`}`);
    make(box, "p", op.because);
    listed(box, [["rule", op.decided_by.rule], ["wanted", op.decided_by.wanted], ["got", op.decided_by.got]]);
    if (op.flip) make(box, "p", `To flip it: ${op.flip}`, "flip");
    if (op.rules.length < 2) return;
    const more = make(box, "details");
    make(more, "summary", `all ${op.rules.length} rules`);
    const list = make(more, "ul");
    for (const r of op.rules) make(list, "li", `${r.rule}: wanted ${r.wanted}, got ${r.got}`, r.ok ? "ok" : "not");
  }
  function kernel(op) {
    const box = part("Kernel");
    make(box, "p", `${op.kernel.name}: ${op.kernel.why}`);
    if (!op.kernel.passed_over.length) return;
    const list = make(box, "ul");
    for (const words of op.kernel.passed_over) make(list, "li", words, "not");
  }
  function cost(op) {
    const rows = [
      ["MACs", grouped(op.macs)],
      ["bytes", `${grouped(op.bytes_read)} read, ${grouped(op.bytes_written)} written, ${grouped(op.constant_bytes)} of constants`],
      ["cycles", `${grouped(op.estimated_cycles)} (estimated)`],
    ];
    if (op.instructions !== null) rows.push(["instructions", `${grouped(op.instructions)} (counted on ${facts.measured.board})`]);
    if (op.kernel.scratch_bytes) rows.push(["scratch", `${grouped(op.kernel.scratch_bytes)} bytes`]);
    if (op.crossing_bytes) rows.push(["crossing", `${grouped(op.crossing_bytes)} bytes between CPU and NPU`]);
    listed(part("Work"), rows);
  }
  function quality(op) {
    const rows = all(`tr[data-quality="${op.number}"]`);
    if (!rows.length) return;
    const box = part("Quality of quantization");
    const heads = all("#tensors thead th").map((h) => h.textContent);
    for (const row of rows) {
      make(box, "p", row.cells[1].textContent);
      listed(box, heads.slice(2, -1).map((h, i) => [h, row.cells[i + 2].textContent]));
      box.append(row.querySelector("svg").cloneNode(true));
    }
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-op]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (!(dragged && view.contains(link))) choose(Number(link.dataset.op), link);
    dragged = false;
  });
  function fromAddress() {
    const match = /^#op-(\d+)$/.exec(location.hash);
    if (match) choose(Number(match[1]));
  }
  addEventListener("hashchange", fromAddress);
  fromAddress();

  // Keys.
  const keys = one("keys");
  one("help").addEventListener("click", () => keys.showModal());
  one("copy")?.addEventListener("click", async () => {
    const selection = getSelection();
    selection.selectAllChildren(one("command"));
    try { await navigator.clipboard.writeText(one("command").textContent); one("copy").textContent = "copied"; } catch { /* it is selected */ }
  });
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const commands = {
    j: () => choose(Math.min(chosen + 1, facts.ops.length - 1)),
    k: () => choose(Math.max(chosen - 1, 0)),
    "/": () => { filter.focus(); filter.scrollIntoView({ block: "center" }); },
    "+": zooms.in, "=": zooms.in, "-": zooms.out, 0: zooms.fit,
    "?": () => keys.showModal(),
    Escape: close,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (event.target.matches?.("input, textarea") && event.target.type !== "radio") {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (moves[event.key] && view.contains(document.activeElement)) {
      const [dx, dy] = moves[event.key];
      show({ ...seen, x: seen.x + dx * seen.w / 8, y: seen.y + dy * seen.h / 8 });
    } else if (Object.hasOwn(commands, event.key)) commands[event.key]();
    else return;
    event.preventDefault();
  });

  // Printed, the graph is seen whole.
  let before = seen;
  addEventListener("beforeprint", () => { before = seen; show(home); });
  addEventListener("afterprint", () => show(before));
})();
