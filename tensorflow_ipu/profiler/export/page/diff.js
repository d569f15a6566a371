// The page that compares two reports.

/** @typedef {Object} Comparison - what `views.comparison_data` gives. */

/** Columns for a number on both sides and its change. */
function sideColumns(table, format, keys = ["before", "after"], width = "118px") {
  const [before, after] = keys;
  const change = (row) => (table[after][row] || 0) - (table[before][row] || 0);
  const side = (key, title) => ({
    key,
    title,
    width,
    number: true,
    value: (row) => table[key][row],
    show: (row) => format(table[key][row]),
  });
  return [
    side(before, "Before"),
    side(after, "After"),
    {
      key: `change ${before}`,
      title: "Change",
      width,
      number: true,
      value: (row) => Math.abs(change(row)),
      show: (row) => changeText(change(row), format),
    },
    {
      key: `ratio ${before}`,
      title: "In %",
      width: "92px",
      number: true,
      note: "of what it was",
      value: (row) => (table[before][row] ? Math.abs(change(row) / table[before][row]) : null),
      show: (row) => ratioText(table[before][row], table[after][row]),
    },
  ];
}

/** A change, in the color of what grew or shrank. */
function changeText(change, format) {
  if (!change) return "0";
  return make(`span.${change > 0 ? "up" : "down"}`, {}, signed(change, format));
}

/** A change as a part of what was there. */
function ratioText(before, after) {
  if (before === null || before === undefined) return "new";
  if (after === null || after === undefined) return "gone";
  if (!before) return after ? "new" : "-";
  const part = (100 * (after - before)) / before;
  if (part > 1000) return make("span.up", {}, `× ${digitsOf(after / before)}`);
  return make(
    `span.${part > 0 ? "up" : part < 0 ? "down" : "soft"}`,
    {},
    signed(part, (value) => `${value.toFixed(1)} %`),
  );
}

/** Shows the page. */
function showDifferences() {
  const all = readData();
  const pairs = [all, ...all.others];
  const chosen = Number(readAddress().with) || 0;
  const data = pairs[chosen] || all;
  buildPage({
    titles: [...differenceTitles(data), pairs.length > 1 && otherSelect(pairs, chosen)].filter(Boolean),
    views: [
      (each) => differenceSummary(each, pairs),
      layerDifferences,
      operationDifferences,
      memoryDifferences,
      timelineDifferences,
    ].map((view) => view(data)),
  });
}

/** The choice of what the first report is compared with; the page is shown anew. */
function otherSelect(pairs, chosen) {
  const element = make(
    "select.field",
    {
      "aria-label": "compare with",
      change: () => {
        location.hash = addressOf({ ...state, with: element.value === "0" ? "" : element.value });
        location.reload();
      },
    },
    ...pairs.map(({ after }, i) =>
      make("option", { value: String(i) }, `with ${i + 2}: ${after.name} (${after.created})`),
    ),
  );
  element.value = String(chosen);
  return element;
}

/** The main numbers of all reports, where there are more than two. */
function allReports(pairs) {
  if (pairs.length < 2) return null;
  const heads = [pairs[0].before, ...pairs.map(({ after }) => after)];
  const rows = heads.map(({ name, summary }, i) => [
    `${i + 1}: ${name}`,
    summary.items_per_second == null ? "-" : `${count(summary.items_per_second)}/s`,
    summary.fits ? "yes" : "no",
    whole(summary.cycles),
    bytes(summary.worst.bytes),
  ]);
  const found = panel(
    "All reports",
    shortTable(["report", "#throughput", "fits", "#cycles of a launch", "#fullest tile"], rows, true),
  );
  found.classList.add("wide");
  return found;
}

/** The view of memory: tiles and liveness of both sides, and the tensors at the peak. */
function memoryDifferences({ memory, live }) {
  const sides = ["Before", "After"];
  const plot = (label, title, height) =>
    new StackPlot({ label, height, format: bytes, title, pick: () => {} });
  const tiles = sides.map((side) => plot(`bytes on each tile, ${side}`, (at) => `tile ${at}`, 190));
  const lives = sides.map((side) => plot(`bytes live, ${side}`, (at) => `step ${at}`, 150));
  const most = Math.max(...memory.map((each) => each.length));
  const ipus = range(most).map(String);
  let shown = null;
  const show = () => {
    const ipu = ipus.includes(state.ipu) ? Number(state.ipu) : 0;
    if (shown === ipu) return;
    shown = ipu;
    const found = memory.map((each) => each[Math.min(ipu, each.length - 1)]);
    const top = Math.max(...found.map(highestOf));
    found.forEach((each, side) => {
      const series = each.categories.map((category) => ({
        name: category.name,
        values: spread(category.tiles, each.tiles),
      }));
      tiles[side].fill(series, each.capacity);
      const always = new Float64Array(each.steps.length).fill(each.always_bytes);
      lives[side].fill([
        { name: "always live", values: always },
        { name: "not always live", values: Float64Array.from(each.steps) },
      ]);
      // Both over one axis.
      lives[side].most = top;
      lives[side].draw();
    });
  };
  const peak = live.name.length
    ? panel("Tensors at the peak of the fullest IPU", bothTable("tensor", live, () => bytes))
    : null;
  return {
    name: "memory",
    title: "Memory",
    show,
    tools: [most > 1 && select("IPU", ipus, "ipu", ipus.map((ipu) => `IPU ${ipu}`))],
    note: "Bytes on each tile at its peak, then bytes that are live over the program.",
    element: make(
      "div",
      {},
      ...sides.flatMap((side, i) => [make("h3", {}, side), tiles[i].element]),
      ...sides.flatMap((side, i) => [make("h3", {}, `Live, ${side}`), lives[i].element]),
      peak,
    ),
  };
}

/** Most bytes that are live on an IPU. */
function highestOf({ steps, always_bytes: always }) {
  return always + steps.reduce((a, b) => Math.max(a, b), 0);
}

/** What stands in the bar. */
function differenceTitles({ before, after }) {
  return [
    make("h1", {}, "Before and after"),
    make(
      "span.target",
      {},
      `${before.name} (${before.created}) and ${after.name} (${after.created})`,
    ),
  ];
}

/** The first view: both sides with their totals. */
function differenceSummary(data, pairs) {
  const { before, after, totals, kinds, categories } = data;
  const side = (title, { summary, target }) =>
    panel(
      title,
      make(
        "p",
        {},
        summary.fits
          ? make("span.pill.good", {}, "fits")
          : make("span.pill.bad", {}, "does not fit"),
        " ",
        make("b", {}, duration(summary.seconds)),
        `, ${whole(summary.cycles)} cycles`,
      ),
      factList([
        ["fullest tile", `${bytes(summary.worst.bytes)} of ${bytes(summary.worst.capacity)}`],
        [
          "throughput",
          summary.items_per_second == null ? null : `${count(summary.items_per_second)} elements/s`,
        ],
        ["speed", rate(summary.flops_per_second)],
        ["target", machineText(target)],
      ]),
      stackedBar(kindParts(summary.by_kind), whole),
    );
  return {
    name: "summary",
    title: "Summary",
    element: make(
      "div",
      {},
      make(
        "div.panels",
        {},
        allReports(pairs),
        side(`Before: ${before.name}`, before),
        side(`After: ${after.name}`, after),
        panel(
          "Totals",
          bothTable("number", totals, (row) =>
            totals.name[row].includes("bytes") ? bytes : whole,
          ),
        ),
        panel(
          "Cycles of the busiest IPU",
          bothTable("kind", kinds, () => whole),
        ),
        panel(
          "Memory by category",
          bothTable("category", categories, () => bytes),
        ),
      ),
    ),
  };
}

/** A short table of numbers on both sides. */
function bothTable(title, table, formatOf) {
  const rows = table.name.map((name, row) => {
    const format = formatOf(row);
    const change = (table.after[row] || 0) - (table.before[row] || 0);
    return [
      name,
      format(table.before[row]),
      format(table.after[row]),
      changeText(change, format),
      ratioText(table.before[row], table.after[row]),
    ];
  });
  return shortTable([title, "#before", "#after", "#change", "#in %"], rows, true);
}

/** The view of layers. */
function layerDifferences({ layers }) {
  const table = new Table({
    label: "layers before and after",
    id: String,
    sort: "change before",
    columns: [
      {
        key: "path",
        title: "Layer",
        width: "minmax(240px, 2fr)",
        value: (row) => layers.path[row],
        show: (row) => pathText(layers.path[row] || "(program)"),
      },
      ...sideColumns(layers, whole),
      ...sideColumns(layers, bytes, ["before_bytes", "after_bytes"], "100px").map((column) => ({
        ...column,
        title: `${column.title} (variables)`,
        width: "130px",
      })),
    ],
  });
  return filteredView(
    "layers",
    "Layers",
    table,
    layers.path,
    (row) => layers.path[row],
    "With the layers in them; sorted by the change of their cycles.",
  );
}

/** The view of operations. */
function operationDifferences({ operations }) {
  const text = (key, title, width = "104px") => ({
    key,
    title,
    width,
    value: (row) => operations[key][row] || "-",
  });
  const table = new Table({
    label: "operations before and after",
    id: String,
    sort: "change before",
    columns: [
      {
        key: "name",
        title: "Operation",
        width: "minmax(240px, 2fr)",
        value: (row) => operations.name[row],
        show: (row) => pathText(operations.name[row]),
      },
      ...sideColumns(operations, whole),
      text("before_bound", "Bound before"),
      text("after_bound", "Bound after"),
      text("before_partition", "Split before", "190px"),
      text("after_partition", "Split after", "190px"),
      ...sideColumns(operations, bytes, ["before_temporary", "after_temporary"]).map((column) => ({
        ...column,
        title: `${column.title} (temporary)`,
        width: "142px",
      })),
      text("type", "Type", "150px"),
      text("layer", "Layer", "190px"),
    ],
  });
  return filteredView(
    "operations",
    "Operations",
    table,
    operations.name,
    (row) => `${operations.name[row]}\n${operations.type[row]}\n${operations.layer[row]}`,
    "Matched by layer and name.",
  );
}

/** A view with a table that can be filtered by words, and by whether there is a change. */
function filteredView(name, title, table, rows, text, note) {
  const all = range(rows.length);
  let shown = null;
  const show = () => {
    if (shown === (state.q || "")) return;
    shown = state.q || "";
    const words = shown.toLowerCase().split(/\s+/).filter(Boolean);
    table.fill(
      all.filter((row) => words.every((word) => (text(row) || "").toLowerCase().includes(word))),
    );
  };
  return {
    name,
    title,
    count: rows.length,
    full: true,
    note,
    show,
    tools: [filterField(name, "filter")],
    element: table.element,
  };
}

/** Both timelines over one axis, so that the shorter one is shorter. */
function timelineDifferences(data) {
  const total = Math.max(...data.timelines.map((timeline) => timeline.cycles));
  const plots = data.timelines.map(
    (timeline, side) =>
      new Lanes({
        label: side ? "timeline after" : "timeline before",
        format: count,
        hint: (span) => spanLines(sideModel(data, side), span),
        open: () => {},
      }),
  );
  plots.forEach((plot, side) => {
    const { redraw } = plot;
    plot.zoom.changed = () => {
      const other = plots[1 - side];
      [other.zoom.from, other.zoom.to] = [plot.zoom.from, plot.zoom.to];
      redraw();
      other.redraw();
    };
  });
  let shown = false;
  const show = () => {
    if (shown) return;
    shown = true;
    plots.forEach((plot, side) =>
      plot.fill(timelineGroups(sideModel(data, side), data.timelines[side], "work"), total),
    );
  };
  return {
    name: "timeline",
    title: "Timelines",
    show,
    note: "Both over the same cycles; they are zoomed together.",
    element: make(
      "div",
      {},
      ...plots.flatMap((plot, side) => [
        make("h3", {}, side ? "After" : "Before"),
        plot.element,
        plot.said,
      ]),
      make("ul.legend", {}, timelineLegend(null, "work")),
    ),
  };
}

/** What drawing a timeline asks of a model, of one side. */
function sideModel(data, side) {
  const report = side ? data.after : data.before;
  const paths = data.layer_names[side];
  return {
    text: (position) => (position === null || position === undefined ? "" : data.texts[position]),
    target: report.target,
    program: { stage_names: report.stage_names || [] },
    layers: { name: paths.map((path) => path.slice(path.lastIndexOf("/") + 1)), path: paths },
    layerName: (layer) => paths[layer] || report.name,
  };
}
