// Parts of views: short tables, bars of parts, panels and facts.

/**
 * Makes a short table that shows all of its rows at once.
 * @param {string[]} names - of the columns; those that begin with `#` are numbers.
 * @param {Array<Array>} rows - texts and elements.
 * @param {boolean} free - whether columns are as wide as what is in them.
 */
function shortTable(names, rows, free = false) {
  const numeric = names.map((name) => name.startsWith("#"));
  const cell = (tag, content, index) =>
    make(
      `${tag}${numeric[index] ? ".n" : ""}${index ? "" : ".name"}`,
      {
        title: tag === "td" && typeof content === "string" ? content : null,
        scope: tag === "th" ? "col" : null,
      },
      content,
    );
  const head = names.map((name, index) => cell("th", name.replace("#", ""), index));
  const lines = rows.map((row) => make("tr", {}, ...row.map((value, i) => cell("td", value, i))));
  return make(
    `table.short${free ? ".free" : ""}`,
    {},
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...lines),
  );
}

/**
 * One bar of parts with its legend.
 * @param {Array<[string, number]>} parts - names and sizes.
 * @param {function(number): string} format - of the sizes.
 */
function stackedBar(parts, format) {
  const total = parts.reduce((sum, [, size]) => sum + size, 0) || 1;
  const text = parts.map(([name, size]) => `${name} ${format(size)}`).join(", ");
  const bar = make("div.stack", { role: "img", "aria-label": text });
  parts.forEach(([name, size], index) => {
    const part = make("i", { title: `${name}: ${format(size)}, ${percent(size, total)}` });
    part.style.background = `var(${colorName(name, index)})`;
    part.style.width = `${(100 * size) / total}%`;
    bar.append(part);
  });
  const legend = parts.map(([name, size], index) =>
    make("li", {}, swatch(name, index), name, make("b", {}, format(size)), percent(size, total)),
  );
  return make("div", {}, bar, make("ul.legend", {}, ...legend));
}

/** A small bar of parts for a cell. */
function miniBar(parts) {
  const total = parts.reduce((sum, [, size]) => sum + size, 0) || 1;
  const bar = make("span.mini", {
    title: parts.map(([name, size]) => `${name} ${percent(size, total)}`).join(", "),
  });
  for (const [name, size] of parts) {
    const part = make("i");
    part.style.background = `var(${colorName(name)})`;
    part.style.width = `${(100 * size) / total}%`;
    bar.append(part);
  }
  return bar;
}

/** A panel under its title. */
function panel(title, ...content) {
  return make("section.panel", {}, make("h3", {}, title), ...content);
}

/** Parts of a bar from the largest on; waiting comes last. */
function kindParts(byKind) {
  const parts = Object.entries(byKind).filter(([, cycles]) => cycles >= 0.5);
  const rank = ([name, cycles]) => (name === "idle" ? -1 : cycles);
  return parts.sort((a, b) => rank(b) - rank(a));
}

/** Names and values; those without a value are left out. */
function factList(pairs) {
  const kept = pairs.filter(
    ([, value]) => value !== null && value !== undefined && value !== "" && value !== "-",
  );
  return make(
    "dl.facts",
    {},
    ...kept.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
}
