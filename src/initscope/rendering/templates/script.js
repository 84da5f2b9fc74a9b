// Interaction of a page: hover and click in the plots; sorting, filters, folding and export of the table; copying of code.
// The script makes no network requests. Without it the page shows everything unfolded.
document.querySelectorAll(".initscope:not(.live)").forEach((root) => {
  const holder = root.querySelector('script[type="application/json"]');
  if (!holder) return;
  root.classList.add("live");
  // Controls are created by the script, because untrusted notebooks run no scripts and show the page without styles.
  for (const kept of root.querySelectorAll("template")) kept.replaceWith(kept.content);
  const data = JSON.parse(holder.textContent);
  const all = (selector, within = root) => [...within.querySelectorAll(selector)];
  const made = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });

  // Copy the code next to the button.
  const written = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      root.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  for (const button of all(".copy")) {
    button.addEventListener("click", async () => {
      await written(button.parentElement.querySelector("code").textContent);
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
  }

  // The whole report, compressed; Markdown is part of the data.
  const save = (blob, name) => {
    const link = Object.assign(document.createElement("a"), { download: name });
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const whole = async () => {
    const packed = Uint8Array.from(atob(root.querySelector(".whole").textContent.trim()), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  for (const button of all("[data-export]")) {
    const text = button.textContent;
    button.addEventListener("click", async () => {
      if (button.dataset.export === "markdown") await written(data.markdown);
      else save(new Blob([await whole()], { type: "application/json" }), "report.json");
      button.textContent = "done";
      setTimeout(() => (button.textContent = text), 1500);
    });
  }

  // The table: rows belong to sections; sorted rows are in a separate tbody.
  const table = root.querySelector(".layers table");
  const rows = table ? all(".row", table) : [];
  const sections = table ? all("tbody", table) : [];
  const status = root.querySelector(".layers [role=status]");
  const home = new Map(rows.map((row) => [row, row.parentElement]));
  const sorted = made("tbody", "sorted");
  const only = new Set();
  let wanted = "";
  let folded = null; // sections that were folded before a filter opened them
  let by = null;
  let direction = 1;
  const numberOf = (row) => data.numbers[by][row.dataset.row];

  for (const title of all(".folder")) {
    const button = made("button", "folder", title.textContent);
    button.type = "button";
    title.replaceWith(button);
  }
  const fold = (section, open) => {
    section.classList.toggle("open", open);
    section.querySelector(".fold button")?.setAttribute("aria-expanded", open);
  };
  const show = () => {
    const filtered = only.size > 0 || wanted !== "";
    if (filtered) folded ??= sections.filter((section) => !section.classList.contains("open"));
    let count = 0;
    for (const row of rows) {
      const index = row.dataset.row;
      const named = (data.titles[index] + " " + data.texts.layer[index]).toLowerCase().includes(wanted);
      const fits = named && [...only].every((name) => name in row.dataset);
      row.classList.toggle("hide", !fits);
      count += fits;
    }
    for (const section of sections) {
      const left = all(".row:not(.hide)", section).length;
      section.querySelector(".fold")?.classList.toggle("hide", left === 0);
      if (filtered && left) fold(section, true);
    }
    if (!filtered && folded) {
      for (const section of folded) fold(section, false);
      folded = null;
    }
    status.textContent = filtered ? `${count} of ${rows.length} rows` : "";
  };
  const sort = (column) => {
    if (column === "") by = null;
    else if (by === column) [by, direction] = direction === 1 ? [column, -1] : [null, 1];
    else [by, direction] = [column, 1];
    for (const head of all("th[data-sort]", table)) {
      const state = head.dataset.sort === by ? (direction === 1 ? "ascending" : "descending") : "none";
      head.setAttribute("aria-sort", state);
    }
    if (by === null) {
      for (const row of rows) home.get(row).append(row);
      sorted.remove();
    } else {
      const known = rows.filter((row) => numberOf(row) !== null);
      const unknown = rows.filter((row) => numberOf(row) === null);
      known.sort((a, b) => direction * (numberOf(a) - numberOf(b)));
      sorted.replaceChildren(...known, ...unknown);
      table.append(sorted);
    }
    for (const section of sections) section.classList.toggle("hide", by !== null);
    show();
  };
  const download = (text, name, type) => save(new Blob([text], { type }), name);
  const records = () =>
    data.titles.map((_, index) => {
      const record = {};
      for (const part of [data.texts, data.numbers])
        for (const [name, values] of Object.entries(part)) record[name] = values[index];
      return record;
    });
  const quoted = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = () => {
    const lines = records();
    const names = Object.keys(lines[0]);
    return [names.join(","), ...lines.map((line) => names.map((name) => quoted(line[name])).join(","))].join("\r\n") + "\r\n";
  };
  const act = {
    open: () => sections.forEach((section) => fold(section, true)),
    close: () => sections.forEach((section) => fold(section, false)),
    csv: () => download(csv(), "layers.csv", "text/csv"),
    json: () => download(JSON.stringify({ rows: records() }, null, 1) + "\n", "layers.json", "application/json"),
  };
  if (table) {
    for (const section of sections) {
      fold(section, section.classList.contains("open"));
      section.querySelector(".fold")?.addEventListener("click", () => fold(section, !section.classList.contains("open")));
    }
    for (const head of all("th[data-sort]", table)) {
      head.tabIndex = 0;
      head.addEventListener("click", () => sort(head.dataset.sort));
      head.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault(); // a space would scroll
        sort(head.dataset.sort);
      });
    }
    for (const button of all("[data-do]")) button.addEventListener("click", () => act[button.dataset.do]());
    for (const box of all("[data-only]"))
      box.addEventListener("change", () => {
        box.checked ? only.add(box.dataset.only) : only.delete(box.dataset.only);
        show();
      });
    root.querySelector("input[type=search]").addEventListener("input", (event) => {
      wanted = event.target.value.trim().toLowerCase();
      show();
    });
  }
  const go = (index) => {
    const row = rows.find((one) => Number(one.dataset.row) === index);
    if (!row) return;
    only.clear();
    wanted = "";
    for (const input of all(".tools input")) [input.checked, input.value] = [false, input.type === "search" ? "" : input.value];
    show();
    fold(home.get(row), true);
    for (const other of rows) other.classList.toggle("here", other === row);
    row.scrollIntoView({ block: "center" });
  };

  // The drawing of the network: boxes are sections of the table.
  const network = root.querySelector(".network");
  const boxes = network ? all(".box", network) : [];
  const members = data.network?.members ?? [];
  const chosen = (box) => Number(box.dataset.box);
  const mark = (index) => {
    boxes.forEach((box, number) => box.classList.toggle("here", index !== null && members[number].includes(index)));
  };

  // The plots: highlight the layer under the pointer in all panels.
  const figure = root.querySelector(".depth");
  if (!figure) return;
  const panels = all(".panel", figure);
  const plots = panels.map((panel) => panel.querySelector(".plot"));
  const cursors = plots.map((plot) => plot.appendChild(Object.assign(made("div", "cursor"), { hidden: true })));
  const tip = figure.appendChild(Object.assign(made("div", "tip"), { hidden: true }));
  const count = data.titles.length;
  let here = null;
  const short = (value, digits = 4) => {
    if (value === 0) return "0";
    const far = Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3;
    return far ? value.toExponential(Math.min(2, digits - 1)) : String(Number(value.toPrecision(digits)));
  };
  const stated = (value, error, rounding) => {
    if (value === null) return "–";
    if (0 < value && value < rounding) return `<${rounding.toExponential()}`;
    return short(value) + (error ? ` ± ${short(error, 2)}` : "");
  };
  const hasValue = (index) => data.panels.some((panel) => panel.measured[index] !== null || (panel.predicted?.[index] ?? null) !== null);
  const nearest = (at, panel) => {
    const known = (index) => (panel === null ? hasValue(index) : data.panels[panel].measured[index] !== null);
    for (let away = 0; away < count; away += 1)
      for (const index of [at - away, at + away]) if (index >= 0 && index < count && known(index)) return index;
    return at;
  };
  const point = (index, current) => {
    here = index;
    mark(index);
    for (const cursor of cursors) {
      cursor.hidden = false;
      cursor.style.left = `${(100 * (index + 0.5)) / count}%`;
    }
    const lines = made("table", "");
    data.panels.forEach((panel, number) => {
      const value = panel.measured[index];
      const expected = panel.predicted?.[index] ?? null;
      if (value === null && expected === null) return;
      if (panel.series) {
        if (number !== current) return;
        for (const [name, values] of Object.entries(panel.series)) {
          const line = lines.insertRow();
          line.insertCell().textContent = name;
          line.insertCell().textContent = `${panel.name} ${stated(values[index], null, panel.rounding)}`;
        }
        return;
      }
      const line = lines.insertRow();
      line.className = number === current ? "now" : "";
      line.insertCell().textContent = panel.name;
      line.insertCell().textContent = stated(value, panel.error?.[index], panel.rounding);
      line.insertCell().textContent = expected === null ? "" : `predicted ${short(expected)}`;
    });
    tip.replaceChildren(made("strong", "", data.titles[index]), lines);
    tip.hidden = current === null; // a box of the network moves the lines only
    const [frame, plot] = [figure.getBoundingClientRect(), plots[current ?? 0].getBoundingClientRect()];
    const x = plot.left - frame.left + (plot.width * (index + 0.5)) / count;
    const right = x + 14 + tip.offsetWidth <= frame.width;
    tip.style.left = `${Math.max(4, right ? x + 14 : x - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${plot.bottom - frame.top + 6}px`; // below, so that the points stay visible
  };
  const hide = () => {
    here = null;
    mark(null);
    tip.hidden = true;
    for (const cursor of cursors) cursor.hidden = true;
  };
  const follow = (event) => {
    const panel = event.target.closest?.(".panel");
    if (!panel) return hide();
    const number = panels.indexOf(panel);
    const box = plots[number].getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    if (share < -0.02 || share > 1.02) return hide();
    point(nearest(Math.min(count - 1, Math.max(0, Math.floor(share * count))), number), number);
  };
  figure.addEventListener("pointermove", follow);
  figure.addEventListener("pointerleave", hide);
  figure.addEventListener("click", (event) => {
    follow(event);
    if (here !== null) go(here);
  });
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      event.preventDefault();
      point(Math.min(count - 1, Math.max(0, (here ?? -1) + step)), 0);
    } else if (event.key === "Enter" && here !== null) go(here);
    else if (event.key === "Escape") hide();
  });

  // Boxes of the network: color, arrow keys, what is inside.
  const inspectBox = (box) => {
    for (const inside of all(".inside", network)) {
      inside.hidden = inside.dataset.inside !== box.dataset.inside;
      if (!inside.hidden) [inside.querySelector("h3").textContent, inside.dataset.first] = [box.querySelector("title").textContent, members[chosen(box)][0]];
    }
    const hint = network.querySelector(".insides > p");
    if (hint) hint.hidden = "inside" in box.dataset;
  };
  const focusBox = (number) => {
    boxes.forEach((box, other) => box.setAttribute("tabindex", other === number ? 0 : -1));
    boxes[number].focus();
    inspectBox(boxes[number]);
  };
  const colorBoxes = (name) => {
    const column = data.network.columns[name];
    network.classList.toggle("colored", Boolean(column));
    network.querySelector(".scale").hidden = !column;
    boxes.forEach((box, number) => {
      const share = column?.share[number] ?? null;
      box.style.setProperty("--share", `${100 * (share ?? 0)}%`);
      box.classList.toggle("unknown", share === null);
      box.classList.toggle("out", Boolean(column?.bad[number]));
      box.querySelector(".value").textContent = column?.text[number] ?? "";
    });
  };
  if (network) {
    network.querySelector("select").addEventListener("change", (event) => colorBoxes(event.target.value));
    boxes.forEach((box, number) => {
      const shown = members[number].filter((index) => hasValue(index));
      const middle = shown[shown.length - 1] ?? members[number].at(-1);
      box.addEventListener("pointerenter", () => point(middle, null));
      box.addEventListener("pointerleave", () => hide());
      box.addEventListener("focus", () => point(middle, null));
      box.addEventListener("blur", () => hide());
      box.addEventListener("click", () => focusBox(number));
      box.addEventListener("dblclick", () => go(members[number][0]));
      box.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        const target = { Home: 0, End: boxes.length - 1 }[event.key] ?? (step ? number + step : null);
        if (event.key === "Enter" || event.key === " ") go(members[number][0]);
        else if (target === null || target < 0 || target >= boxes.length) return;
        else focusBox(target);
        event.preventDefault();
      });
    });
    for (const op of all(".op[data-offset]", network))
      op.addEventListener("click", () => go(Number(op.closest(".inside").dataset.first) + Number(op.dataset.offset)));
    const first = boxes.find((box) => box.matches(".error, .warning")) ?? boxes.find((box) => "inside" in box.dataset);
    if (first) inspectBox(first);
    for (const row of rows) row.addEventListener("pointerenter", () => mark(Number(row.dataset.row)));
  }
});
